"""Checks the Triton kernels on an NVIDIA GPU against the reference, and times them.

    python -m tests.bench.gpu [--json FILE] [--only checks|times]

Needs torch for CUDA and triton, no model file: the decoder that is timed has the default model's shape and random weights.
Under five minutes, most of it compiling. Times are of the device: twenty calls are recorded into a CUDA graph, the graph is
replayed, and the median of the replays is divided by twenty. What fits into the device's cache stays there between the calls, so
kernels on small data are timed warm. Exits with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import triton

from engine.kv_cache import KVCache
from engine.model.architecture import LayerAttention, ModelShape
from engine.model.decoder import Decoder, DecoderWeights, LayerWeights
from engine.model.rope import Rope
from engine.model.rotation import rotation_of
from kernels import triton as kernels
from kernels.dispatch import choose_kernels
from tests.bench.gpu_checks import MIXED, PAGE_TOKENS, Check, check_all, lengths, pages_for, rows
from tests.bench.graphed_step import BUCKETS, GraphedStep, cache_on, on_device
from tests.support.decoding import Stream, batch_of

HEAD_SIZES = (64, 80, 96, 128, 256)
STREAMS = (1, 8, 32)
CONTEXTS = (512, 2048)
CALLS, REPLAYS = 20, 15
GIB = 1 << 30

SMOLLM2_135M = ModelShape(
    architecture="LlamaForCausalLM",
    hidden_size=576,
    intermediate_size=1536,
    heads=9,
    kv_heads=3,
    head_size=64,
    vocabulary_size=49152,
    context_tokens=8192,
    norm_epsilon=1e-5,
    tied_embeddings=True,
    attention=(LayerAttention(Rope(100000.0)),) * 30,
    score_scale=64**-0.5,
)
LLAMA_8B_HEADS = (32, 8, 128)
"""Heads, key heads, head size: a larger model's attention, which is timed beside the default model's."""


@dataclass(frozen=True)
class Timing:
    """`rate` in words: what was read or made per second."""

    name: str
    microseconds: float
    rate: str = ""


def microseconds(run: Callable[[], object]) -> float:
    """Of one call, on the device."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            run()
    return replayed(graph.replay) / CALLS


def replayed(replay: Callable[[], None]) -> float:
    """Median microseconds of a replay, after two to warm up."""
    times = []
    for _ in range(REPLAYS + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000)
    return statistics.median(times[2:])


def attention_times(device: torch.device) -> Iterator[Timing]:
    """Decoding at each load and prompts of each length, in bfloat16; for decoding, how fast pages were read."""
    for heads, kv_heads, head_size in ((9, 3, 64), LLAMA_8B_HEADS):
        shape = f"{heads}/{kv_heads} heads of {head_size}"
        for context in CONTEXTS:
            for parts in [*([(1, context)] * streams for streams in STREAMS), [(context, context)]]:
                tokens = sum(count for count, _ in parts)
                queries = rows(tokens, heads, head_size, dtype=torch.bfloat16).to(device)
                pages = torch.randn(
                    2, pages_for(parts), PAGE_TOKENS, kv_heads, head_size, dtype=torch.bfloat16, device=device
                )
                batch = [part.to(device) for part in lengths(parts)]
                plan = kernels.plan_attention(batch[0], batch[1], batch[2], PAGE_TOKENS, torch.bfloat16)
                taken = microseconds(lambda: kernels.paged_attention(queries, pages[0], pages[1], plan))  # noqa: B023
                if len(parts) > 1 or tokens == 1:
                    name = f"decode attention, {shape}, {len(parts)} x {context}"
                    rate = f"{pages.numel() * 2 / taken * 1e6 / GIB:.0f} GiB/s"
                else:
                    name = f"prefill attention, {shape}, {context} tokens"
                    rate = f"{2 * context * context * heads * head_size / taken / 1e6:.1f} TFLOP/s"
                yield Timing(name, taken, rate)


def row_times(device: torch.device) -> Iterator[Timing]:
    """The other kernels with the default model's widths."""
    shape = SMOLLM2_135M
    qkv_width = (shape.heads + 2 * shape.kv_heads) * shape.head_size
    for tokens in (*STREAMS, 512):
        hidden, added = rows(2, tokens, shape.hidden_size, dtype=torch.bfloat16).to(device)
        weight = hidden[0].contiguous()
        gate_up = rows(tokens, 2 * shape.intermediate_size, dtype=torch.bfloat16).to(device)
        qkv = rows(tokens, qkv_width, dtype=torch.bfloat16).to(device)
        pages = torch.zeros(2, 64, PAGE_TOKENS, shape.kv_heads, shape.head_size, dtype=torch.bfloat16, device=device)
        slots = torch.arange(tokens, device=device)
        angles = kernels.rotary_angles(slots, torch.rand(shape.head_size // 2, device=device), torch.bfloat16)
        runs: dict[str, Callable[[], object]] = {
            "rms_norm": lambda: kernels.rms_norm(hidden, weight, 1e-5),  # noqa: B023
            "add_rms_norm": lambda: kernels.add_rms_norm(hidden, added, weight, 1e-5),  # noqa: B023
            "silu_mul": lambda: kernels.silu_mul(gate_up),  # noqa: B023
            "rotate_and_store": lambda: kernels.rotate_and_store(qkv, angles, slots, pages[0], pages[1]),  # noqa: B023
        }
        for name, run in runs.items():
            yield Timing(f"{name}, {tokens} rows", microseconds(run))
    for count in STREAMS:
        logits = 3 * rows(count, shape.vocabulary_size).to(device)
        columns, keys = torch.ones(count, device=device), torch.arange(count, device=device)
        for name, top_k, top_p in (("greedy", 0, 1.0), ("drawn", 0, 1.0), ("top_k 40, top_p 0.9", 40, 0.9)):
            limits = torch.full((count,), top_k, dtype=torch.int32, device=device)
            heat = 0.0 * columns if name == "greedy" else columns
            taken = microseconds(lambda: kernels.sample(logits, heat, limits, top_p * columns, 0.0 * columns, keys))  # noqa: B023
            yield Timing(f"sample, {name}, {count} rows", taken)


def decoder_of(shape: ModelShape, device: torch.device) -> Decoder:
    """Random weights in bfloat16."""

    def matrix(height: int, width: int) -> torch.Tensor:
        return torch.randn(height, width, device=device, dtype=torch.bfloat16) / width**0.5

    hidden = shape.hidden_size
    layers = [
        LayerWeights(
            attention_norm=torch.ones(hidden, device=device, dtype=torch.bfloat16),
            qkv=matrix((shape.heads + 2 * shape.kv_heads) * shape.head_size, hidden),
            attention_output=matrix(hidden, shape.heads * shape.head_size),
            feed_forward_norm=torch.ones(hidden, device=device, dtype=torch.bfloat16),
            gate_up=matrix(2 * shape.intermediate_size, hidden),
            down=matrix(hidden, shape.intermediate_size),
        )
        for _ in range(shape.layers)
    ]
    rotations = [rotation_of(kind.rope, shape.head_size) for kind in shape.attention_kinds]
    rotations = [type(rotation)(rotation.frequencies.to(device), rotation.magnitude) for rotation in rotations]
    embedding = matrix(shape.vocabulary_size, hidden)
    final_norm = torch.ones(hidden, device=device, dtype=torch.bfloat16)
    weights = DecoderWeights(embedding, layers, final_norm, embedding, rotations)
    return Decoder(shape, weights, choose_kernels(device=device))


def decoder_times(device: torch.device) -> Iterator[Timing]:
    """Whole steps of the default model: a CUDA graph for each bucket of batch sizes, and prompts without one."""
    decoder = decoder_of(SMOLLM2_135M, device)
    for context in CONTEXTS:
        pages_each = -(-context // PAGE_TOKENS)
        spec = SMOLLM2_135M.kv_spec(torch.bfloat16)
        cache = cache_on(device, KVCache.for_spec(spec, max(BUCKETS) * pages_each))
        for size in BUCKETS:
            streams = [
                Stream([7] * context, range(index * pages_each, (index + 1) * pages_each), context - 1)
                for index in range(size)
            ]
            step = GraphedStep(decoder, cache, size, pages_each, device)
            step(on_device(batch_of([(stream, 1) for stream in streams]), device))
            taken = replayed(step.replay)
            yield Timing(f"decoder step, {size} x {context}", taken, f"{size / taken * 1e6:.0f} tokens/s")
        prompt = on_device(batch_of([(Stream([7] * context, range(pages_each)), context)]), device)
        taken = replayed(lambda: void(decoder.forward(prompt, cache)))  # noqa: B023
        yield Timing(f"decoder, prompt of {context}", taken, f"{context / taken * 1e6:.0f} tokens/s")


def void(_result: object) -> None:
    """What was computed is not needed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    parser.add_argument("--only", choices=("checks", "times"))
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("No CUDA device is here. The kernels are tested without one by tests/kernels/triton.")
    device = torch.device("cuda", torch.cuda.current_device())
    machine = {"device": torch.cuda.get_device_name(device), "torch": torch.__version__, "triton": triton.__version__}
    print(", ".join(machine.values()), flush=True)
    began = time.monotonic()
    checks: list[Check] = []
    timings: list[Timing] = []
    with torch.inference_mode():
        if arguments.only != "times":
            for check in check_all(device, HEAD_SIZES, MIXED):
                checks.append(check)
                verdict = "ok" if check.passed else "WRONG"
                print(f"{verdict:5} {check.share:9.3f} of what is allowed  {check.name}", flush=True)
        if arguments.only != "checks":
            print("| what | microseconds | |\n| --- | --- | --- |")
            for measure in (attention_times, row_times, decoder_times):
                for timing in measure(device):
                    timings.append(timing)
                    print(f"| {timing.name} | {timing.microseconds:.1f} | {timing.rate} |", flush=True)
    wrong = [check.name for check in checks if not check.passed]
    print(f"{len(checks) - len(wrong)} of {len(checks)} checks passed, {time.monotonic() - began:.0f} s")
    if arguments.json:
        results = {
            **machine,
            "checks": [asdict(check) | {"passed": check.passed} for check in checks],
            "timings": [asdict(timing) for timing in timings],
        }
        arguments.json.write_text(json.dumps(results, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
