"""The decoder's operations in Triton, for a GPU: the names of `kernels.reference`, and `sample` beside them.

Chosen by `kernels.dispatch` on a CUDA device. Importing this imports triton, so nothing else may import it before it is chosen.
"""

from kernels.reference import RotaryAngles, ScoreRule, rotary_angles, soft_cap
from kernels.triton.attention import paged_attention
from kernels.triton.gate import gelu_mul, silu_mul
from kernels.triton.norm import add_rms_norm, rms_norm
from kernels.triton.pages import PageScales
from kernels.triton.plan import AttentionPlan, plan_attention
from kernels.triton.rotate import rotate_and_store
from kernels.triton.sampling import noise_key, sample

__all__ = [
    "AttentionPlan",
    "PageScales",
    "RotaryAngles",
    "ScoreRule",
    "add_rms_norm",
    "gelu_mul",
    "noise_key",
    "paged_attention",
    "plan_attention",
    "rms_norm",
    "rotary_angles",
    "rotate_and_store",
    "sample",
    "silu_mul",
    "soft_cap",
]
