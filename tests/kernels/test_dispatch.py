"""Which implementation runs is known and told, and there is always one that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.cpu import build as builder
from kernels.cpu.build import library_path
from kernels.cpu.variant import AVX2, AVX512, cpu_flags, variant_for
from kernels.dispatch import choose_kernels
from tests.support.cpu_kernels import KERNELS_FOLDER, RUNNABLE, kernels_of


def test_without_a_folder_or_by_wish_plain_torch_runs() -> None:
    for choice in (choose_kernels(), choose_kernels("reference", KERNELS_FOLDER)):
        assert choice.name == "reference"
        assert "torch" in choice.reason
        assert choice.operations.__name__ == "kernels.reference"
        assert choice.cpu is None
        assert choice.buildable is None


def test_a_cpu_without_the_instructions_is_told_which_it_lacks(tmp_path: Path) -> None:
    choice = choose_kernels("auto", tmp_path, flags={"fma", "sse2"})
    assert choice.name == "reference"
    assert "this CPU lacks avx2, f16c" in choice.reason
    assert choice.buildable is None


def test_the_best_variant_the_flags_allow_is_chosen() -> None:
    assert variant_for(AVX512.flags | {"sse2"}) is AVX512
    assert variant_for(AVX512.flags - {"avx512_bf16"}) is AVX2
    assert variant_for({"sse2"}) is None


def test_flags_are_read_from_the_system_and_a_system_without_them_has_none(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: fpu avx2 fma\n\nprocessor\t: 1\nflags\t\t: fpu\n")
    assert cpu_flags(info) in ({"fpu", "avx2", "fma"}, frozenset())
    info.write_text("processor\t: 0\n")
    assert cpu_flags(info) == frozenset()
    assert cpu_flags(tmp_path / "missing") == frozenset()


def test_kernels_that_are_not_built_yet_can_be(tmp_path: Path) -> None:
    choice = choose_kernels("auto", tmp_path, flags=AVX2.flags)
    assert choice.name == "reference"
    assert choice.buildable is AVX2
    assert "the avx2 kernels are not built yet" in choice.reason


def test_without_a_compiler_nothing_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    choice = choose_kernels("auto", tmp_path, flags=AVX2.flags)
    assert choice.name == "reference"
    assert choice.buildable is None
    assert "there is no C++ compiler" in choice.reason


def test_a_damaged_library_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of other options than the good one, which this process may have loaded already.
    monkeypatch.setattr(builder, "OPTIONS", (*builder.OPTIONS, "-g"))
    library_path(tmp_path, AVX2).write_bytes(b"no library")
    choice = choose_kernels("auto", tmp_path, flags=AVX2.flags)
    assert choice.name == "reference"
    assert "cannot be loaded" in choice.reason


def test_built_kernels_are_used() -> None:
    for variant in RUNNABLE:
        kernels_of(variant)
        choice = choose_kernels("auto", KERNELS_FOLDER, flags=variant.flags)
        assert choice.name == f"cpu-{variant.name}"
        assert choice.cpu is not None
        assert variant.name in choice.reason
