#include "decoder.h"

#include <omp.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <optional>

namespace kvasir {
namespace {

// Memory on whole cache lines that grows and never shrinks.
template <class Number>
class Room {
 public:
  Number* of(int64_t count) {
    if (count > count_) {
      const size_t bytes = ((size_t)count * sizeof(Number) + 63) / 64 * 64;
      memory_.reset((Number*)std::aligned_alloc(64, bytes));
      if (memory_ == nullptr) throw std::bad_alloc();
      // What pads a row is never written, and has to be 0.
      std::memset((void*)memory_.get(), 0, bytes);
      count_ = count;
    }
    return memory_.get();
  }
  Number* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(Number* memory) const { std::free(memory); }
  };
  std::unique_ptr<Number, Free> memory_;
  int64_t count_ = 0;
};

class QuantisedRoom {
 public:
  QuantisedRows of(int64_t rows, int64_t groups) {
    const int64_t places = rows * groups;
    return rows_ = {bytes_.of(places * GROUP), scales_.of(places), sums_.of(places), offsets_.of(places), groups};
  }
  const QuantisedRows& get() const { return rows_; }

 private:
  Room<int8_t> bytes_;
  Room<float> scales_;
  Room<int32_t> sums_;
  Room<float> offsets_;
  QuantisedRows rows_{};
};

}  // namespace

struct Decoder::Rooms {
  Room<float> hidden, qkv, added, attended, states, buffers;
  Room<uint16_t> queries;
  QuantisedRoom normed, attended_rounded, gated, wanted;
  std::vector<std::atomic<int64_t>> next_item;
};

Decoder::Decoder(const DecoderShape& shape, const DecoderWeights& weights)
    : shape_(shape), weights_(weights), rooms_(std::make_unique<Rooms>()) {
  for (const LayerWeights& layer : weights_.layers) {
    if (std::find(windows_.begin(), windows_.end(), layer.window_tokens) == windows_.end()) {
      windows_.push_back(layer.window_tokens);
    }
  }
  rooms_->next_item = std::vector<std::atomic<int64_t>>(weights_.layers.size());
}

Decoder::~Decoder() = default;

void Decoder::run(const Step& step, int threads) {
  const int64_t rows = step.rows, hidden = shape_.hidden_padded();
  std::vector<AttentionPlan> plans;
  int64_t states = 0;
  for (const int64_t window : windows_) {
    plans.emplace_back(step.sequences, shape_.heads, window, threads);
    states = std::max(states, plans.back().state_numbers());
  }
  rooms_->hidden.of(rows * hidden);
  rooms_->qkv.of(rows * weights_.layers[0].qkv.tiles * LANES);
  rooms_->added.of(rows * hidden);
  rooms_->attended.of(threads * weights_.layers[0].attention_output.groups * GROUP);
  rooms_->states.of(states);
  rooms_->buffers.of(threads * hidden);
  rooms_->queries.of(rows * shape_.heads.heads * shape_.heads.size);
  rooms_->normed.of(rows, hidden / GROUP);
  rooms_->attended_rounded.of(rows, weights_.layers[0].attention_output.groups);
  rooms_->gated.of(rows, weights_.layers[0].down.groups);
  rooms_->wanted.of(step.wanted, hidden / GROUP);
  for (std::atomic<int64_t>& next : rooms_->next_item) next.store(0, std::memory_order_relaxed);
  std::optional<Team> team;
#pragma omp parallel num_threads(threads)
  {
    // There may be fewer than were asked for.
#pragma omp single
    team.emplace(omp_get_num_threads());
    compute(step, plans, *team, {omp_get_thread_num(), omp_get_num_threads()});
  }
}

void Decoder::compute(const Step& step, const std::vector<AttentionPlan>& plans, Team& team, Share share) {
  const int64_t size = shape_.hidden_padded();
  float* hidden = rooms_->hidden.get();
  float* buffer = rooms_->buffers.get() + share.thread * size;
  for (int64_t row = share.first(step.rows); row < share.end(step.rows); ++row) {
    float* own = hidden + row * size;
    matrix_row(weights_.embedding, step.token_ids[row], own);
    for (int64_t at = 0; at < size; at += LANES) store(own + at, multiply(load(own + at), all(shape_.embedding_scale)));
  }
  for (size_t index = 0; index < weights_.layers.size(); ++index) {
    const LayerWeights& layer = weights_.layers[index];
    const auto window = std::find(windows_.begin(), windows_.end(), layer.window_tokens) - windows_.begin();
    attention_part(step, layer, index, plans[window], team, share);
    feed_forward_part(step, layer, team, share);
  }
  for (int64_t at = share.first(step.wanted); at < share.end(step.wanted); ++at) {
    const float* row = hidden + step.logit_rows[at] * size;
    norm_and_quantise(row, weights_.final_norm, shape_.hidden, shape_.epsilon, buffer, rooms_->wanted.get(), at);
  }
  team.wait();
  linear_logits(
      weights_.head, rooms_->wanted.get(), step.wanted, shape_.vocabulary, shape_.logit_cap, step.logits, share);
}

void Decoder::attention_part(
    const Step& step, const LayerWeights& layer, size_t index, const AttentionPlan& plan, Team& team, Share share) {
  const int64_t size = shape_.hidden_padded(), rows = step.rows;
  float *hidden = rooms_->hidden.get(), *qkv = rooms_->qkv.get(), *added = rooms_->added.get();
  float* buffer = rooms_->buffers.get() + share.thread * size;
  const QuantisedRows& normed = rooms_->normed.get();
  for (int64_t row = share.first(rows); row < share.end(rows); ++row) {
    norm_and_quantise(hidden + row * size, layer.attention_norm, shape_.hidden, shape_.epsilon, buffer, normed, row);
  }
  team.wait();
  const int64_t stride = layer.qkv.tiles * LANES;
  linear(layer.qkv, normed, rows, layer.qkv_bias, qkv, stride, share);
  team.wait();
  const AngleTable& angles = step.angles[layer.rotation];
  const RotatedRows rotated = {
      qkv, stride, angles.cosines, angles.sines, step.positions, step.slots, layer.head_norm, shape_.epsilon};
  const int64_t turns = rows * shape_.heads.all();
  for (int64_t item = share.first(turns); item < share.end(turns); ++item) {
    rotate_and_store(
        shape_.heads, rotated, item, rooms_->queries.get(), step.keys[index], step.values[index]);
  }
  team.wait();
  // Contexts differ in length, so nobody can tell beforehand which share is as long as another.
  std::atomic<int64_t>& next = rooms_->next_item[index];
  for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < plan.items();) {
    plan.attend(
        item, shape_.score_rule, rooms_->queries.get(), step.keys[index], step.values[index], rooms_->states.get());
  }
  team.wait();
  const QuantisedRows& attended = rooms_->attended_rounded.get();
  float* row_room = rooms_->attended.get() + share.thread * attended.groups * GROUP;
  for (int64_t row = share.first(rows); row < share.end(rows); ++row) {
    plan.finish(row, rooms_->states.get(), row_room);
    quantise_row(row_room, attended, row);
  }
  team.wait();
  if (layer.attention_output_norm == nullptr) {
    linear_added(layer.attention_output, attended, rows, layer.attention_output_bias, hidden, size, share);
    team.wait();
    return;
  }
  linear(layer.attention_output, attended, rows, layer.attention_output_bias, added, size, share);
  team.wait();
  for (int64_t row = share.first(rows); row < share.end(rows); ++row) {
    const float* weight = layer.attention_output_norm;
    add_normed(hidden + row * size, added + row * size, weight, shape_.hidden, size, shape_.epsilon);
  }
}

void Decoder::feed_forward_part(const Step& step, const LayerWeights& layer, Team& team, Share share) {
  const int64_t size = shape_.hidden_padded(), rows = step.rows;
  float *hidden = rooms_->hidden.get(), *added = rooms_->added.get();
  float* buffer = rooms_->buffers.get() + share.thread * size;
  const QuantisedRows &normed = rooms_->normed.get(), &between = rooms_->gated.get();
  for (int64_t row = share.first(rows); row < share.end(rows); ++row) {
    norm_and_quantise(hidden + row * size, layer.feed_forward_norm, shape_.hidden, shape_.epsilon, buffer, normed, row);
  }
  team.wait();
  gated(layer.gate_up, normed, rows, layer.gate_up_bias, shape_.activation, between, share);
  team.wait();
  if (layer.feed_forward_output_norm == nullptr) {
    linear_added(layer.down, between, rows, layer.down_bias, hidden, size, share);
    team.wait();
    return;
  }
  linear(layer.down, between, rows, layer.down_bias, added, size, share);
  team.wait();
  for (int64_t row = share.first(rows); row < share.end(rows); ++row) {
    const float* weight = layer.feed_forward_output_norm;
    add_normed(hidden + row * size, added + row * size, weight, shape_.hidden, size, shape_.epsilon);
  }
  // Each thread norms the rows it has added to next: no need to meet.
}

}  // namespace kvasir
