// Turns queries and keys by their positions and writes keys and values into their pages.
//
// A page of one layer is laid out for registers of 16 lanes; it is a block for each head that keys are kept for, D is the size of a
// head, t a token and d a dimension:
//
//   bfloat16   keys    [D / 2][16][2]     at (d / 2, t, d % 2): a register is two dimensions of all tokens
//              values  [8][D][2]          at (t / 2, d, t % 2): a register is two tokens of 16 dimensions
//   8 bits     keys    [D / 4][16][4]     at (d / 4, t, d % 4), 128 added, then the tokens' scales, [16] float32
//              values  [4][D][4]          at (t / 4, d, t % 4), then the tokens' scales, [16] float32
//
// In 8 bits each token has a scale of its own in each head, its largest magnitude / 127: a token's bytes depend on no other's.
// Keys and queries are rounded after a Walsh-Hadamard transform, in blocks as large as the largest power of two that divides D:
// products of two stay what they are, and what a few dimensions are much larger in than others is spread over all of them.
#pragma once

#include "rows.h"

namespace kvasir {

constexpr int PAGE_TOKENS = 16;
// What is nowhere larger is rounded to 0: one over it would be infinite.
constexpr float SMALLEST_MAGNITUDE = 1e-30f;

enum class Kept { brain, bytes };

// Behind the bytes of a query in 8 bits.
struct RoundedQuery {
  float scale;
  int32_t sum;
};

struct Heads {
  int64_t heads;
  int64_t kv_heads;
  int64_t size;
  Kept kept;

  // What a page keeps of each token of a head, scale and all.
  int64_t token_bytes() const { return kept == Kept::brain ? 2 * size : size + (int64_t)sizeof(float); }
  int64_t block_bytes() const { return PAGE_TOKENS * token_bytes(); }
  int64_t page_bytes() const { return kv_heads * block_bytes(); }
  int64_t query_bytes() const { return kept == Kept::brain ? 2 * size : size + (int64_t)sizeof(RoundedQuery); }
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

// `item` is a row and one of its heads: row * heads.all() + head. Writes `queries`, [rows][heads][query_bytes], `keys` and `values`.
void rotate_and_store(
    const Heads& heads, const RotatedRows& rows, int64_t item, uint8_t* queries, uint8_t* keys, uint8_t* values);

}  // namespace kvasir
