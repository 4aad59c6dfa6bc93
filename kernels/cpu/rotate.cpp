#include "rotate.h"

namespace kvasir {
namespace {

constexpr int64_t LARGEST_HEAD = 512;

void turn(const float* head, const float* cosines, const float* sines, int64_t half, float* to) {
  int64_t at = 0;
  for (; at + LANES <= half; at += LANES) {
    const Floats first = load(head + at), second = load(head + at + half);
    const Floats cosine = load(cosines + at), sine = load(sines + at);
    store(to + at, subtract(multiply(first, cosine), multiply(second, sine)));
    store(to + at + half, add(multiply(second, cosine), multiply(first, sine)));
  }
  for (; at < half; ++at) {
    const float first = head[at], second = head[at + half];
    to[at] = first * cosines[at] - second * sines[at];
    to[at + half] = second * cosines[at] + first * sines[at];
  }
}

// Blocks as large as the largest power of two that divides the size, not scaled: products grow by the size of a block.
void mix(float* head, int64_t size) {
  const int64_t block = size & -size;
  for (int64_t at = 0; at < size; at += LANES) {
    Floats lanes = load(head + at);
    lanes = sums_and_differences<1>(lanes);
    lanes = sums_and_differences<2>(lanes);
    lanes = sums_and_differences<4>(lanes);
    store(head + at, sums_and_differences<8>(lanes));
  }
  for (int64_t distance = LANES; distance < block; distance *= 2) {
    for (int64_t at = 0; at < size; at += at % (2 * distance) == distance - LANES ? distance + LANES : LANES) {
      const Floats first = load(head + at), second = load(head + at + distance);
      store(head + at, add(first, second));
      store(head + at + distance, subtract(first, second));
    }
  }
}

// Rounds a head to 8 bits. What is not finite is not hidden: the scale is not either then.
RoundedQuery round_head(const float* head, int64_t size, int8_t* to) {
  Floats most = zeros(), nothing = zeros();
  for (int64_t at = 0; at < size; at += LANES) {
    most = larger(most, magnitude(load(head + at)));
    nothing = multiply_add(load(head + at), zeros(), nothing);
  }
  const float magnitude = largest(most);
  const Floats inverse = all(magnitude > SMALLEST_MAGNITUDE ? 127.0f / magnitude : 0.0f);
  Ints total = no_ints();
  for (int64_t at = 0; at < size; at += LANES) total = add(total, store_bytes(to + at, multiply(load(head + at), inverse)));
  return {magnitude / 127.0f + sum(nothing), sum(total)};
}

void store_brains(const Heads& heads, const float* head, bool is_value, int64_t token, uint8_t* block) {
  const int64_t size = heads.size;
  alignas(64) uint16_t brain[LARGEST_HEAD];
  for (int64_t at = 0; at < size; at += LANES) store_brain(brain + at, load(head + at));
  if (is_value) {
    uint16_t* to = (uint16_t*)block + token / 2 * 2 * size + token % 2;
    for (int64_t at = 0; at < size; ++at) to[2 * at] = brain[at];
  } else {
    uint16_t* to = (uint16_t*)block + 2 * token;
    for (int64_t at = 0; at < size; at += 2) std::memcpy(to + at * PAGE_TOKENS, brain + at, 4);
  }
}

void store_rounded(const Heads& heads, const float* head, bool is_value, int64_t token, uint8_t* block) {
  const int64_t size = heads.size;
  alignas(64) int8_t bytes[LARGEST_HEAD];
  const float scale = round_head(head, size, bytes).scale;
  std::memcpy(block + PAGE_TOKENS * size + token * sizeof scale, &scale, sizeof scale);
  if (is_value) {
    uint8_t* to = block + token / 4 * 4 * size;
    for (int64_t at = 0; at < size; at += LANES) store_every_fourth(to + 4 * at, token % 4, bytes + at);
  } else {
    uint8_t* to = block + 4 * token;
    for (int64_t at = 0; at < size; at += 4) {
      const uint32_t four = four_bytes(bytes + at) ^ 0x80808080u;
      std::memcpy(to + at * PAGE_TOKENS, &four, sizeof four);
    }
  }
}

void store_query(const Heads& heads, float* head, uint8_t* to) {
  if (heads.kept == Kept::brain) {
    for (int64_t at = 0; at < heads.size; at += LANES) store_brain((uint16_t*)to + at, load(head + at));
    return;
  }
  RoundedQuery rounded = round_head(head, heads.size, (int8_t*)to);
  rounded.scale /= (float)(heads.size & -heads.size);
  std::memcpy(to + heads.size, &rounded, sizeof rounded);
}

}  // namespace

void rotate_and_store(
    const Heads& heads, const RotatedRows& rows, int64_t item, uint8_t* queries, uint8_t* keys, uint8_t* values) {
  const int64_t row = item / heads.all(), head = item % heads.all(), size = heads.size;
  const float* from = rows.qkv + row * rows.stride + head * size;
  const bool is_value = head >= heads.heads + heads.kv_heads;
  alignas(64) float normed[LARGEST_HEAD], turned[LARGEST_HEAD];
  if (!is_value) {
    if (rows.head_norm != nullptr) {
      const float* weight = rows.head_norm + head * size;
      const Floats factor = all(norm_factor(from, size, size, rows.epsilon));
      for (int64_t at = 0; at < size; at += LANES) {
        store(normed + at, multiply(load(weight + at), multiply(load(from + at), factor)));
      }
      from = normed;
    }
    const int64_t angles = rows.positions[row] * (size / 2);
    turn(from, rows.cosines + angles, rows.sines + angles, size / 2, turned);
    if (heads.kept == Kept::bytes) mix(turned, size);
    from = turned;
  }
  if (head < heads.heads) {
    store_query(heads, turned, queries + (row * heads.heads + head) * heads.query_bytes());
    return;
  }
  const int64_t page = rows.slots[row] / PAGE_TOKENS, token = rows.slots[row] % PAGE_TOKENS;
  const int64_t kv_head = (head - heads.heads) % heads.kv_heads;
  uint8_t* block = (is_value ? values : keys) + page * heads.page_bytes() + kv_head * heads.block_bytes();
  const auto store_in = heads.kept == Kept::brain ? store_brains : store_rounded;
  store_in(heads, from, is_value, token, block);
}

}  // namespace kvasir
