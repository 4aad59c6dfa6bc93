#include "attention.h"

namespace kvasir {
namespace {

constexpr int64_t MOST_BLOCK_ROWS = 96;  // queries times the heads that share a key

// How many whole parts two sequences begin with that lie in the same pages.
int64_t common_parts(const int64_t* table, const int64_t* other, int64_t most) {
  int64_t part = 0;
  while (part < most && std::equal(table, table + PART_PAGES, other)) {
    table += PART_PAGES, other += PART_PAGES;
    ++part;
  }
  return part;
}

}  // namespace

AttentionPlan::AttentionPlan(const Sequences& sequences, const Heads& heads, int64_t window_tokens)
    : heads_(heads), window_(window_tokens) {
  rows_.resize(sequences.query_starts[sequences.count]);
  std::vector<int64_t> shared_parts(sequences.count, 0);
  if (window_ == 0) add_shared(sequences, shared_parts);
  add_items(0);
  shared_items_ = items();
  const int64_t own_blocks = (int64_t)blocks_.size();
  for (int64_t at = 0; at < sequences.count; ++at) add_sequence(sequences, at, shared_parts[at]);
  add_items(own_blocks);
}

// Sequences that begin with the same part form a group, which shares as many parts as all of it have in common and no row of it
// is still within.
void AttentionPlan::add_shared(const Sequences& sequences, std::vector<int64_t>& shared_parts) {
  const auto table = [&](int64_t at) { return sequences.block_tables + at * sequences.table_width; };
  const auto most = [&](int64_t at) {
    const int64_t queries = sequences.query_starts[at + 1] - sequences.query_starts[at];
    return (sequences.context_lens[at] - queries) / PART_TOKENS;
  };
  std::vector<bool> is_grouped(sequences.count, false);
  for (int64_t first = 0; first < sequences.count; ++first) {
    int64_t parts = most(first);
    if (is_grouped[first] || parts == 0) continue;
    std::vector<int64_t> group = {first};
    for (int64_t at = first + 1; at < sequences.count; ++at) {
      const int64_t common = is_grouped[at] ? 0 : common_parts(table(first), table(at), std::min(parts, most(at)));
      if (common == 0) continue;
      parts = common;
      is_grouped[at] = true;
      group.push_back(at);
    }
    if (group.size() == 1) continue;
    const int64_t first_query = (int64_t)queries_.size();
    for (const int64_t at : group) {
      shared_parts[at] = parts;
      for (int64_t row = sequences.first_row(at); row < sequences.query_starts[at + 1]; ++row) {
        queries_.push_back({row, sequences.context_lens[at] - sequences.query_starts[at + 1] + row});
      }
    }
    const int64_t end_query = (int64_t)queries_.size();
    const int64_t most_queries = std::max<int64_t>(1, MOST_BLOCK_ROWS / (heads_.heads / heads_.kv_heads));
    for (int64_t query = first_query; query < end_query; query += most_queries) {
      const int64_t end = std::min(query + most_queries, end_query);
      blocks_.push_back({table(first), query, end, 0, parts, 0, parts, 0, parts * PART_TOKENS, false});
    }
  }
}

void AttentionPlan::add_sequence(const Sequences& sequences, int64_t at, int64_t shared_parts) {
  const int64_t start = sequences.query_starts[at], end = sequences.query_starts[at + 1];
  const int64_t before = sequences.context_lens[at] - (end - start);
  const int64_t most_queries = std::max<int64_t>(1, MOST_BLOCK_ROWS / (heads_.heads / heads_.kv_heads));
  for (int64_t row = sequences.first_row(at); row < end; row += most_queries) {
    QueryBlock block;
    block.table = sequences.block_tables + at * sequences.table_width;
    block.first_query = (int64_t)queries_.size();
    block.end_query = block.first_query + std::min(most_queries, end - row);
    const int64_t position = before + row - start;
    block.first_token = window_ == 0 ? shared_parts * PART_TOKENS : std::max<int64_t>(0, position + 1 - window_);
    block.end_token = position + block.end_query - block.first_query;
    block.first_part = block.first_token / PART_TOKENS;
    block.end_part = (block.end_token - 1) / PART_TOKENS + 1;
    const int64_t last_first = window_ == 0 ? 0 : std::max<int64_t>(0, block.end_token - window_);
    block.first_whole = (last_first + PART_TOKENS - 1) / PART_TOKENS;
    block.end_whole = (position + 1) / PART_TOKENS;
    block.continues = shared_parts % SPAN_PARTS != 0;
    const int64_t first_span = window_ == 0 ? 0 : block.first_part / SPAN_PARTS;
    const int64_t end_span = (block.end_part - 1) / SPAN_PARTS + 1;
    for (int64_t query = 0; query < block.end_query - block.first_query; ++query) {
      queries_.push_back({row + query, position + query});
      rows_[row + query] = {states_, first_span, end_span};
      states_ += end_span - first_span;
    }
    blocks_.push_back(block);
  }
}

void AttentionPlan::add_items(int64_t first_block) {
  for (int64_t at = first_block; at < (int64_t)blocks_.size(); ++at) {
    const QueryBlock& block = blocks_[at];
    for (int64_t kv_head = 0; kv_head < heads_.kv_heads; ++kv_head) {
      for (int64_t part = block.first_part; part < block.end_part;) {
        const int64_t end = std::min((part / SPAN_PARTS + 1) * SPAN_PARTS, block.end_part);
        items_.push_back({at, kv_head, part, end});
        part = end;
      }
    }
  }
}

float* AttentionPlan::state_of(const Query& query, int64_t span, int64_t head, float* states) const {
  const RowStates& row = rows_[query.row];
  return states + ((row.first_state + span - row.first_span) * heads_.heads + head) * state_size(heads_);
}

Part AttentionPlan::part_of(
    const QueryBlock& block, int64_t kv_head, int64_t part, const uint8_t* keys, const uint8_t* values) const {
  Part own;
  // Pages before all that is seen are not read; what is asked for ahead may be fewer pages than are computed with meanwhile.
  const int64_t last = (block.end_token - 1) / PAGE_TOKENS, first = block.first_token / PAGE_TOKENS;
  for (int64_t page = 0; page < PART_PAGES; ++page) {
    const int64_t number = block.table[std::clamp(part * PART_PAGES + page, first, last)];
    const int64_t place = number * heads_.page_bytes() + kv_head * heads_.block_bytes();
    own.keys[page] = keys + place;
    own.values[page] = values + place;
  }
  own.tokens = std::min<int64_t>(block.end_token - part * PART_TOKENS, PART_TOKENS);
  return own;
}

void AttentionPlan::attend(
    int64_t item, const ScoreRule& rule, const uint8_t* queries, const uint8_t* keys, const uint8_t* values,
    float* states) const {
  const int64_t shared = heads_.heads / heads_.kv_heads, end = (items_[item].kv_head + 1) * shared;
  for (int64_t head = end - shared; head < end; head += MOST_BLOCK_ROWS) {
    attend_heads(item, head, std::min(head + MOST_BLOCK_ROWS, end), rule, queries, keys, values, states);
  }
}

void AttentionPlan::attend_heads(
    int64_t index, int64_t first_head, int64_t end_head, const ScoreRule& rule, const uint8_t* queries,
    const uint8_t* keys, const uint8_t* values, float* states) const {
  const AttentionItem& item = items_[index];
  const QueryBlock& block = blocks_[item.block];
  const int64_t span = item.first_part / SPAN_PARTS;
  const bool continues = block.continues && item.first_part == block.first_part;
  PartRow rows[MOST_BLOCK_ROWS];
  int64_t positions[MOST_BLOCK_ROWS];
  int64_t count = 0;
  for (int64_t at = block.first_query; at < block.end_query; ++at) {
    const Query& query = queries_[at];
    for (int64_t head = first_head; head < end_head; ++head, ++count) {
      float* state = state_of(query, span, head, states);
      if (!continues) begin_state(heads_, state);
      rows[count] = {queries + (query.row * heads_.heads + head) * heads_.query_bytes(), state, 0, PART_TOKENS};
      positions[count] = query.position;
    }
  }
  Part own = part_of(block, item.kv_head, item.first_part, keys, values);
  for (int64_t part = item.first_part; part < item.end_part; ++part) {
    const int64_t first_token = part * PART_TOKENS;
    const bool is_last = part + 1 == item.end_part;
    Part next;
    own.has_next = !is_last || index + 1 < items();
    if (own.has_next) {
      const AttentionItem& after = is_last ? items_[index + 1] : item;
      next = part_of(blocks_[after.block], after.kv_head, is_last ? after.first_part : part + 1, keys, values);
      std::copy_n(next.keys, PART_PAGES, own.next_keys);
      std::copy_n(next.values, PART_PAGES, own.next_values);
    }
    const bool is_whole = part >= block.first_whole && part < block.end_whole;
    for (int64_t row = 0; row < count && !is_whole; ++row) {
      rows[row].end = std::min<int64_t>(positions[row] + 1 - first_token, own.tokens);
      rows[row].first = window_ == 0 ? 0 : std::max<int64_t>(0, positions[row] + 1 - window_ - first_token);
    }
    attend_part(heads_, rule, own, rows, count, is_whole);
    own = next;
  }
}

void AttentionPlan::finish(int64_t row, const float* states, float* to) const {
  const RowStates& own = rows_[row];
  const int64_t size = state_size(heads_);
  for (int64_t head = 0; head < heads_.heads; ++head) {
    add_up(
        states + (own.first_state * heads_.heads + head) * size, own.end_span - own.first_span, heads_.heads * size,
        heads_.size, to + head * heads_.size);
  }
}

}  // namespace kvasir
