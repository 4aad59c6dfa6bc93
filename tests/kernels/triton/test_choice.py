"""Triton's kernels are chosen on a CUDA device that can run them, and not so much as imported anywhere else."""

from __future__ import annotations

import subprocess
import sys

import torch

from kernels.dispatch import choose_cuda_kernels, choose_kernels


def test_a_cpu_is_served_without_triton_though_it_is_installed() -> None:
    assert choose_kernels(device=torch.device("cpu")).name == "reference"


def test_on_cuda_triton_is_chosen_where_it_is_installed_and_the_device_new_enough() -> None:
    missing = choose_cuda_kernels("NVIDIA H200", (9, 0), has_triton=False)
    assert (missing.name, missing.operations.__name__) == ("reference", "kernels.reference")
    assert "triton is not installed" in missing.reason
    old = choose_cuda_kernels("Tesla T4", (7, 5), has_triton=True)
    assert (old.name, old.operations.__name__) == ("reference", "kernels.reference")
    assert "8.0" in old.reason
    assert "7.5" in old.reason


def test_the_wish_for_the_reference_counts_on_cuda_too() -> None:
    assert choose_kernels("reference", device=torch.device("cuda")).name == "reference"


def test_triton_is_not_imported_before_it_is_chosen() -> None:
    code = (
        "import sys, kernels.dispatch as dispatch; dispatch.choose_kernels(); before = 'triton' in sys.modules; "
        "choice = dispatch.choose_cuda_kernels('NVIDIA H200', (9, 0), has_triton=True); "
        "print(before, choice.name, choice.operations.__name__, 'triton' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "triton", "kernels.triton", "True"]
