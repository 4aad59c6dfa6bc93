#include "attention.h"

#include <limits>

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace kvasir {
namespace {

constexpr int ROWS_AT_ONCE = 4;
constexpr int64_t MOST_BLOCK_ROWS = 32;  // queries times the heads that share a key
constexpr int64_t ITEMS_PER_THREAD = 8;  // fewer than this, and contexts are split
constexpr float NOTHING = -std::numeric_limits<float>::infinity();

// Pages lie anywhere in memory, in pieces too short for a processor to see a pattern in: while some are computed with, the same
// places of those that come next are asked for. `ahead` is none where they have been asked for already.

// Scores of `Rows` queries with the tokens of `Pages` pages.
template <int Rows, int Pages>
ALWAYS_INLINE void scores_of(
    const uint16_t* const (&queries)[Rows], const uint16_t* const* keys, const uint16_t* const* ahead, int64_t size,
    float* to) {
  Floats total[Rows][Pages];
#pragma GCC unroll 4
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int page = 0; page < Pages; ++page) total[row][page] = zeros();
  }
  for (int64_t pair = 0; pair < size; pair += 2) {
    BytePairs key[Pages];
#pragma GCC unroll 4
    for (int page = 0; page < Pages; ++page) {
      key[page] = load_pairs(keys[page] + pair * PAGE_TOKENS);
      if (ahead != nullptr) fetch_ahead(ahead[page] + pair * PAGE_TOKENS);
    }
#pragma GCC unroll 4
    for (int row = 0; row < Rows; ++row) {
      const BytePairs query = all_pairs(queries[row] + pair);
#pragma GCC unroll 4
      for (int page = 0; page < Pages; ++page) total[row][page] = dot_pairs(total[row][page], key[page], query);
    }
  }
#pragma GCC unroll 4
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int page = 0; page < Pages; ++page) store(to + row * PART_TOKENS + page * PAGE_TOKENS, total[row][page]);
  }
}

// Weighted sums of `Chunks` times 16 dimensions for `Rows` queries.
template <int Rows, int Chunks>
ALWAYS_INLINE void sums_of(
    const uint16_t* weights, const uint16_t* const* values, const uint16_t* const* ahead, int64_t offset,
    int64_t tokens, int64_t size, float* to) {
  Floats total[Rows][Chunks];
#pragma GCC unroll 4
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int chunk = 0; chunk < Chunks; ++chunk) total[row][chunk] = zeros();
  }
  for (int64_t token = 0; token < tokens; token += 2) {
    const int64_t place = token % PAGE_TOKENS * size + offset;
    const uint16_t* two = values[token / PAGE_TOKENS] + place;
    BytePairs value[Chunks];
#pragma GCC unroll 4
    for (int chunk = 0; chunk < Chunks; ++chunk) {
      value[chunk] = load_pairs(two + chunk * 2 * LANES);
      if (ahead != nullptr) fetch_ahead(ahead[token / PAGE_TOKENS] + place + chunk * 2 * LANES);
    }
    if (token + 1 == tokens) {
      // What lies behind the last token is an earlier user's, and need not be numbers: 0 times that is not 0.
#pragma GCC unroll 4
      for (int chunk = 0; chunk < Chunks; ++chunk) value[chunk] = first_of_pairs(value[chunk]);
    }
#pragma GCC unroll 4
    for (int row = 0; row < Rows; ++row) {
      const BytePairs weight = all_pairs(weights + row * PART_TOKENS + token);
#pragma GCC unroll 4
      for (int chunk = 0; chunk < Chunks; ++chunk) {
        total[row][chunk] = dot_pairs(total[row][chunk], value[chunk], weight);
      }
    }
  }
#pragma GCC unroll 4
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int chunk = 0; chunk < Chunks; ++chunk) store(to + row * size + chunk * LANES, total[row][chunk]);
  }
}

// One row's scores become weights, in bfloat16; tokens outside `first` to `end` get 0. Returns the sum of the weights.
float weigh(
    float* scores, int64_t tokens, int64_t first, int64_t end, const ScoreRule& rule, float* largest_score,
    uint16_t* weights) {
  Floats most = all(NOTHING);
  for (int64_t at = 0; at < tokens; at += LANES) {
    Floats part = multiply(load(scores + at), all(rule.scale));
    if (rule.cap != 0.0f) part = multiply(all(rule.cap), hyperbolic_tangent(divide(part, all(rule.cap))));
    part = between((int)(first - at), (int)(end - at), part, all(NOTHING));
    store(scores + at, part);
    most = larger(most, part);
  }
  *largest_score = largest(most);
  Floats total = zeros();
  for (int64_t at = 0; at < tokens; at += LANES) {
    const Floats weight = exponential(subtract(load(scores + at), all(*largest_score)));
    store_brain(weights + at, weight);
    total = add(total, weight);
  }
  return sum(total);
}

// Adds one part's state to those before it; the first two numbers behind a sum are its largest score and sum of weights.
void fold(float* state, const float* part, int64_t size) {
  const float most = state[size] > part[size] ? state[size] : part[size];
  float old_share[LANES], new_share[LANES];
  store(old_share, exponential(all(state[size] - most)));
  store(new_share, exponential(all(part[size] - most)));
  for (int64_t at = 0; at < size; at += LANES) {
    const Floats before = multiply(load(state + at), all(old_share[0]));
    store(state + at, multiply_add(load(part + at), all(new_share[0]), before));
  }
  state[size + 1] = state[size + 1] * old_share[0] + part[size + 1] * new_share[0];
  state[size] = most;
}

void copy_state(float* to, const float* from, int64_t size) {
  for (int64_t at = 0; at < size + LANES; at += LANES) store(to + at, load(from + at));
}

}  // namespace

AttentionPlan::AttentionPlan(const Sequences& sequences, const Heads& heads, int64_t window_tokens, int threads)
    : heads_(heads), window_(window_tokens) {
  const int64_t shared = heads.heads / heads.kv_heads;
  const int64_t most_rows = std::max<int64_t>(1, MOST_BLOCK_ROWS / shared);
  for (int64_t at = 0; at < sequences.count; ++at) {
    const int64_t start = sequences.query_starts[at], end = sequences.query_starts[at + 1];
    const int64_t before = sequences.context_lens[at] - (end - start);
    for (int64_t row = start; row < end; row += most_rows) {
      QueryBlock block;
      block.table = sequences.block_tables + at * sequences.table_width;
      block.first_row = row;
      block.rows = std::min(most_rows, end - row);
      block.first_position = before + row - start;
      const int64_t first_token = window_ == 0 ? 0 : std::max<int64_t>(0, block.first_position + 1 - window_);
      block.first_part = first_token / PART_TOKENS;
      block.end_part = (block.first_position + block.rows - 1) / PART_TOKENS + 1;
      block.split = false;
      block_of_row_.resize(row + block.rows, (int64_t)blocks_.size());
      blocks_.push_back(block);
    }
  }
  const bool few = (int64_t)blocks_.size() * heads.kv_heads < ITEMS_PER_THREAD * threads;
  for (int64_t at = 0; at < (int64_t)blocks_.size(); ++at) {
    QueryBlock& block = blocks_[at];
    block.split = few && block.end_part - block.first_part > 1;
    block.first_state = states_;
    states_ += block.rows * block.states_each();
    for (int64_t kv_head = 0; kv_head < heads.kv_heads; ++kv_head) {
      if (!block.split) {
        items_.push_back({at, kv_head, block.first_part, block.end_part, 0});
        continue;
      }
      for (int64_t part = block.first_part; part < block.end_part; ++part) {
        items_.push_back({at, kv_head, part, part + 1, part - block.first_part});
      }
    }
  }
}

void AttentionPlan::attend(
    int64_t index, const ScoreRule& rule, const uint16_t* queries, const uint16_t* keys, const uint16_t* values,
    float* states) const {
  const AttentionItem& item = items_[index];
  const QueryBlock& block = blocks_[item.block];
  const int64_t shared = heads_.heads / heads_.kv_heads;
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t state = block.first_state + row * block.states_each() + item.state;
    for (int64_t head = item.kv_head * shared; head < (item.kv_head + 1) * shared; ++head) {
      states[(state * heads_.heads + head) * state_size() + heads_.size] = NOTHING;
    }
  }
  for (int64_t part = item.first_part; part < item.end_part; ++part) {
    attend_part(block, item, part, rule, queries, keys, values, states);
  }
}

void AttentionPlan::attend_part(
    const QueryBlock& block, const AttentionItem& item, int64_t part, const ScoreRule& rule, const uint16_t* queries,
    const uint16_t* keys, const uint16_t* values, float* states) const {
  const int64_t size = heads_.size, shared = heads_.heads / heads_.kv_heads;
  const int64_t first_token = part * PART_TOKENS;
  const int64_t tokens = std::min<int64_t>(block.first_position + block.rows - first_token, PART_TOKENS);
  // Whole pages before every window of the block are not read.
  const int64_t window_start = window_ == 0 ? 0 : block.first_position + 1 - window_ - first_token;
  const int64_t skipped = window_start <= 0 ? 0 : window_start / PAGE_TOKENS;
  const int64_t first_read = skipped * PAGE_TOKENS, read = tokens - first_read;
  const int64_t pages = (read + PAGE_TOKENS - 1) / PAGE_TOKENS;
  const uint16_t *page_keys[PART_PAGES], *page_values[PART_PAGES];
  for (int64_t page = 0; page < pages; ++page) {
    const int64_t number = block.table[part * PART_PAGES + skipped + page];
    const int64_t place = number * heads_.page_numbers() + item.kv_head * PAGE_TOKENS * size;
    page_keys[page] = keys + place;
    page_values[page] = values + place;
  }
  const uint16_t* next_keys[PART_PAGES];
  const bool has_next = part + 1 < item.end_part;
  for (int64_t page = 0; has_next && page < pages; ++page) {
    // The last part may be short: then its last page is asked for again.
    const int64_t last = (block.first_position + block.rows - 1) / PAGE_TOKENS;
    const int64_t number = block.table[std::min((part + 1) * PART_PAGES + page, last)];
    next_keys[page] = keys + number * heads_.page_numbers() + item.kv_head * PAGE_TOKENS * size;
  }
  alignas(64) float scores[ROWS_AT_ONCE * PART_TOKENS];
  alignas(64) uint16_t weights[ROWS_AT_ONCE * PART_TOKENS];
  alignas(64) float sums[ROWS_AT_ONCE * 512];

  const auto some_rows = [&](auto rows_at_once, int64_t first) {
    constexpr int rows = decltype(rows_at_once)::value;
    const uint16_t* own[rows];
    for (int at = 0; at < rows; ++at) {
      const int64_t row = block.first_row + (first + at) / shared;
      own[at] = queries + (row * heads_.heads + item.kv_head * shared + (first + at) % shared) * size;
    }
    int64_t page = 0;
    const auto score = [&](auto pages_at_once) {
      constexpr int some_pages = decltype(pages_at_once)::value;
      for (; page + some_pages <= pages; page += some_pages) {
        const uint16_t* const* ahead = first == 0 ? page_values + page : nullptr;
        scores_of<rows, some_pages>(own, page_keys + page, ahead, size, scores + page * PAGE_TOKENS);
      }
    };
    score(std::integral_constant<int, 4>());
    score(std::integral_constant<int, 1>());
    float most[rows], weight_sums[rows];
    for (int at = 0; at < rows; ++at) {
      const int64_t position = block.first_position + (first + at) / shared - first_token - first_read;
      const int64_t begin = window_ == 0 ? 0 : position + 1 - window_;
      weight_sums[at] = weigh(
          scores + at * PART_TOKENS, pages * PAGE_TOKENS, begin, position + 1, rule, most + at,
          weights + at * PART_TOKENS);
    }
    int64_t dimension = 0;
    const uint16_t* const* ahead = has_next && first == 0 ? next_keys : nullptr;
    const auto add_up = [&](auto chunks_at_once) {
      constexpr int chunks = decltype(chunks_at_once)::value;
      for (; dimension + chunks * LANES <= size; dimension += chunks * LANES) {
        sums_of<rows, chunks>(weights, page_values, ahead, 2 * dimension, read, size, sums + dimension);
      }
    };
    add_up(std::integral_constant<int, 4>());
    add_up(std::integral_constant<int, 1>());
    for (int at = 0; at < rows; ++at) {
      const int64_t position = block.first_position + (first + at) / shared - first_token - first_read;
      const int64_t begin = window_ == 0 ? 0 : position + 1 - window_;
      if (position < 0 || begin >= read) continue;
      const int64_t row = (first + at) / shared, head = item.kv_head * shared + (first + at) % shared;
      const int64_t place = block.first_state + row * block.states_each() + item.state;
      float* state = states + (place * heads_.heads + head) * state_size();
      alignas(64) float own_state[512 + LANES];
      for (int64_t at_number = 0; at_number < size; at_number += LANES) {
        store(own_state + at_number, load(sums + at * size + at_number));
      }
      store(own_state + size, zeros());
      own_state[size] = most[at];
      own_state[size + 1] = weight_sums[at];
      if (state[size] == NOTHING) {
        copy_state(state, own_state, size);
      } else {
        fold(state, own_state, size);
      }
    }
  };

  const int64_t all_rows = block.rows * shared;
  int64_t first = 0;
  for (; first + 4 <= all_rows; first += 4) some_rows(std::integral_constant<int, 4>(), first);
  switch (all_rows - first) {
    case 3: some_rows(std::integral_constant<int, 3>(), first); break;
    case 2: some_rows(std::integral_constant<int, 2>(), first); break;
    case 1: some_rows(std::integral_constant<int, 1>(), first); break;
    default: break;
  }
}

void AttentionPlan::finish(int64_t row, const float* states, float* to) const {
  const QueryBlock& block = blocks_[block_of_row_[row]];
  const int64_t first = block.first_state + (row - block.first_row) * block.states_each();
  for (int64_t head = 0; head < heads_.heads; ++head) {
    alignas(64) float state[512 + LANES];
    bool begun = false;
    for (int64_t part = 0; part < block.states_each(); ++part) {
      const float* own = states + ((first + part) * heads_.heads + head) * state_size();
      if (own[heads_.size] == NOTHING) continue;
      if (begun) {
        fold(state, own, heads_.size);
      } else {
        copy_state(state, own, heads_.size);
      }
      begun = true;
    }
    for (int64_t at = 0; at < heads_.size; at += LANES) {
      store(to + head * heads_.size + at, divide(load(state + at), all(state[heads_.size + 1])));
    }
  }
}

}  // namespace kvasir
