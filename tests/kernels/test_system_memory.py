"""Memory from the system: zeros, private, and there before its first use where somebody asks for that."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from kernels.system_memory import touch, zeros_from_system

SIZE_BYTES = 8 << 20

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a mapping is")


def mapping(memory: torch.Tensor) -> dict[str, str]:
    """What the system says of the mapping this lies in: its permissions, and the fields of `smaps`."""
    found: dict[str, str] = {}
    with Path("/proc/self/smaps").open() as lines:
        for line in lines:
            if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line):
                if found:
                    return found
                if int(head[1], 16) <= memory.data_ptr() < int(head[2], 16):
                    found["permissions"] = head[3]
            elif found:
                name, _, value = line.partition(":")
                found[name] = value.strip()
    return found


def resident_bytes(memory: torch.Tensor) -> int:
    return int(mapping(memory)["Rss"].split()[0]) * 1024


@pytest.mark.parametrize("size_bytes", [0, 1, 5000])
def test_there_are_as_many_zeros_as_were_asked_for_and_one_at_least(size_bytes: int) -> None:
    zeros = zeros_from_system(size_bytes)
    assert len(zeros) == max(size_bytes, 1)
    assert not zeros.any()


@only_linux
def test_memory_is_private_so_that_it_may_be_in_huge_pages() -> None:
    """Shared memory has none where `shmem_enabled` says never, whatever is advised."""
    asked, plain = zeros_from_system(SIZE_BYTES), zeros_from_system(SIZE_BYTES, in_huge_pages=False)
    for memory in (asked, plain):
        assert mapping(memory)["permissions"] == "rw-p"
    assert "hg" in mapping(asked)["VmFlags"].split()
    assert "hg" not in mapping(plain)["VmFlags"].split()


@only_linux
def test_what_is_touched_is_there_and_keeps_what_it_held() -> None:
    memory = zeros_from_system(SIZE_BYTES, in_huge_pages=False)
    memory[5] = 7
    assert resident_bytes(memory) < SIZE_BYTES // 2
    assert touch(memory.data_ptr(), SIZE_BYTES // 2)
    assert resident_bytes(memory) >= SIZE_BYTES // 2
    assert memory[5] == 7
    assert memory.sum() == 7


def test_nothing_is_touched_of_nothing() -> None:
    assert not touch(0, 0)
