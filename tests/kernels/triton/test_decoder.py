"""The whole decoder with the Triton kernels is the decoder with the reference: prompts in chunks, then decoding together."""

from __future__ import annotations

import torch

from engine.kv_cache import KVCache
from engine.model.decoder import Decoder
from kernels import triton as kernels
from kernels.dispatch import KernelChoice
from tests.support.decoding import Stream, step
from tests.support.random_decoder import SHAPE, random_llama


def test_its_logits_are_those_of_the_reference() -> None:
    by_reference = random_llama()
    by_triton = Decoder(SHAPE, by_reference.weights, KernelChoice("triton", "asked for by the test", kernels))
    logits = []
    for decoder in (by_reference, by_triton):
        cache = KVCache.for_spec(SHAPE.kv_spec(torch.float32), 12)
        streams = [Stream(list(range(3, 43)), [7, 2, 9]), Stream(list(range(50, 70)), [4, 11])]
        seen = [step(decoder, cache, [(streams[0], 21)])]
        seen.append(step(decoder, cache, [(streams[0], 1), (streams[1], 17)]))
        seen.append(step(decoder, cache, [(streams[0], 1), (streams[1], 1)]))
        logits.append(seen)
    for got, expected in zip(logits[1], logits[0], strict=True):
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)
