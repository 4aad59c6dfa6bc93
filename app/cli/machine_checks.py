"""Doctor's checks of the machine: Python, torch, CPU, threads, compiler, memory and disk.

Each check takes the facts it judges, so that tests can invent a machine; the functions that gather them are at the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path

from app.cli.findings import Finding, good, warning, wrong
from app.settings import Settings

GIB = 1 << 30
SERVER_BYTES = GIB
"""Memory of a server with the bundled model in fp32, without its KV cache; measured: 0.4 GiB, and 0.6 GiB of files it maps."""

SMALLEST_KV_MIB = 16
"""Below this nothing useful fits, whatever the machine."""

FREE_DISK_WANTED = 1 * GIB
"""The bundled model takes 0.1 GB and its converted weights 0.5 GB; the rest is for what people say."""

USEFUL_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimd")
MATRIX_SIZE = 1024
REPEATS = 10
LEAST_SPEEDUP = 1.2


def check_python(version: tuple[int, ...]) -> Finding:
    """Python itself."""
    text = "Python " + ".".join(map(str, version[:3]))
    if version < (3, 11):
        return wrong("python", text, "Install Python 3.11 or newer.")
    return good("python", text)


def check_cpu(flags: set[str], cores: int, usable: int) -> Finding:
    """Instructions and cores."""
    known = [flag for flag in USEFUL_FLAGS if flag in flags]
    text = f"{usable} of {cores} cores usable; {', '.join(known) or 'no vector instructions known to Kvasir'}"
    if flags and "avx2" not in flags and "asimd" not in flags:
        return warning("cpu", text, "Answers will be slow on this CPU; use a machine with AVX2 or better.")
    if usable < cores:
        return warning(
            "cpu", text, "An affinity mask or a container's limit keeps Kvasir off the other cores; widen it."
        )
    return good("cpu", text)


def check_threads(usable: int, threads: int, one_s: float, all_s: float) -> Finding:
    """Whether the threads that compute really help (vllm-project/vllm#10971)."""
    speedup = one_s / all_s if all_s > 0 else 1.0
    text = (
        f"{threads} on {usable} usable cores; a {MATRIX_SIZE}² matrix product takes {one_s * 1000:.0f} ms with 1 thread "
        f"and {all_s * 1000:.0f} ms with {threads}: {speedup:.1f} times as fast"
    )
    if threads > usable:
        return warning(
            "threads", text, f"Set KVASIR_THREADS={usable} or 0: more threads than cores slow each other down."
        )
    if threads < usable:
        return warning("threads", text, "Unset OMP_NUM_THREADS, or set KVASIR_THREADS=0, to use every core.")
    if threads > 1 and speedup < LEAST_SPEEDUP:
        return warning(
            "threads", text, "The cores are busy with something else, or bound to one; look at `top` and taskset."
        )
    return good("threads", text)


def check_compiler(path: str | None) -> Finding:
    """A C++ compiler, which builds the fast kernels; without one plain torch computes."""
    if path is None:
        return warning(
            "compiler",
            "no C++ compiler",
            "Install g++: answers are several times as fast with kernels compiled for this CPU.",
        )
    return good("compiler", path)


def check_memory(available: int, kv_memory: int, kv_host: int) -> Finding:
    """Room for weights, the KV cache and the sessions that wait beside it, all together."""
    needed = SERVER_BYTES + kv_memory + kv_host
    sessions = "the KV cache, the sessions beside it" if kv_host else "the KV cache"
    text = f"{available / GIB:.1f} GiB available; {sessions} and the bundled model need up to {needed / GIB:.1f} GiB"
    if available >= needed:
        return good("memory", text)
    room = available - SERVER_BYTES - kv_memory
    if kv_host and room >= 0:
        return wrong("memory", text, f"Set KVASIR_KV_HOST_MIB to {room >> 20} or less, or free some memory.")
    fit = max(SMALLEST_KV_MIB, (available - SERVER_BYTES) * 3 // 4 >> 20)
    host = " and KVASIR_KV_HOST_MIB to 0" if kv_host else ""
    return wrong("memory", text, f"Set KVASIR_KV_MEMORY_MIB to {fit} or less{host}, or free some memory.")


def check_disk(free: int, folder: Path, kv_disk: int, kv_disk_used: int) -> Finding:
    """Room for the model, for what people say, and for what the disk tier may still grow by."""
    growth = max(0, kv_disk - kv_disk_used)
    text = f"{free / GIB:.1f} GiB free for {folder}"
    if free < FREE_DISK_WANTED:
        return warning(
            "disk",
            text,
            f"Free some space: {FREE_DISK_WANTED / GIB:.0f} GiB is wanted for the model and the database.",
        )
    if free < FREE_DISK_WANTED + growth:
        fit = (free + kv_disk_used - FREE_DISK_WANTED) >> 20
        return warning(
            "disk",
            f"{text}; sessions may take another {growth / GIB:.1f} GiB there",
            f"Set KVASIR_KV_DISK_MIB to {max(0, fit)} or less, or free some space.",
        )
    return good("disk", text)


def check_torch(threads_wanted: int) -> list[Finding]:
    """torch, and how fast it multiplies here."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return [wrong("torch", f"cannot be imported: {error}", "Install Kvasir again, in an environment of its own.")]
    usable = len(os.sched_getaffinity(0))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads_wanted or usable)
        threads = torch.get_num_threads()
        all_s = _product_s(torch.ones(MATRIX_SIZE, MATRIX_SIZE))
        torch.set_num_threads(1)
        one_s = _product_s(torch.ones(MATRIX_SIZE, MATRIX_SIZE))
    finally:
        torch.set_num_threads(before)
    return [good("torch", torch.__version__), check_threads(usable, threads, one_s, all_s)]


def check_machine(settings: Settings) -> list[Finding]:
    """All of them, on this machine."""
    data = settings.data
    existing = next(folder for folder in (data.resolve(), *data.resolve().parents) if os.access(folder, os.F_OK))
    return [
        check_python(sys.version_info[:3]),
        *check_torch(settings.threads),
        check_cpu(cpu_flags(), os.cpu_count() or 1, len(os.sched_getaffinity(0))),
        check_compiler(shutil.which("g++") or shutil.which("clang++")),
        check_memory(available_memory(), settings.kv_memory_mib << 20, settings.kv_host_mib << 20),
        check_disk(shutil.disk_usage(existing).free, data, settings.kv_disk_mib << 20, folder_bytes(data / "kv")),
    ]


def folder_bytes(folder: Path) -> int:
    """What the files below a folder take; 0 for one that is not there or may not be looked into."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
    return total


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """What the CPU can do, in the kernel's words; empty where that is not told."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.partition(":")[2].split()}


def available_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that may still be used, a container's limit included."""
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except OSError:
        return available
    return available if limit == "max" else min(available, int(limit) - used)


def _product_s(matrix: object) -> float:
    import torch

    assert isinstance(matrix, torch.Tensor)
    torch.mm(matrix, matrix)
    began = time.perf_counter()
    for _ in range(REPEATS):
        torch.mm(matrix, matrix)
    return (time.perf_counter() - began) / REPEATS
