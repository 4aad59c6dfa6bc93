// What rows take from one part of a context: scores, their weights, and the weighted sums, added to the rows' states.
//
// Written once for both kinds of pages (`rotate.h`). A row's numbers are the same whatever rows are beside it.
#pragma once

#include "rotate.h"

namespace kvasir {

constexpr int PART_PAGES = 8;
constexpr int PART_TOKENS = PART_PAGES * PAGE_TOKENS;

struct ScoreRule {
  float scale;
  float cap;  // 0 where there is none
};

// The pages of one head, where they lie. While they are computed with, the same places of those that come next are asked for:
// pages lie anywhere in memory, in pieces too short for a processor to see a pattern in.
struct Part {
  const uint8_t *keys[PART_PAGES], *values[PART_PAGES];
  const uint8_t *next_keys[PART_PAGES], *next_values[PART_PAGES];
  bool has_next;
  int64_t pages;
  int64_t tokens;  // what lies behind them is an earlier user's
};

// A row sees the tokens from `first` to `end` of a part. Its state is what it has summed up so far:
//
//   [size]  the weighted sum
//   [LANES] its sum of weights, in sixteen parts
//   [LANES] the first of them is its largest score, to the base of 2; NOTHING while there is none
struct PartRow {
  const uint8_t* query;
  float* state;
  int64_t first, end;

  bool sees_any() const { return first < end; }
  bool sees_all(int64_t page) const { return page * PAGE_TOKENS >= first && (page + 1) * PAGE_TOKENS <= end; }
  int64_t first_page() const { return first / PAGE_TOKENS; }
  int64_t end_page() const { return (end + PAGE_TOKENS - 1) / PAGE_TOKENS; }
  // `a` where a token of the page is seen, `b` where not.
  Floats seen(int64_t page, Floats a, Floats b) const {
    return between((int)(first - page * PAGE_TOKENS), (int)(end - page * PAGE_TOKENS), a, b);
  }
};

constexpr float NOTHING = -__builtin_inff();

// `size`: of a head.
constexpr int64_t weights_at(int64_t size) { return size; }
constexpr int64_t largest_at(int64_t size) { return size + LANES; }
inline int64_t state_size(const Heads& heads) { return heads.size + 2 * LANES; }

// The state of a row that has seen nothing.
void begin_state(const Heads& heads, float* state);

// `is_whole`: each of the rows sees all of the part.
void attend_part(
    const Heads& heads, const ScoreRule& rule, const Part& part, const PartRow* rows, int64_t count, bool is_whole);

// What a row has attended to: `count` states, `stride` numbers apart, put together in their order.
void add_up(const float* states, int64_t count, int64_t stride, int64_t size, float* to);

}  // namespace kvasir
