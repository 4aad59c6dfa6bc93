// Attention over pages where they lie, for decoding rows and for chunks of prompts alike.
//
// A context is cut into parts of `PART_PAGES` pages, and into spans of `SPAN_PARTS` parts, counted from its beginning. A row's
// result of each part is computed alone, parts are added up in their order within a span, and spans are in theirs: whether one
// thread takes all of a row or many take some spans each, whether a row comes alone, in a chunk or with rows of other
// sequences that begin with the same pages, gives the same bits.
#pragma once

#include <algorithm>
#include <vector>

#include "part.h"

namespace kvasir {

constexpr int SPAN_PARTS = 4;

struct Sequences {
  int64_t count;
  const int64_t* query_starts;  // [count + 1]
  const int64_t* context_lens;  // [count]
  const int64_t* block_tables;  // [count][table_width]
  int64_t table_width;
  const int64_t* attending_from = nullptr;  // [count]: the first row of each that attends; all where there are none

  int64_t first_row(int64_t at) const { return attending_from == nullptr ? query_starts[at] : attending_from[at]; }
};

// Some rows that read the same parts: neighbours of one sequence, or those of several that share their first pages.
struct QueryBlock {
  const int64_t* table;
  int64_t first_query, end_query;  // of the plan's queries
  int64_t first_part, end_part;
  int64_t first_whole, end_whole;  // the parts that each of the rows sees all of
  int64_t first_token, end_token;  // what any of the rows sees lies between
  bool continues;                  // the rows' states of the first span hold the parts before
};

struct AttentionItem {
  int64_t block;
  int64_t kv_head;
  int64_t first_part, end_part;  // within one span
};

// Who attends to what in a step: made once, used in all layers with the same window (0 where there is none).
//
// The items before `shared_items()` are to be done before the others: they read what several sequences begin with, once for all.
class AttentionPlan {
 public:
  AttentionPlan(const Sequences& sequences, const Heads& heads, int64_t window_tokens);

  int64_t items() const { return (int64_t)items_.size(); }
  int64_t shared_items() const { return shared_items_; }
  // Numbers the states of all rows need.
  int64_t state_numbers() const { return states_ * heads_.heads * state_size(heads_); }

  // `queries` [rows][heads][query_bytes].
  void attend(
      int64_t item, const ScoreRule& rule, const uint8_t* queries, const uint8_t* keys, const uint8_t* values,
      float* states) const;
  // Puts the spans of one row together: [heads * size].
  void finish(int64_t row, const float* states, float* to) const;

 private:
  struct Query {
    int64_t row, position;
  };
  struct RowStates {
    int64_t first_state, first_span, end_span;
  };

  // For some of the heads that share the item's keys.
  void attend_heads(
      int64_t item, int64_t first_head, int64_t end_head, const ScoreRule& rule, const uint8_t* queries,
      const uint8_t* keys, const uint8_t* values, float* states) const;
  void add_sequence(const Sequences& sequences, int64_t at, int64_t shared_parts);
  void add_items(int64_t first_block);
  void add_shared(const Sequences& sequences, std::vector<int64_t>& shared_parts);
  Part part_of(const QueryBlock& block, int64_t kv_head, int64_t part, const uint8_t* keys, const uint8_t* values) const;
  float* state_of(const Query& query, int64_t span, int64_t head, float* states) const;

  Heads heads_;
  int64_t window_;
  int64_t states_ = 0, shared_items_ = 0;
  std::vector<Query> queries_;
  std::vector<QueryBlock> blocks_;
  std::vector<AttentionItem> items_;
  std::vector<RowStates> rows_;
};

}  // namespace kvasir
