#include "decoder.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

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
    return {bytes_.of(places * GROUP), scales_.of(places), sums_.of(places), offsets_.of(places), groups};
  }

 private:
  Room<int8_t> bytes_;
  Room<float> scales_;
  Room<int32_t> sums_;
  Room<float> offsets_;
};

// Of each sequence; its end where none is wanted.
std::vector<int64_t> first_wanted_rows(const Step& step) {
  const int64_t *starts = step.sequences.query_starts, count = step.sequences.count;
  std::vector<int64_t> first(starts + 1, starts + 1 + count);
  for (int64_t at = 0; at < step.wanted; ++at) {
    const int64_t row = step.logit_rows[at];
    const int64_t sequence = std::upper_bound(starts, starts + count + 1, row) - starts - 1;
    first[sequence] = std::min(first[sequence], row);
  }
  return first;
}

}  // namespace

struct Decoder::Rooms {
  Room<float> hidden, wanted, qkv, added, attended, states, buffers;
  Room<uint8_t> queries;
  QuantisedRoom normed, attended_rounded, gated;
};

// All that the threads of one step need, for as long as the last of them needs it: one that comes late finds nothing to compute, and
// looks at nothing that belongs to the next step.
struct Decoder::Work {
  const Step step;
  const std::vector<AttentionPlan> plans;
  float *hidden, *wanted, *qkv, *added, *attended, *states, *buffers;
  uint8_t* queries;
  QuantisedRows normed, attended_rounded, gated;
  Team team;
};

// One thread's way through a step.
class Decoder::Pass {
 public:
  Pass(const Decoder& decoder, Work& work, int thread)
      : shape_(decoder.shape_),
        weights_(decoder.weights_),
        windows_(decoder.windows_),
        work_(work),
        step_(work.step),
        heads_(decoder.heads_of(step_)),
        thread_(thread),
        size_(shape_.hidden_padded()),
        rows_(step_.rows),
        hidden_(work.hidden),
        buffer_(work.buffers + thread * size_),
        row_room_(work.attended + thread * weights_.layers[0].attention_output.groups * GROUP) {}

  static constexpr int64_t OPERATIONS_OF_LAYER = 10, OTHER_OPERATIONS = 3;

  void run() {
    each(step_.rows, [&](int64_t row) { embed(row); });
    const LayerWeights* before = nullptr;
    for (size_t index = 0; index < weights_.layers.size(); ++index) {
      const LayerWeights& layer = weights_.layers[index];
      each(rows_, [&](int64_t row) {
        if (before != nullptr) add_output(row, before->feed_forward_output_norm);
        norm(row, layer.attention_norm);
      });
      attend(layer, index);
      each(rows_, [&](int64_t row) {
        add_output(row, layer.attention_output_norm);
        norm(row, layer.feed_forward_norm);
      });
      feed_forward(layer);
      before = &layer;
    }
    each(rows_, [&](int64_t row) {
      add_output(row, before->feed_forward_output_norm);
      norm_and_quantise(
          hidden_ + row * size_, weights_.final_norm, shape_.hidden, shape_.epsilon, buffer_, work_.normed, row);
    });
    if (step_.wanted == 0) return;
    work_.team.share(thread_, operation_++, weights_.head.pairs(), [&](int64_t first, int64_t end) {
      linear_logits(
          weights_.head, work_.normed, step_.wanted, shape_.vocabulary, shape_.logit_cap, step_.logits,
          {first, end});
    });
  }

 private:
  template <class Work>
  void each(int64_t items, const Work& work) {
    work_.team.share(thread_, operation_++, items, [&](int64_t first, int64_t end) {
      for (int64_t item = first; item < end; ++item) work(item);
    });
  }

  void embed(int64_t row) {
    float* own = hidden_ + row * size_;
    matrix_row(weights_.embedding, step_.token_ids[row], own);
    for (int64_t at = 0; at < size_; at += LANES) {
      store(own + at, multiply(load(own + at), all(shape_.embedding_scale)));
    }
  }

  // Where the output of a layer's part is normed before it is added, it waits for its row to be whole.
  void add_output(int64_t row, const float* weight) {
    if (weight == nullptr) return;
    add_normed(hidden_ + row * size_, work_.added + row * size_, weight, shape_.hidden, size_, shape_.epsilon);
  }

  void norm(int64_t row, const float* weight) {
    norm_and_quantise(
        hidden_ + row * size_, weight, shape_.hidden, shape_.epsilon, buffer_, work_.normed, row);
  }

  void output(const Matrix& matrix, const QuantisedRows& rows, const float* bias, bool is_normed) {
    work_.team.share(thread_, operation_++, matrix.pairs(), [&](int64_t first, int64_t end) {
      if (is_normed) {
        linear(matrix, rows, rows_, bias, work_.added, size_, {first, end});
      } else {
        linear_added(matrix, rows, rows_, bias, hidden_, size_, {first, end});
      }
    });
  }

  void attend(const LayerWeights& layer, size_t index) {
    float* qkv = work_.qkv;
    uint8_t *queries = work_.queries, *keys = step_.keys[index], *values = step_.values[index];
    const int64_t stride = layer.qkv.tiles * LANES;
    work_.team.share(thread_, operation_++, layer.qkv.pairs(), [&](int64_t first, int64_t end) {
      linear(layer.qkv, work_.normed, step_.rows, layer.qkv_bias, qkv, stride, {first, end});
    });
    const AngleTable& angles = step_.angles[layer.rotation];
    const RotatedRows rotated = {
        qkv, stride, angles.cosines, angles.sines, step_.positions, step_.slots, layer.head_norm, shape_.epsilon};
    each(step_.rows * heads_.all(), [&](int64_t item) {
      rotate_and_store(heads_, rotated, item, queries, keys, values);
    });
    const bool is_last = index + 1 == weights_.layers.size();
    const auto window = std::find(windows_.begin(), windows_.end(), layer.window_tokens) - windows_.begin();
    const AttentionPlan& plan = is_last ? work_.plans.back() : work_.plans[window];
    float* states = work_.states;
    each(plan.shared_items(), [&](int64_t item) {
      plan.attend(item, shape_.score_rule, queries, keys, values, states);
    });
    each(plan.items() - plan.shared_items(), [&](int64_t item) {
      plan.attend(plan.shared_items() + item, shape_.score_rule, queries, keys, values, states);
    });
    const QuantisedRows& attended = work_.attended_rounded;
    if (is_last) {
      // Behind the last keys and values only rows whose logits are wanted go on, next to each other.
      float* wanted = work_.wanted;
      each(step_.wanted, [&](int64_t at) {
        const int64_t row = step_.logit_rows[at];
        plan.finish(row, states, row_room_);
        quantise_row(row_room_, attended, at);
        std::copy_n(hidden_ + row * size_, size_, wanted + at * size_);
      });
      hidden_ = wanted;
      rows_ = step_.wanted;
    } else {
      each(rows_, [&](int64_t row) {
        plan.finish(row, states, row_room_);
        quantise_row(row_room_, attended, row);
      });
    }
    output(layer.attention_output, attended, layer.attention_output_bias, layer.attention_output_norm != nullptr);
  }

  void feed_forward(const LayerWeights& layer) {
    const QuantisedRows& between = work_.gated;
    work_.team.share(thread_, operation_++, between.groups, [&](int64_t first, int64_t end) {
      gated(
          layer.gate_up, work_.normed, rows_, layer.gate_up_bias, shape_.activation, between, {first, end});
    });
    output(layer.down, between, layer.down_bias, layer.feed_forward_output_norm != nullptr);
  }

  const DecoderShape& shape_;
  const DecoderWeights& weights_;
  const std::vector<int64_t>& windows_;
  Work& work_;
  const Step& step_;
  const Heads heads_;
  const int thread_;
  const int64_t size_;
  int64_t rows_;
  float *hidden_, *buffer_, *row_room_;
  int64_t operation_ = 0;
};

Decoder::Decoder(const DecoderShape& shape, const DecoderWeights& weights)
    : shape_(shape), weights_(weights), rooms_(std::make_unique<Rooms>()) {
  for (const LayerWeights& layer : weights_.layers) {
    if (std::find(windows_.begin(), windows_.end(), layer.window_tokens) == windows_.end()) {
      windows_.push_back(layer.window_tokens);
    }
  }
}

Decoder::~Decoder() = default;

Heads Decoder::heads_of(const Step& step) const {
  Heads heads = shape_.heads;
  heads.kept = step.kept;
  return heads;
}

void Decoder::run(const Step& step, int threads) {
  const int64_t rows = step.rows, hidden = shape_.hidden_padded();
  const LayerWeights& any = weights_.layers[0];
  // One for each window, and one for the last layer, where rows attend from the first on whose logits are wanted.
  std::vector<AttentionPlan> plans;
  int64_t states = 0;
  for (const int64_t window : windows_) {
    plans.emplace_back(step.sequences, heads_of(step), window);
    states = std::max(states, plans.back().state_numbers());
  }
  const std::vector<int64_t> first_wanted = first_wanted_rows(step);
  Sequences at_last = step.sequences;
  at_last.attending_from = first_wanted.data();
  plans.emplace_back(at_last, heads_of(step), weights_.layers.back().window_tokens);
  const int64_t operations = (int64_t)weights_.layers.size() * Pass::OPERATIONS_OF_LAYER + Pass::OTHER_OPERATIONS;
  const std::shared_ptr<Work> work(new Work{
      step,
      std::move(plans),
      rooms_->hidden.of(rows * hidden),
      rooms_->wanted.of(step.wanted * hidden),
      rooms_->qkv.of(rows * any.qkv.tiles * LANES),
      rooms_->added.of(rows * hidden),
      rooms_->attended.of(threads * any.attention_output.groups * GROUP),
      rooms_->states.of(states),
      rooms_->buffers.of(threads * hidden),
      rooms_->queries.of(rows * shape_.heads.heads * heads_of(step).query_bytes()),
      rooms_->normed.of(rows, hidden / GROUP),
      rooms_->attended_rounded.of(rows, any.attention_output.groups),
      rooms_->gated.of(rows, any.down.groups),
      Team(threads, operations),
  });
  workers_.run(threads, std::make_shared<Workers::Work>([this, work](int thread) { Pass(*this, *work, thread).run(); }));
}

}  // namespace kvasir
