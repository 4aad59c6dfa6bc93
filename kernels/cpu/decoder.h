// A whole step of a decoder in one call: what `engine/model/decoder.py` does operation by operation.
#pragma once

#include <memory>
#include <vector>

#include "attention.h"
#include "linear.h"
#include "team.h"
#include "workers.h"

namespace kvasir {

struct DecoderShape {
  Heads heads;
  int64_t hidden, intermediate, vocabulary;
  float epsilon;
  ScoreRule score_rule;
  float logit_cap;  // 0 where there is none
  float embedding_scale;
  Activation activation;

  int64_t hidden_padded() const { return padded(hidden); }
  static int64_t padded(int64_t size) { return (size + GROUP - 1) / GROUP * GROUP; }
};

// What a layer does not have is null. Norms and biases are padded to whole groups of 32.
struct LayerWeights {
  Matrix qkv, attention_output, gate_up, down;
  const float *qkv_bias, *attention_output_bias, *gate_up_bias, *down_bias;
  const float *attention_norm, *feed_forward_norm;
  const float* head_norm;
  const float *attention_output_norm, *feed_forward_output_norm;
  int64_t window_tokens;  // 0 where there is no window
  int64_t rotation;       // which of the tables of angles
};

struct DecoderWeights {
  Matrix embedding, head;
  const float* final_norm;
  std::vector<LayerWeights> layers;
};

// Angles of each kind of rotation: [positions][size / 2].
struct AngleTable {
  const float* cosines;
  const float* sines;
};

struct Step {
  int64_t rows;
  const int64_t* token_ids;
  const int64_t* positions;
  const int64_t* slots;
  Sequences sequences;
  int64_t wanted;
  const int64_t* logit_rows;
  std::vector<AngleTable> angles;
  Kept kept;
  std::vector<uint8_t*> keys;  // of each layer
  std::vector<uint8_t*> values;
  float* logits;  // [wanted][vocabulary]
};

class Decoder {
 public:
  Decoder(const DecoderShape& shape, const DecoderWeights& weights);
  ~Decoder();

  // Not by two threads at once: the rooms for a step's numbers are kept from step to step.
  void run(const Step& step, int threads);

 private:
  struct Rooms;
  struct Work;
  class Pass;

  Heads heads_of(const Step& step) const;

  DecoderShape shape_;
  DecoderWeights weights_;
  std::vector<int64_t> windows_;
  std::unique_ptr<Rooms> rooms_;
  // The last of all, so that no thread is left when the rest goes.
  Workers workers_;
};

}  // namespace kvasir
