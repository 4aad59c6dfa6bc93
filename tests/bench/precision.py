"""What a precision costs: perplexity of a text, and how far each prediction is from that of float32 weights.

python -m tests.bench.precision .cache/models/smollm2-135m-instruct data/kernels README.md LICENSE

Says for each precision the perplexity, its change, the mean Kullback-Leibler divergence from float32 and how often the most
likely token is the same. Texts are read in windows of 256 tokens, of which the second half counts.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer

from engine.config import EngineConfig
from engine.kv_cache import KVCache
from engine.model.loader import LoadedModel, load_model
from tests.support.decoding import Stream, batch_of

WINDOW_TOKENS = 256
COUNTED_TOKENS = 128
MOST_WINDOWS = 24
PRECISIONS = (
    ("fp32", "auto"),
    ("bf16", "auto"),
    ("auto", "bf16"),
    ("auto", "int8"),
    ("int8", "bf16"),
    ("int8", "int8"),
)
"""Of weights, and of keys and values."""


def windows_of(folder: Path, texts: list[Path]) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    windows = []
    for path in texts:
        ids = tokenizer.encode(path.read_text(encoding="utf-8"), add_special_tokens=False).ids
        windows += [ids[at : at + WINDOW_TOKENS] for at in range(0, len(ids) - WINDOW_TOKENS, WINDOW_TOKENS)]
    # Evenly from all texts.
    return windows[:: -(-len(windows) // MOST_WINDOWS)]


def predictions(loaded: LoadedModel, windows: list[list[int]]) -> Iterator[torch.Tensor]:
    """The logarithms of all tokens' probabilities at each counted place but the last."""
    cache = KVCache.for_spec(loaded.kv_spec, WINDOW_TOKENS // 16)
    for ids in windows:
        batch = batch_of([(Stream(ids, range(cache.pages)), len(ids))])
        object.__setattr__(batch, "logit_rows", torch.arange(len(ids) - COUNTED_TOKENS, len(ids) - 1))
        yield loaded.decoder.forward(batch, cache).log_softmax(-1)


def main(folder: Path, kernels: Path, texts: list[Path]) -> None:
    exact = load_model(EngineConfig(folder, folder.name, weights="fp32"))
    windows = windows_of(folder, texts)
    print(f"{len(windows)} windows, {len(windows) * (COUNTED_TOKENS - 1)} predictions")
    print("| weights | keys and values | perplexity | change | KL from fp32 | same best token |")
    print("| --- | --- | --- | --- | --- | --- |")
    expected = list(predictions(exact, windows))
    first = 0.0
    for weights, kv_dtype in PRECISIONS:
        loaded = exact
        if weights != "fp32":
            config = EngineConfig(folder, folder.name, weights=weights, kv_dtype=kv_dtype, kernels_folder=kernels)
            loaded = load_model(config)
        made = expected if weights == "fp32" else predictions(loaded, windows)
        loss, divergence, same, count = 0.0, 0.0, 0, 0
        for ids, wanted, found in zip(windows, expected, made, strict=True):
            targets = torch.tensor(ids[-COUNTED_TOKENS + 1 :])
            loss -= float(found.gather(1, targets[:, None]).double().sum())
            divergence += float((wanted.exp() * (wanted - found)).double().sum())
            same += int((wanted.argmax(-1) == found.argmax(-1)).sum())
            count += len(targets)
        perplexity = math.exp(loss / count)
        first = first or perplexity
        name = weights if weights == loaded.info.weights else f"{weights} ({loaded.info.weights})"
        kept_in = str(loaded.kv_spec.dtype).removeprefix("torch.")
        print(
            f"| {name} | {kept_in} | {perplexity:.3f} | {(perplexity / first - 1) * 100:+.2f} % | {divergence / count:.4f} "
            f"| {same / count * 100:.1f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
