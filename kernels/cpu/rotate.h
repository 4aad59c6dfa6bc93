// Turns queries and keys by their positions and writes keys and values into their pages.
//
// A page of one layer, in bfloat16, laid out for registers of 16 lanes; heads are `kv_heads`, D is the size of one:
//
//   keys    [heads][D / 2][16][2]     token t, dimension d at (d / 2, t, d % 2): a register is one pair of dimensions of all tokens
//   values  [heads][8][D][2]          at (t / 2, d, t % 2): a register is two tokens of 16 dimensions
#pragma once

#include "rows.h"

namespace kvasir {

constexpr int PAGE_TOKENS = 16;

struct Heads {
  int64_t heads;
  int64_t kv_heads;
  int64_t size;

  int64_t page_numbers() const { return kv_heads * PAGE_TOKENS * size; }
  int64_t all() const { return heads + 2 * kv_heads; }
};

struct RotatedRows {
  const float* qkv;        // [rows][stride]: queries, keys, values
  int64_t stride;
  const float* cosines;    // [positions][size / 2]
  const float* sines;
  const int64_t* positions;
  const int64_t* slots;
  const float* head_norm;  // [heads + kv_heads][size], or none
  float epsilon;
};

// `item` is a row and one of its heads: row * heads.all() + head. Writes `queries`, [rows][heads][size], `keys` and `values`.
void rotate_and_store(
    const Heads& heads, const RotatedRows& rows, int64_t item, uint16_t* queries, uint16_t* keys, uint16_t* values);

}  // namespace kvasir
