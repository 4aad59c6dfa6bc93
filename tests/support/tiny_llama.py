"""Llama models with random weights, small enough to make one per test, and folders of them as people have them on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from gguf import MODEL_ARCH_NAMES, GGMLQuantizationType, GGUFWriter, RopeScalingType, get_tensor_name_map
from gguf.quants import quantize
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from engine.kv_cache import KVSpec
from engine.model.config_shape import shape_of_config
from engine.model.decoder import Decoder
from engine.model.json_file import read_json_object
from engine.model.safetensors_source import SafetensorsSource
from engine.model.weights import FloatMatrices, WeightPlan
from kernels.dispatch import choose_kernels

CORPUS = (
    "The quick brown fox jumps over the lazy dog. What is the capital of France? Paris is its capital, of course.",
    "user assistant system hello world, this is a chat; numbers 0123456789 and more words for the merges to learn.",
    "日本語のテキスト и немного русского, 😀 emoji too, \n\n new lines\n and  double  spaces.",
)
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
GGUF_ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma3_text": "gemma3",
}
CHATML_CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def tiny_llama(seed: int = 0, **changes: Any) -> Any:
    """A transformers LlamaForCausalLM. Its weights are larger than usual, so that its answers are not all one token."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        **{
            "vocab_size": 211,
            "hidden_size": 48,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "initializer_range": 0.6,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": 0,
            **changes,
        }
    )
    torch.manual_seed(seed)
    return LlamaForCausalLM(config).eval()


def load_decoder(model: Any) -> tuple[Decoder, KVSpec]:
    """Our decoder with the weights of a transformers model, through a folder on the disk as `load_model` reads it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        model.save_pretrained(folder)
        shape = shape_of_config(read_json_object(folder / "config.json"), str(folder))
        with SafetensorsSource(folder) as source:
            weights = WeightPlan(source, shape, torch.float32, FloatMatrices(source, torch.float32)).build()
    return Decoder(shape, weights, choose_kernels()), shape.kv_spec(torch.float32)


@cache
def byte_tokenizer_json(vocabulary: int = 400) -> str:
    """A tokenizer of the byte family, as GPT-2, SmolLM and Llama 3 have."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(CHATML_CONTROLS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    # A marker that is not flagged as special, and one whose spelling other text could be.
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    text: str = tokenizer.to_str()
    return text


@cache
def piece_tokenizer_json(prefix: str = "legacy", vocabulary: int = 600) -> str:
    """A tokenizer of the piece family with byte fallback, as Llama 2 and Mistral have.

    `prefix` is how it puts a space before a text: `legacy` before every stretch, `first` only at the very beginning.
    """
    controls = ["<unk>", "<s>", "</s>"]
    all_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if prefix == "legacy":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[*controls, *all_bytes], show_progress=False)
    tokenizer.train_from_iterator([word for line in CORPUS[:2] for word in line.split()], trainer)
    document = json.loads(tokenizer.to_str())
    # The bytes are ordinary tokens of the vocabulary, no added ones.
    document["added_tokens"] = [token for token in document["added_tokens"] if token["content"] in controls]
    return json.dumps(document, ensure_ascii=False)


def write_tokenizer(folder: Path, document: str | None = None, template: str = CHATML, **config: Any) -> None:
    """`tokenizer.json` and `tokenizer_config.json`, as `save_pretrained` leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(document or byte_tokenizer_json(), encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>" if document is None else "</s>",
        "chat_template": template,
        **config,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def write_folder(folder: Path, seed: int = 0, **changes: Any) -> Any:
    """A model folder with safetensors and a tokenizer; returns the model."""
    model = tiny_llama(seed, **{"vocab_size": 420, **changes})
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model


def write_gguf(
    path: Path,
    model: Any,
    *,
    architecture: str | None = None,
    kinds: Callable[[str], GGMLQuantizationType] = lambda name: GGMLQuantizationType.F32,
    extra: Mapping[str, torch.Tensor] | None = None,
    also: Callable[[GGUFWriter], None] = lambda writer: None,
) -> None:
    """The same weights as a GGUF file in float32, as llama.cpp's conversion of this kind of model leaves them.

    `kinds` gives the type of each matrix by its name in the file. `extra` tensors are added, and `also` may add metadata; what
    it adds wins.
    """
    config = model.config
    own = GGUF_ARCHITECTURES[config.model_type]
    architecture = architecture or own
    writer = GGUFWriter(path, architecture)
    also(writer)
    settled = {key for shard in writer.kv_data for key in shard}
    for key, value in {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": getattr(config, "head_dim", None),
        "attention.value_length": getattr(config, "head_dim", None),
        "attention.sliding_window": getattr(config, "sliding_window", None),
        "vocab_size": config.vocab_size,
    }.items():
        if value is not None and f"{architecture}.{key}" not in settled:
            writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _add_rope(writer, config.rope_parameters.get("full_attention", config.rope_parameters))
    if getattr(config, "final_logit_softcapping", None):
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_eos_token_id(2)
    (model_kind,) = (kind for kind, name in MODEL_ARCH_NAMES.items() if name == own)
    names = get_tensor_name_map(model_kind, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert gguf_name is not None
        ordered = _gguf_order(own, name, tensor, config).contiguous().numpy()
        kind = kinds(gguf_name) if ordered.ndim > 1 else GGMLQuantizationType.F32
        writer.add_tensor(gguf_name, quantize(ordered, kind), raw_dtype=kind)
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_rope(writer: GGUFWriter, rope: Mapping[str, Any]) -> None:
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def _gguf_order(architecture: str, name: str, tensor: torch.Tensor, config: Any) -> torch.Tensor:
    """In Llama's files the two numbers that turn together are next to each other (ggml-org/llama.cpp#3364), in Gemma's the
    weights of norms are whole."""
    if architecture == "gemma3" and name.endswith("norm.weight"):
        return tensor + 1
    if architecture != "llama" or not ("q_proj" in name or "k_proj" in name):
        return tensor
    heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
    return tensor.view(heads, 2, tensor.shape[0] // heads // 2, -1).transpose(1, 2).reshape(tensor.shape)
