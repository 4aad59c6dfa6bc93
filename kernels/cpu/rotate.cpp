#include "rotate.h"

namespace kvasir {
namespace {

constexpr int64_t LARGEST_HEAD = 512;

void turn(const float* head, const float* cosines, const float* sines, int64_t half, float* to) {
  for (int64_t at = 0; at < half; ++at) {
    const float first = head[at], second = head[at + half];
    to[at] = first * cosines[at] - second * sines[at];
    to[at + half] = second * cosines[at] + first * sines[at];
  }
}

void narrow(const float* from, int64_t size, uint16_t* to) {
  for (int64_t at = 0; at < size; at += LANES) store_brain(to + at, load(from + at));
}

}  // namespace

void rotate_and_store(
    const Heads& heads, const RotatedRows& rows, int64_t item, uint16_t* queries, uint16_t* keys, uint16_t* values) {
  const int64_t row = item / heads.all(), head = item % heads.all(), size = heads.size;
  const float* from = rows.qkv + row * rows.stride + head * size;
  const bool is_value = head >= heads.heads + heads.kv_heads;
  alignas(64) float normed[LARGEST_HEAD], turned[LARGEST_HEAD];
  alignas(64) uint16_t brain[LARGEST_HEAD];
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
    from = turned;
  }
  if (head < heads.heads) {
    narrow(from, size, queries + (row * heads.heads + head) * size);
    return;
  }
  narrow(from, size, brain);
  const int64_t page = rows.slots[row] / PAGE_TOKENS, token = rows.slots[row] % PAGE_TOKENS;
  const int64_t kv_head = (head - heads.heads) % heads.kv_heads;
  const int64_t place = page * heads.page_numbers() + kv_head * PAGE_TOKENS * size;
  if (is_value) {
    uint16_t* to = values + place + token / 2 * 2 * size + token % 2;
    for (int64_t at = 0; at < size; ++at) to[2 * at] = brain[at];
  } else {
    uint16_t* to = keys + place + 2 * token;
    for (int64_t at = 0; at < size; at += 2) {
      to[at * PAGE_TOKENS] = brain[at];
      to[at * PAGE_TOKENS + 1] = brain[at + 1];
    }
  }
}

}  // namespace kvasir
