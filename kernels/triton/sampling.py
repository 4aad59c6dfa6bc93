"""Chooses the next token of each row of logits: greedy, or drawn from what top-k, top-p and min-p leave.

For a sampler on the device; nothing calls it yet but its tests and the benchmark. The definition is that of the engine's
sampler: the `top_k` best; of these the best whose mass reaches `top_p`; of these the ones at least `min_p` as likely as the best;
then the largest of logit plus Gumbel noise. The noise of a token is SplitMix64 (Steele, Lea and Flood, 2014) of the row's key
and the token, so a seed gives the same token on either side. Of equally likely tokens the lower id is the better one. Without a
filter a block of tokens is drawn first, by what its tokens weigh together, then one of them.

Nothing is sorted: the value of the last token that is left in is found by bisection over the bits of floats, 32 passes over
a row that stays in the device's cache.

    logits         [R, vocabulary] float32
    temperatures   [R] float32, below GREEDY_BELOW for the most likely token
    top_k          [R] int32, 0 for no limit;   top_p [R] float32, 1 for no limit;   min_p [R] float32, 0 for no limit
    keys           [R] int64, `noise_key` of each row
    ids            [R] int64; -1 for a row whose largest logit is not a finite number
    grid           one program a row
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 8192

COLUMNS = 1024
"""Blocks of tokens that are weighed together."""

GREEDY_BELOW = tl.constexpr(1e-5)

_BLOCK_TOKENS = tl.constexpr(64)
_BLOCK_IDS = tl.constexpr(1 << 32)
"""As in the engine's sampler: token `t` is in the block `t % blocks`, whose noise is that of an id no token has."""

_GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
_FIRST_FACTOR = tl.constexpr(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = tl.constexpr(0x94D049BB133111EB)


def noise_key(seed: int, num_sampled: int) -> int:
    """The key of an answer's next token, as a signed number of 64 bits: that of its seed and of how many tokens it has."""
    key = _mixed(_mixed(seed) + num_sampled)
    return key - (1 << 64) if key >= 1 << 63 else key


def sample(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    keys: torch.Tensor,
) -> torch.Tensor:
    """One id per row. Modifies nothing."""
    rows, vocabulary = logits.shape
    if logits.dtype != torch.float32 or logits.stride(1) != 1:
        raise ValueError(f"logits must be float32 rows, and are {logits.dtype} with strides {logits.stride()}")
    ids = torch.empty(rows, dtype=torch.int64, device=logits.device)
    block = min(BLOCK, triton.next_power_of_2(vocabulary))
    columns = min(COLUMNS, triton.next_power_of_2(-(-vocabulary // _BLOCK_TOKENS.value)))
    _sample[(rows,)](
        logits,
        temperatures,
        top_k,
        top_p,
        min_p,
        keys,
        ids,
        vocabulary,
        logits.stride(0),
        BLOCK=block,
        COLUMNS=columns,
        num_warps=16,
    )
    return ids


def _mixed(value: int) -> int:
    """The finaliser of SplitMix64, on plain integers."""
    mask = (1 << 64) - 1
    value = (value + _GOLDEN.value) & mask
    value = ((value ^ (value >> 30)) * _FIRST_FACTOR.value) & mask
    value = ((value ^ (value >> 27)) * _SECOND_FACTOR.value) & mask
    return value ^ (value >> 31)


@triton.jit
def gumbel(key, tokens):
    """Noise of the tokens: minus the logarithm of an exponential variable, in float32."""
    bits = tokens.to(tl.uint64) * _GOLDEN + key
    bits = (bits ^ (bits >> 30)) * _FIRST_FACTOR
    bits = (bits ^ (bits >> 27)) * _SECOND_FACTOR
    bits = bits ^ (bits >> 31)
    uniform = ((bits >> 40).to(tl.float32) + 0.5) * 5.9604644775390625e-08
    uniform = tl.minimum(uniform, 1.0 - 5.9604644775390625e-08)
    # Minus log(1 - u). Near 0, where the largest noise comes from, the device's logarithm is exact in absolute terms only:
    # there its series is taken.
    series = 1.0 / 7.0 + uniform * (1.0 / 8.0 + uniform / 9.0)
    series = 1.0 / 4.0 + uniform * (1.0 / 5.0 + uniform * (1.0 / 6.0 + uniform * series))
    series = uniform * (1.0 + uniform * (1.0 / 2.0 + uniform * (1.0 / 3.0 + uniform * series)))
    exponential = tl.where(uniform < 0.125, series, -tl.log(1.0 - uniform))
    return -tl.log(exponential)


@triton.jit
def _ordered(values):
    """Floats as unsigned integers in the same order. Minus zero counts as zero."""
    bits = (values + 0.0).to(tl.uint32, bitcast=True)
    return tl.where(bits >> 31 != 0, bits ^ 0xFFFFFFFF, bits | 0x80000000)


@triton.jit
def _scaled(row, tokens, vocabulary, temperature):
    logits = tl.load(row + tokens, mask=tokens < vocabulary, other=float("-inf"))
    return tl.div_rn(logits, temperature)


@triton.jit
def _measure(row, vocabulary, temperature, best, bound, above, BLOCK: tl.constexpr):
    """How many tokens are above the order `bound`, and at it too unless `above`; and their mass, where the best's is 1."""
    count = tl.zeros([], dtype=tl.int32)
    mass = tl.zeros([], dtype=tl.float32)
    for start in range(0, vocabulary, BLOCK):
        tokens = start + tl.arange(0, BLOCK)
        values = _scaled(row, tokens, vocabulary, temperature)
        order = _ordered(values)
        taken = (tokens < vocabulary) & (values > float("-inf")) & ((order > bound) | ((order == bound) & (above == 0)))
        count += tl.sum(taken.to(tl.int32), 0)
        mass += tl.sum(tl.where(taken, tl.exp(values - best), 0.0), 0)
    return count, mass


@triton.jit
def _last_of_top_k(row, vocabulary, temperature, best, top_k, BLOCK: tl.constexpr):
    """The order of the `top_k`-th best: the largest bound at or above which there are so many."""
    low = tl.zeros([], dtype=tl.uint32)
    for bit in range(32):
        step = (low * 0 + 1) << (31 - bit)
        count, _ = _measure(row, vocabulary, temperature, best, low | step, 0, BLOCK)
        low = tl.where(count >= top_k, low | step, low)
    return low


@triton.jit
def _last_of_top_p(row, vocabulary, temperature, best, limit, k_bound, k_mass, BLOCK: tl.constexpr):
    """The order of the last token before which there is less mass than `limit`.

    Mass at the last of the top k is not all counted: as many tokens as there is room for, `k_mass` together with all above it.
    """
    low = tl.zeros([], dtype=tl.uint32)
    for bit in range(32):
        step = (low * 0 + 1) << (31 - bit)
        # If even the tokens at or above the bound are not enough, the last one is lower.
        _, mass = _measure(row, vocabulary, temperature, best, low | step, 0, BLOCK)
        mass = tl.where(low | step > k_bound, mass, k_mass)
        low = tl.where(mass >= limit, low | step, low)
    return low


@triton.jit
def _one_of_all(row, vocabulary, temperature, best, key, COLUMNS: tl.constexpr):
    """A token drawn without a filter."""
    blocks = tl.cdiv(vocabulary, 64)
    block = tl.zeros([], dtype=tl.int64)
    height = tl.full([], float("-inf"), dtype=tl.float32)
    for start in range(0, blocks, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        weights = tl.zeros([COLUMNS], dtype=tl.float32)
        for place in range(_BLOCK_TOKENS):
            weights += tl.exp(_scaled(row, columns + blocks * place, vocabulary, temperature) - best)
        values = tl.log(weights) + gumbel(key, columns.to(tl.int64) + _BLOCK_IDS)
        values = tl.where((columns < blocks) & (weights > 0.0), values, float("-inf"))
        highest = tl.max(values, 0)
        if highest > height:
            height = highest
            block = tl.min(tl.where(values == highest, columns, 0x7FFFFFFF), 0).to(tl.int64)
    tokens = block + blocks * tl.arange(0, _BLOCK_TOKENS)
    values = _scaled(row, tokens, vocabulary, temperature) + gumbel(key, tokens)
    return tl.min(tl.where(values == tl.max(values, 0), tokens, 0x7FFFFFFF), 0).to(tl.int64)


@triton.jit
def _sample(
    logits,
    temperatures,
    top_ks,
    top_ps,
    min_ps,
    keys,
    ids,
    vocabulary,
    stride,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    index = tl.program_id(0).to(tl.int64)
    row = logits + index * stride
    temperature = tl.load(temperatures + index)
    greedy = temperature < GREEDY_BELOW
    temperature = tl.where(greedy, 1.0, temperature)
    key = tl.load(keys + index).to(tl.uint64, bitcast=True)

    best = tl.full([], float("-inf"), dtype=tl.float32)
    not_numbers = tl.zeros([], dtype=tl.int32)
    for start in range(0, vocabulary, BLOCK):
        values = _scaled(row, start + tl.arange(0, BLOCK), vocabulary, temperature)
        not_numbers += tl.sum((values != values).to(tl.int32), 0)
        best = tl.maximum(best, tl.max(tl.where(values == values, values, float("-inf")), 0))
    if (not_numbers > 0) | (tl.abs(best) == float("inf")):
        tl.store(ids + index, -1)
        return

    top_k, top_p, min_p = tl.load(top_ks + index), tl.load(top_ps + index), tl.load(min_ps + index)
    if (greedy == 0) & ((top_k <= 0) | (top_k >= vocabulary)) & (top_p >= 1.0) & (min_p <= 0.0):
        tl.store(ids + index, _one_of_all(row, vocabulary, temperature, best, key, COLUMNS))
        return

    # The bounds: what is below a bound is out, and of what is at it the first `room` tokens are in.
    k_bound = tl.zeros([], dtype=tl.uint32)
    k_room = tl.full([], 0x7FFFFFFF, dtype=tl.int32)
    p_bound = tl.zeros([], dtype=tl.uint32)
    p_room = tl.full([], 0x7FFFFFFF, dtype=tl.int32)
    if greedy == 0:
        _, k_mass = _measure(row, vocabulary, temperature, best, k_bound, 0, BLOCK)
        if (top_k > 0) & (top_k < vocabulary):
            k_bound = _last_of_top_k(row, vocabulary, temperature, best, top_k, BLOCK)
            count_above, mass_above = _measure(row, vocabulary, temperature, best, k_bound, 1, BLOCK)
            count_with, mass_with = _measure(row, vocabulary, temperature, best, k_bound, 0, BLOCK)
            tied = tl.maximum(count_with - count_above, 1)
            k_room = top_k - count_above
            k_mass = mass_above + (mass_with - mass_above) * tl.minimum(k_room, tied) / tied
        if top_p < 1.0:
            # Never 0: the best token is always in.
            limit = tl.maximum(top_p * k_mass, 1e-30)
            p_bound = _last_of_top_p(row, vocabulary, temperature, best, limit, k_bound, k_mass, BLOCK)
            count_above, mass_above = _measure(row, vocabulary, temperature, best, p_bound, 1, BLOCK)
            count_with, mass_with = _measure(row, vocabulary, temperature, best, p_bound, 0, BLOCK)
            tied = tl.maximum(count_with - count_above, 1)
            each = tl.maximum((mass_with - mass_above) / tied, 1e-37)
            # A token is in when less than the limit stands before it.
            wanted = tl.ceil((limit - mass_above) / each)
            p_room = tl.maximum(tl.minimum(wanted, 2.0e9).to(tl.int32), 1)
    floor = float("-inf")
    if min_p > 0.0:
        floor = best + tl.log(min_p)

    chosen = tl.zeros([], dtype=tl.int64)
    height = tl.full([], float("-inf"), dtype=tl.float32)
    k_seen = tl.zeros([], dtype=tl.int32)
    p_seen = tl.zeros([], dtype=tl.int32)
    for start in range(0, vocabulary, BLOCK):
        tokens = start + tl.arange(0, BLOCK)
        values = _scaled(row, tokens, vocabulary, temperature)
        order = _ordered(values)
        at_k = ((order == k_bound) & (tokens < vocabulary)).to(tl.int32)
        at_p = ((order == p_bound) & (tokens < vocabulary)).to(tl.int32)
        kept = (tokens < vocabulary) & (order >= k_bound) & (order >= p_bound)
        kept = kept & ((at_k == 0) | (k_seen + tl.cumsum(at_k, 0) <= k_room))
        kept = kept & ((at_p == 0) | (p_seen + tl.cumsum(at_p, 0) <= p_room))
        k_seen += tl.sum(at_k, 0)
        p_seen += tl.sum(at_p, 0)
        if greedy == 0:
            kept = kept & (values >= floor)
            values += gumbel(key, tokens)
        values = tl.where(kept, values, float("-inf"))
        highest = tl.max(values, 0)
        if highest > height:
            height = highest
            chosen = tl.min(tl.where(values == highest, tokens, 0x7FFFFFFF), 0).to(tl.int64)
    tl.store(ids + index, chosen)
