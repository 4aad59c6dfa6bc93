"""Compiles every kernel for NVIDIA devices, without one: the interpreter accepts what the compiler does not.

    python -m tests.kernels.triton.compiled

Run in a process of its own, where triton was imported without its interpreter. The operations are called as ever, on the CPU;
where they would launch a kernel, it is compiled with the types of its arguments, down to machine code. Prints a line a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction, mangle_type

from kernels import reference
from kernels import triton as kernels

PAGES, PAGE_TOKENS = 9, 16


def compile_instead(capability: int) -> None:
    """From now on, whoever launches a kernel compiles it."""

    def compiled(kernel: JITFunction, *arguments: Any, grid: object, warmup: bool = False, **named: Any) -> None:
        names = [parameter.name for parameter in kernel.params]
        options = {name: value for name, value in named.items() if name not in names}
        bound = dict(zip(names, arguments, strict=False)) | {
            name: value for name, value in named.items() if name in names
        }
        fixed = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
        # As Triton does: a whole number that is 1 is compiled in.
        fixed |= {name for name, value in bound.items() if isinstance(value, int) and value == 1}
        types = {name: "constexpr" if name in fixed else mangle_type(bound[name]) for name in names}
        source = ASTSource(kernel, types, {(names.index(name),): bound[name] for name in fixed})
        binary = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        print(f"{kernel.fn.__name__} for {capability / 10}: {binary.metadata.shared} bytes of shared memory")

    JITFunction.run = compiled


def attend_and_rotate(
    head_size: int,
    rows: torch.dtype,
    stored: torch.dtype,
    rule: reference.ScoreRule | None = None,
    kv_heads: int = 2,
    contexts: Sequence[int] = (30, 140),
) -> None:
    """The first sequence has one query and the last four; a single one has all five."""
    heads = 3 * kv_heads
    scales = None
    if stored.itemsize == 1:
        scales = kernels.PageScales(*torch.zeros(2, PAGES, PAGE_TOKENS, kv_heads))
    keys, values = torch.zeros(2, PAGES, PAGE_TOKENS, kv_heads, head_size).to(stored)
    qkv = torch.zeros(5, (heads + 2 * kv_heads) * head_size, dtype=rows)
    norm = None if rule is None else torch.zeros(heads + kv_heads, head_size)
    angles = kernels.rotary_angles(torch.arange(5), torch.rand(head_size // 2), rows)
    queries = kernels.rotate_and_store(qkv, angles, torch.arange(5), keys, values, norm, 1e-5, scales)
    tables = torch.zeros(len(contexts), -(-max(contexts) // PAGE_TOKENS), dtype=torch.int64)
    window = None if rule is None else 40
    starts = torch.tensor([0, 1, 5] if len(contexts) == 2 else [0, 5])
    plan = kernels.plan_attention(starts, torch.tensor(contexts), tables, PAGE_TOKENS, rows, window)
    kernels.paged_attention(queries, keys, values, plan, rule, scales)


def all_others() -> None:
    rows, weight = torch.zeros(3, 576, dtype=torch.bfloat16), torch.zeros(576)
    kernels.rms_norm(rows, weight, 1e-5)
    kernels.add_rms_norm(rows, rows, weight, 1e-5)
    kernels.add_rms_norm(rows, rows, weight, 1e-5, weight)
    kernels.silu_mul(rows)
    kernels.gelu_mul(rows)
    columns = torch.zeros(3)
    kernels.sample(torch.zeros(3, 49152), columns, columns.int(), columns, columns, columns.long())


def main() -> None:
    compile_instead(80)
    attend_and_rotate(64, torch.bfloat16, torch.bfloat16)
    attend_and_rotate(128, torch.bfloat16, torch.int8, reference.ScoreRule(0.1, 5.0))
    all_others()
    compile_instead(90)
    attend_and_rotate(80, torch.bfloat16, torch.float8_e4m3fn, kv_heads=1, contexts=[20])
    attend_and_rotate(96, torch.float32, torch.float32, reference.ScoreRule(0.1, 5.0))


if __name__ == "__main__":
    main()
