// Attention over pages where they lie, for decoding rows and for chunks of prompts alike.
//
// A context is cut into parts of `PART_PAGES` pages, counted from its beginning. A row's result of each part is computed
// alone, and parts are folded in their order: whether one thread takes all parts of a row or many take one each, whether a row
// comes alone or in a chunk, gives the same bits.
#pragma once

#include <algorithm>
#include <vector>

#include "rotate.h"

namespace kvasir {

constexpr int PART_PAGES = 8;
constexpr int PART_TOKENS = PART_PAGES * PAGE_TOKENS;

struct Sequences {
  int64_t count;
  const int64_t* query_starts;  // [count + 1]
  const int64_t* context_lens;  // [count]
  const int64_t* block_tables;  // [count][table_width]
  int64_t table_width;
};

struct ScoreRule {
  float scale;
  float cap;  // 0 where there is none
};

// Some neighbouring rows of one sequence, which share what is read for them.
struct QueryBlock {
  const int64_t* table;
  int64_t first_row, rows;
  int64_t first_position;
  int64_t first_part, end_part;
  int64_t first_state;  // of the first row: a row has one state for all parts, or `end_part - first_part`
  bool split;

  int64_t states_each() const { return split ? end_part - first_part : 1; }
};

struct AttentionItem {
  int64_t block;
  int64_t kv_head;
  int64_t first_part, end_part;
  int64_t state;  // 0, or which part of a split block
};

// Who attends to what in a step: made once, used in all layers with the same window (0 where there is none).
class AttentionPlan {
 public:
  AttentionPlan(const Sequences& sequences, const Heads& heads, int64_t window_tokens, int threads);

  int64_t items() const { return (int64_t)items_.size(); }
  // Numbers the states of all rows need.
  int64_t state_numbers() const { return states_ * heads_.heads * state_size(); }

  // `queries` [rows][heads][size] bfloat16.
  void attend(
      int64_t item, const ScoreRule& rule, const uint16_t* queries, const uint16_t* keys, const uint16_t* values,
      float* states) const;
  // Puts the parts of one row together: [heads * size].
  void finish(int64_t row, const float* states, float* to) const;

 private:
  // The weighted sum, its largest score and its sum of weights, and whether there is any.
  int64_t state_size() const { return heads_.size + LANES; }
  void attend_part(
      const QueryBlock& block, const AttentionItem& item, int64_t part, const ScoreRule& rule, const uint16_t* queries,
      const uint16_t* keys, const uint16_t* values, float* states) const;

  Heads heads_;
  int64_t window_;
  int64_t states_ = 0;
  std::vector<QueryBlock> blocks_;
  std::vector<AttentionItem> items_;
  std::vector<int64_t> block_of_row_;
};

}  // namespace kvasir
