"""The Triton kernels on a device against the reference on the CPU, in float32: the first half of `gpu`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from engine.kv_cache import KVCache
from engine.model.decoder import Decoder
from kernels import reference
from kernels import triton as kernels
from kernels.dispatch import KernelChoice
from tests.bench.graphed_step import GraphedStep, cache_on, on_device
from tests.support.decoding import Stream, batch_of

PAGE_TOKENS = 16
HEADS, KV_HEADS = 6, 2
MIXED = ((1, 300), (40, 200), (1, 17), (129, 129), (1, 1))
"""Queries and context of each sequence: decoding rows of one and of several splits, prompts with and without history."""

STEPS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@dataclass(frozen=True)
class Check:
    """The largest difference, as a share of what is allowed."""

    name: str
    share: float

    @property
    def passed(self) -> bool:
        return self.share <= 1.0


def compared(name: str, got: torch.Tensor, expected: torch.Tensor, step: float) -> Check:
    """A number that is none counts as infinitely wrong."""
    got, expected = got.detach().cpu().float(), expected.detach().cpu().float()
    difference = (got - expected).abs() / (step * (1.0 + expected.abs()))
    return Check(name, float(difference.nan_to_num(float("inf")).amax()))


def check_all(
    device: torch.device, head_sizes: Sequence[int], parts: Sequence[tuple[int, int]], vocabulary: int = 49152
) -> Iterator[Check]:
    """Every kernel, with every option it has."""
    capped = reference.ScoreRule(0.2, 10.0)
    for head_size in head_sizes:
        yield attention_check(device, parts, head_size, torch.bfloat16, None, None)
        yield attention_check(device, parts, head_size, torch.bfloat16, 100, capped)
    yield attention_check(device, parts, head_sizes[0], torch.float32, 33, capped)
    yield attention_check(device, parts, head_sizes[0], torch.float16, None, None)
    for dtype in (torch.int8, torch.float8_e4m3fn):
        yield from small_page_checks(device, parts, head_sizes[0], dtype)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        yield from row_checks(device, dtype)
    for head_size in head_sizes:
        yield from rotation_checks(device, head_size, torch.bfloat16)
    yield from sampling_checks(device, vocabulary)
    yield from decoder_checks(device)


def rows(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def lengths(parts: Sequence[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query starts, context lengths, and tables of pages scattered over just as many."""
    needed = [-(-context // PAGE_TOKENS) for _, context in parts]
    pages = torch.randperm(sum(needed), generator=torch.Generator().manual_seed(1)).split(needed)
    tables = torch.nn.utils.rnn.pad_sequence(list(pages), batch_first=True)
    starts = torch.tensor([0, *(count for count, _ in parts)]).cumsum(0)
    return starts, torch.tensor([context for _, context in parts]), tables


def pages_for(parts: Sequence[tuple[int, int]]) -> int:
    return sum(-(-context // PAGE_TOKENS) for _, context in parts)


def attention_check(
    device: torch.device,
    parts: Sequence[tuple[int, int]],
    head_size: int,
    dtype: torch.dtype,
    window: int | None,
    rule: reference.ScoreRule | None,
) -> Check:
    keys, values = rows(2, pages_for(parts), PAGE_TOKENS, KV_HEADS, head_size, dtype=dtype)
    queries = rows(sum(count for count, _ in parts), HEADS, head_size, dtype=dtype, seed=2)
    wide = reference.plan_attention(*lengths(parts), PAGE_TOKENS, torch.float32, window)
    expected = reference.paged_attention(queries.float(), keys.float(), values.float(), wide, rule)
    batch = [part.to(device) for part in lengths(parts)]
    plan = kernels.plan_attention(batch[0], batch[1], batch[2], PAGE_TOKENS, dtype, window)
    got = kernels.paged_attention(queries.to(device), keys.to(device), values.to(device), plan, rule)
    options = f"{head_size} {dtype}{f' window {window}' if window else ''}{' capped' if rule else ''}"
    return compared(f"paged_attention {options}", got, expected, STEPS[dtype])


def small_page_checks(
    device: torch.device, parts: Sequence[tuple[int, int]], head_size: int, dtype: torch.dtype
) -> Iterator[Check]:
    """Pages of eight bits are written, and what attention reads from them is what their scales say."""
    shape = (pages_for(parts), PAGE_TOKENS, KV_HEADS, head_size)
    tokens = shape[0] * 3
    qkv = rows(tokens, (HEADS + 2 * KV_HEADS) * head_size)
    slots = torch.randperm(shape[0] * PAGE_TOKENS, generator=torch.Generator().manual_seed(3))[:tokens]
    angles = reference.rotary_angles(torch.arange(tokens), torch.rand(head_size // 2), torch.float32)
    exact = torch.zeros(2, *shape)
    reference.rotate_and_store(qkv, angles, slots, exact[0], exact[1])
    small = torch.zeros(2, *shape, dtype=torch.uint8, device=device).view(dtype)
    scales = kernels.PageScales(*torch.zeros(2, *shape[:3], device=device))
    moved = kernels.RotaryAngles(angles.cosines.to(device), angles.sines.to(device))
    kernels.rotate_and_store(qkv.to(device), moved, slots.to(device), small[0], small[1], scales=scales)
    meant = [
        part.cpu().float() * scale.cpu()[..., None]
        for part, scale in zip(small, (scales.keys, scales.values), strict=True)
    ]
    largest = exact.abs().amax(-1, keepdim=True).clamp(min=1e-6)
    # Half a step of int8, or of the three bits that a float8 has behind its first; a little more for the arithmetic.
    step = 0.51 / 127 if dtype == torch.int8 else 0.51 / 8
    yield compared(f"rotate_and_store {dtype}", (torch.stack(meant) - exact) / largest, torch.zeros(1), step)
    queries = rows(sum(count for count, _ in parts), HEADS, head_size, seed=2)
    wide = reference.plan_attention(*lengths(parts), PAGE_TOKENS, torch.float32)
    batch = [part.to(device) for part in lengths(parts)]
    plan = kernels.plan_attention(batch[0], batch[1], batch[2], PAGE_TOKENS, torch.float32)
    got = kernels.paged_attention(queries.to(device), small[0], small[1], plan, None, scales)
    expected = reference.paged_attention(queries, meant[0], meant[1], wide)
    yield compared(f"paged_attention {dtype}", got, expected, STEPS[torch.float32])


def row_checks(device: torch.device, dtype: torch.dtype) -> Iterator[Check]:
    step = 2 * STEPS[dtype]
    hidden, added = rows(2, 33, 576, dtype=dtype)
    for weight in (rows(576, dtype=dtype, seed=1), rows(576, seed=1)):
        kind = f"{dtype}, weight {weight.dtype}"
        got = kernels.rms_norm(hidden.to(device), weight.to(device), 1e-5)
        yield compared(f"rms_norm {kind}", got, reference.rms_norm(hidden, weight, 1e-5), step)
        both = kernels.add_rms_norm(hidden.to(device), added.to(device), weight.to(device), 1e-5, weight.to(device))
        expected = reference.add_rms_norm(hidden, added, weight, 1e-5, weight)
        yield compared(f"add_rms_norm sum {kind}", both[0], expected[0], step)
        yield compared(f"add_rms_norm norm {kind}", both[1], expected[1], 4 * step)
    gate_up = rows(33, 2 * 1536, dtype=dtype)
    yield compared(f"silu_mul {dtype}", kernels.silu_mul(gate_up.to(device)), reference.silu_mul(gate_up), step)
    yield compared(f"gelu_mul {dtype}", kernels.gelu_mul(gate_up.to(device)), reference.gelu_mul(gate_up), step)


def rotation_checks(device: torch.device, head_size: int, dtype: torch.dtype) -> Iterator[Check]:
    tokens = 20
    qkv = rows(tokens, (HEADS + 2 * KV_HEADS) * head_size, dtype=dtype)
    norm = rows(HEADS + KV_HEADS, head_size, dtype=dtype, seed=1)
    frequencies = 1.0 / 10000 ** (torch.arange(0, head_size, 2) / head_size)
    angles = reference.rotary_angles(torch.arange(100, 100 + tokens), frequencies, dtype)
    slots = torch.randperm(48, generator=torch.Generator().manual_seed(1))[:tokens]
    results = []
    for operations, place in ((kernels, device), (reference, torch.device("cpu"))):
        pages = torch.zeros(2, 3, PAGE_TOKENS, KV_HEADS, head_size, dtype=dtype, device=place)
        turning = kernels.RotaryAngles(angles.cosines.to(place), angles.sines.to(place))
        arguments = (qkv.to(place), turning, slots.to(place), pages[0], pages[1], norm.to(place), 1e-5)
        results.append((operations.rotate_and_store(*arguments), pages))
    step = 4 * STEPS[dtype]
    yield compared(f"rotate_and_store queries {head_size} {dtype}", results[0][0], results[1][0], step)
    yield compared(f"rotate_and_store pages {head_size} {dtype}", results[0][1], results[1][1], step)


def sampling_checks(device: torch.device, vocabulary: int) -> Iterator[Check]:
    """Greedy is the largest logit. A draw is what the same kernel's definition, written in torch in float64, draws."""
    count = 8
    logits = 3 * rows(count, vocabulary)
    keys = torch.tensor([kernels.noise_key(seed, 7) for seed in range(count)])
    columns = torch.ones(count, device=device)
    none = torch.zeros(count, dtype=torch.int32, device=device)
    moved = logits.to(device)
    greedy = kernels.sample(moved, 0 * columns, none, columns, 0 * columns, keys.to(device))
    yield compared("sample greedy", greedy, logits.argmax(-1), 1e-9)
    limits = none + 40
    drawn = kernels.sample(moved, columns, limits, 0.9 * columns, 0.01 * columns, keys.to(device)).cpu()
    order = logits.double().sort(-1, descending=True)
    best = order.values[:, :40]
    before = best.softmax(-1).cumsum(-1).roll(1, -1)
    before[:, 0] = 0.0
    kept = (before < 0.9) & (best >= best[:, :1] + torch.tensor(0.01).log())
    allowed = [set(ids[mask].tolist()) for ids, mask in zip(order.indices[:, :40], kept, strict=True)]
    outside = sum(token not in tokens for token, tokens in zip(drawn.tolist(), allowed, strict=True))
    yield Check("sample within top_k, top_p and min_p", float("inf") if outside else 0.0)


def decoder_checks(device: torch.device) -> Iterator[Check]:
    """A small decoder, prompts first and then three rows of a bucket of four: as with the reference on the CPU."""
    from tests.support.random_decoder import SHAPE, random_llama

    by_reference = random_llama()
    weights = by_reference.weights
    moved = dataclasses.replace(
        weights,
        embedding=weights.embedding.to(device),
        layers=[
            dataclasses.replace(
                layer,
                **{
                    field.name: value.to(device)
                    for field in dataclasses.fields(layer)
                    if (value := getattr(layer, field.name)) is not None
                },
            )
            for layer in weights.layers
        ],
        final_norm=weights.final_norm.to(device),
        head=weights.head.to(device),
        rotations=[
            dataclasses.replace(rotation, frequencies=rotation.frequencies.to(device)) for rotation in weights.rotations
        ],
    )
    by_triton = Decoder(SHAPE, moved, KernelChoice("triton", "asked for by the check", kernels))
    spec = SHAPE.kv_spec(torch.float32)
    caches = [KVCache.for_spec(spec, 16), cache_on(device, KVCache.for_spec(spec, 16))]
    streams = [Stream(list(range(3 + start, 40 + start)), [start, start + 5, start + 9]) for start in range(3)]
    prompts = batch_of([(stream, 20 + index) for index, stream in enumerate(streams)])
    expected = by_reference.forward(prompts, caches[0])
    got = by_triton.forward(on_device(prompts, device), caches[1])
    yield compared("decoder, prompts", got, expected, 1e-4)
    for index, stream in enumerate(streams):
        stream.done += 20 + index
    decoding = batch_of([(stream, 1) for stream in streams])
    expected = by_reference.forward(decoding, caches[0])
    plain = by_triton.forward(on_device(decoding, device), caches[1])
    yield compared("decoder, decoding", plain, expected, 1e-4)
    bucket = GraphedStep(by_triton, caches[1], 4, 5, device)
    yield compared("decoder, bucket of 4 with 3 rows", bucket(on_device(decoding, device)), expected, 1e-4)
