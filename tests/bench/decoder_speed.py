"""How fast the decoder is alone, without the rest of the engine; tables in kernels/README.md are its output.

plain torch: python -m tests.bench.decoder_speed .cache/models/smollm2-135m-instruct
compiled kernels, built where they are not: the same, and .cache/kernels
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from engine.config import EngineConfig
from engine.kv_cache import KVCache
from engine.model.loader import keep_weights, load_model
from tests.support.decoding import Stream, step

PAGES_EACH = 40
STEPS = 12
PREFILLS = 3


def main(folder: Path, kernels: Path | None) -> None:
    config = EngineConfig(folder, folder.name, kernels_folder=kernels)
    keep_weights(config)
    loaded = load_model(config)
    cache = KVCache.for_spec(loaded.kv_spec, 32 * PAGES_EACH)
    places = torch.randperm(cache.pages).view(32, PAGES_EACH).tolist()
    print(f"{loaded.info.weights}, {torch.get_num_threads()} threads, {loaded.info.kernels} kernels")
    print("| streams | context | ms a step | tokens/s |\n| --- | --- | --- | --- |")
    for context in (16, 64, 250, 512):
        for count in (1, 8, 32):
            streams = [Stream(list(range(100, 101 + context + STEPS)), pages, context) for pages in places[:count]]
            times = []
            for _ in range(STEPS):
                start = time.perf_counter()
                step(loaded.decoder, cache, [(stream, 1) for stream in streams])
                times.append(time.perf_counter() - start)
            best, middle = min(times), sorted(times)[STEPS // 2]
            print(
                f"| {count} | {context} | {best * 1000:.1f} (median {middle * 1000:.1f}) "
                f"| {count / best:.0f} (median {count / middle:.0f}) |",
                flush=True,
            )
    for tokens in (256, 512):
        times = []
        for _ in range(PREFILLS):
            stream = Stream(list(range(100, 100 + tokens)), places[0])
            start = time.perf_counter()
            while stream.done < tokens:
                step(loaded.decoder, cache, [(stream, min(256, tokens - stream.done))])
            times.append(time.perf_counter() - start)
        print(f"prefill of {tokens} tokens in chunks of 256: {tokens / min(times):.0f} tokens/s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
