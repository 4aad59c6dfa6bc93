"""One step's worth of tokens, laid out flat for the decoder.

sequence A: 3 new tokens        B: 1 new token (decode)      C: 2 new tokens
token_ids     [ a5 a6 a7 | b40 | c0 c1 ]          all sequences one after the other, no padding
positions     [  5  6  7 |  40 |  0  1 ]
slots         [ where the key and value of each token go: page * PAGE_TOKENS + offset ]
query_starts  [ 0, 3, 4, 6 ]
context_lens  [ 8, 41, 2 ]                        tokens of each sequence, those of this step included
block_tables  [[ pages of A ], [ pages of B ], [ pages of C ]]   padded with 0 to the longest
logit_rows    [ 2, 3, 5 ]                         rows whose next token is wanted
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """Shapes: T tokens, B sequences, P the longest block table, R wanted rows. Integer tensors are int64, on the CPU's device.

    `max_context_tokens` is `max(context_lens)`, and `is_decode` says that every sequence has exactly one token, so that no
    kernel has to read a tensor to find out.
    """

    token_ids: torch.Tensor
    """[T] int64"""
    positions: torch.Tensor
    """[T] int64"""
    slots: torch.Tensor
    """[T] int64"""
    query_starts: torch.Tensor
    """[B + 1] int64"""
    context_lens: torch.Tensor
    """[B] int64"""
    block_tables: torch.Tensor
    """[B, P] int64"""
    logit_rows: torch.Tensor
    """[R] int64"""
    max_context_tokens: int
    is_decode: bool
