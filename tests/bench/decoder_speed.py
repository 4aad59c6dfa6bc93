"""How fast the decoder is alone, without the rest of the engine: the second table in kernels/README.md is its output.

python -m tests.bench.decoder_speed .cache/models/smollm2-135m-instruct
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from engine.config import EngineConfig
from engine.kv_cache import KVCache
from engine.model.loader import load_model
from tests.support.decoding import Stream, step

PAGES_EACH = 40
STEPS = 12


def main(folder: Path) -> None:
    loaded = load_model(EngineConfig(folder, folder.name))
    cache = KVCache.for_spec(loaded.kv_spec, 32 * PAGES_EACH)
    places = torch.randperm(cache.pages).view(32, PAGES_EACH).tolist()
    print(f"{loaded.info.weights}, {torch.get_num_threads()} threads, {loaded.info.kernels} kernels")
    print("| streams | context | ms a step | tokens/s |\n| --- | --- | --- | --- |")
    for context in (64, 250, 500):
        for count in (1, 8, 32):
            streams = [Stream(list(range(100, 101 + context + STEPS)), pages, context) for pages in places[:count]]
            times = []
            for _ in range(STEPS):
                start = time.perf_counter()
                step(loaded.decoder, cache, [(stream, 1) for stream in streams])
                times.append(time.perf_counter() - start)
            best = sorted(times)[STEPS // 2]
            print(f"| {count} | {context} | {best * 1000:.1f} | {count / best:.0f} |", flush=True)
    for tokens in (256, 512):
        stream = Stream(list(range(100, 100 + tokens)), places[0])
        start = time.perf_counter()
        while stream.done < tokens:
            step(loaded.decoder, cache, [(stream, min(256, tokens - stream.done))])
        print(f"prefill of {tokens} tokens in chunks of 256: {tokens / (time.perf_counter() - start):.0f} tokens/s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
