"""The tensors of a GGUF file under the names and in the order of Hugging Face."""

from __future__ import annotations

import re

import torch

from engine.model.architecture import ModelShape
from engine.model.gguf_file import GgufFile
from kernels.packed_matrix import Blocks

_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_FOUR_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
"""Where a layer has four norms, the second of them is not the one before the feed-forward part."""
_OTHER_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
_PAIRED_ARCHITECTURES = frozenset({"llama"})
"""In whose files the rows that turn together stand side by side; in the others they are where Hugging Face has them."""
ROPE_FACTORS = "rope_freqs.weight"


class GgufSource:
    """Reads from an open file."""

    def __init__(self, file: GgufFile, shape: ModelShape) -> None:
        self._file = file
        self._shape = shape
        self._layer_names = _LAYER_NAMES | (_FOUR_NORMS if shape.output_norms else {})

    @property
    def where(self) -> str:
        return str(self._file.path)

    def shape(self, name: str) -> tuple[int, ...] | None:
        entry = self._file.tensors.get(self._gguf_name(name))
        return None if entry is None else entry.shape

    def read(self, name: str) -> torch.Tensor:
        tensor = self._file.read(self._gguf_name(name))
        heads = self._paired_heads(name)
        return tensor if heads is None else _halves_apart(tensor, heads)

    def packable_bits(self, name: str) -> int | None:
        return self._file.packable_bits(self._gguf_name(name))

    def blocks(self, name: str) -> Blocks:
        blocks = self._file.blocks(self._gguf_name(name))
        heads = self._paired_heads(name)
        return blocks if heads is None else blocks.rows(_halves_apart(torch.arange(len(blocks.scales)), heads))

    def _paired_heads(self, name: str) -> int | None:
        """How many heads this tensor's rows are of, where rows that turn together stand side by side."""
        if self._shape.architecture not in _PAIRED_ARCHITECTURES:
            return None
        if "self_attn.q_proj." in name:
            return self._shape.heads
        return self._shape.kv_heads if "self_attn.k_proj." in name else None

    def rope_factors(self) -> torch.Tensor | None:
        return self._file.read(ROPE_FACTORS) if ROPE_FACTORS in self._file.tensors else None

    def _gguf_name(self, name: str) -> str:
        if match := _LAYER.fullmatch(name):
            return f"blk.{match[1]}.{self._layer_names[match[2]]}.{match[3]}"
        return _OTHER_NAMES[name]


def _halves_apart(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of a head from the order GGUF keeps them in, pairs that turn together side by side, to that of Hugging Face, where
    the second of each pair stands half a head further (huggingface/transformers#31766). A bias has numbers for rows."""
    return rows.view(heads, rows.shape[0] // heads // 2, 2, -1).transpose(1, 2).reshape(rows.shape)
