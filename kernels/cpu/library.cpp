// The operations as torch sees them: checks what it is handed, because everything behind it trusts its pointers.
//
// The only file that includes torch. `kernels/reference_quantised.py` says what each operation computes.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "decoder.h"

namespace kvasir {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

const Tensor& checked(const Tensor& tensor, at::ScalarType type, const std::string& name) {
  TORCH_CHECK(tensor.scalar_type() == type, name, " is of type ", tensor.scalar_type(), " where ", type, " was expected");
  TORCH_CHECK(tensor.is_contiguous() && tensor.device().is_cpu(), name, " does not lie contiguously in the CPU's memory");
  return tensor;
}

const float* floats(const Tensor& tensor, int64_t count, const std::string& name) {
  checked(tensor, at::kFloat, name);
  TORCH_CHECK(tensor.numel() == count, name, " has ", tensor.numel(), " numbers where ", count, " were expected");
  return tensor.const_data_ptr<float>();
}

const int64_t* whole_numbers(const Tensor& tensor, const std::string& name) {
  return checked(tensor, at::kLong, name).const_data_ptr<int64_t>();
}

void check_range(const int64_t* numbers, int64_t count, int64_t end, const char* name) {
  for (int64_t at = 0; at < count; ++at) {
    TORCH_CHECK(numbers[at] >= 0 && numbers[at] < end, name, " has ", numbers[at], " where less than ", end, " was expected");
  }
}

// `quants` [tiles][groups][...] tells the bits by the size of a group.
Matrix matrix_of(const Tensor& quants, const Tensor& scales, const std::string& name) {
  checked(quants, at::kByte, name);
  checked(scales, at::kHalf, name + "'s scales");
  TORCH_CHECK(quants.dim() == 3 && scales.dim() == 3, name, " is not made of tiles and groups");
  Matrix matrix;
  matrix.quants = quants.const_data_ptr<uint8_t>();
  matrix.scales = (const uint16_t*)scales.const_data_ptr();
  matrix.tiles = quants.size(0);
  matrix.groups = quants.size(1);
  matrix.bits = quants.size(2) == 256 ? 4 : 8;
  TORCH_CHECK(quants.size(2) == matrix.quant_bytes(), name, " has groups of ", quants.size(2), " bytes");
  TORCH_CHECK(
      scales.size(0) == matrix.tiles && scales.size(1) == matrix.groups && scales.size(2) == matrix.scale_numbers(),
      name, " has scales of the shape ", scales.sizes(), " for weights of the shape ", quants.sizes());
  TORCH_CHECK(matrix.tiles > 0 && matrix.tiles % 2 == 0, name, " has ", matrix.tiles, " tiles, which are not pairs");
  return matrix;
}

struct RoundedRows {
  explicit RoundedRows(int64_t rows, int64_t groups)
      : bytes(at::empty({rows, groups, GROUP}, at::kChar)),
        scales(at::empty({rows, groups}, at::kFloat)),
        sums(at::empty({rows, groups}, at::kInt)),
        offsets(at::empty({rows, groups}, at::kFloat)) {
    view = {bytes.data_ptr<int8_t>(), scales.data_ptr<float>(), sums.data_ptr<int32_t>(), offsets.data_ptr<float>(), groups};
  }
  Tensor bytes, scales, sums, offsets;
  QuantisedRows view;
};

RoundedRows rounded_rows(const Tensor& rows, int64_t groups) {
  checked(rows, at::kFloat, "rows");
  TORCH_CHECK(rows.dim() == 2 && rows.size(1) == groups * GROUP, "rows are not padded to ", groups, " groups");
  RoundedRows rounded(rows.size(0), groups);
  for (int64_t row = 0; row < rows.size(0); ++row) {
    quantise_row(rows.const_data_ptr<float>() + row * rows.size(1), rounded.view, row);
  }
  return rounded;
}

template <class Work>
void in_runs(int64_t items, const Work& work) {
  at::parallel_for(0, items, 1, [&](int64_t first, int64_t end) { work(Run{first, end}); });
}

std::tuple<Tensor, Tensor> op_quantise_rows(const Tensor& rows) {
  TORCH_CHECK(rows.dim() == 2 && rows.size(1) % GROUP == 0, "rows are not padded to whole groups of ", GROUP);
  const RoundedRows rounded = rounded_rows(rows, rows.size(1) / GROUP);
  return {rounded.bytes, rounded.scales};
}

std::tuple<Tensor, Tensor> op_norm_and_quantise(
    const Tensor& rows, const Tensor& weight, int64_t size, double epsilon) {
  checked(rows, at::kFloat, "rows");
  TORCH_CHECK(rows.dim() == 2 && rows.size(1) % GROUP == 0, "rows are not padded to whole groups of ", GROUP);
  const int64_t padded = rows.size(1);
  const float* factors = floats(weight, padded, "weight");
  RoundedRows rounded(rows.size(0), padded / GROUP);
  std::vector<float> buffer(padded);
  for (int64_t row = 0; row < rows.size(0); ++row) {
    norm_and_quantise(
        rows.const_data_ptr<float>() + row * padded, factors, size, (float)epsilon, buffer.data(), rounded.view, row);
  }
  return {rounded.bytes, rounded.scales};
}

Tensor op_linear(const Tensor& rows, const Tensor& quants, const Tensor& scales, const MaybeTensor& bias) {
  const Matrix matrix = matrix_of(quants, scales, "the matrix");
  const RoundedRows rounded = rounded_rows(rows, matrix.groups);
  const int64_t columns = matrix.tiles * LANES;
  const float* offsets = bias ? floats(*bias, columns, "bias") : nullptr;
  Tensor result = at::empty({rows.size(0), columns}, at::kFloat);
  float* to = result.data_ptr<float>();
  in_runs(matrix.pairs(), [&](Run pairs) { linear(matrix, rounded.view, rows.size(0), offsets, to, columns, pairs); });
  return result;
}

std::tuple<Tensor, Tensor> op_gated(
    const Tensor& rows, const Tensor& quants, const Tensor& scales, const MaybeTensor& bias, bool gelu) {
  const Matrix matrix = matrix_of(quants, scales, "the matrix");
  TORCH_CHECK(matrix.tiles % 4 == 0, "gate and up are not padded to whole groups");
  const RoundedRows rounded = rounded_rows(rows, matrix.groups);
  const float* offsets = bias ? floats(*bias, matrix.tiles * LANES, "bias") : nullptr;
  RoundedRows result(rows.size(0), matrix.tiles / 4);
  const Activation activation = gelu ? Activation::gelu : Activation::silu;
  in_runs(matrix.tiles / 4, [&](Run groups) {
    gated(matrix, rounded.view, rows.size(0), offsets, activation, result.view, groups);
  });
  return {result.bytes, result.scales};
}

Tensor op_matrix_rows(const Tensor& quants, const Tensor& scales, const Tensor& rows) {
  const Matrix matrix = matrix_of(quants, scales, "the matrix");
  const int64_t* wanted = whole_numbers(rows, "rows");
  check_range(wanted, rows.numel(), matrix.tiles * LANES, "rows");
  Tensor result = at::empty({rows.numel(), matrix.groups * GROUP}, at::kFloat);
  for (int64_t at = 0; at < rows.numel(); ++at) {
    matrix_row(matrix, wanted[at], result.data_ptr<float>() + at * matrix.groups * GROUP);
  }
  return result;
}

// Keys and values are in bfloat16, or in bytes with their scales.
Kept kept_of(const Tensor& pages, const std::string& name) {
  TORCH_CHECK(
      pages.scalar_type() == at::kBFloat16 || pages.scalar_type() == at::kChar, name, " is of type ",
      pages.scalar_type(), " where BFloat16 or Char was expected");
  return pages.scalar_type() == at::kChar ? Kept::bytes : Kept::brain;
}

uint8_t* pages_of(const Tensor& pages, const Heads& heads, const std::string& name) {
  checked(pages, heads.kept == Kept::bytes ? at::kChar : at::kBFloat16, name);
  TORCH_CHECK(
      pages.dim() >= 2 && pages.size(0) * heads.page_bytes() == (int64_t)pages.nbytes(), name, " has the shape ",
      pages.sizes(), " where pages of ", heads.page_bytes(), " bytes were expected");
  return (uint8_t*)pages.data_ptr();
}

// A query is as many numbers as it has dimensions, or bytes and what `RoundedQuery` holds.
at::TensorOptions query_type(const Heads& heads) {
  return heads.kept == Kept::bytes ? at::kChar : at::kBFloat16;
}

int64_t query_numbers(const Heads& heads) { return heads.query_bytes() / (heads.kept == Kept::bytes ? 1 : 2); }

void check_heads(const Heads& heads) {
  TORCH_CHECK(
      heads.size % LANES == 0 && heads.size <= 512, "heads have ", heads.size, " numbers, which are not whole registers");
  TORCH_CHECK(heads.kv_heads > 0 && heads.heads % heads.kv_heads == 0, "heads cannot share their keys evenly");
}

Tensor op_rotate_and_store(
    const Tensor& qkv, const Tensor& cosines, const Tensor& sines, const Tensor& positions, const Tensor& slots,
    const Tensor& keys, const Tensor& values, int64_t heads, int64_t kv_heads, const MaybeTensor& head_norm,
    double epsilon) {
  checked(qkv, at::kFloat, "qkv");
  const Heads shape{heads, kv_heads, cosines.size(1) * 2, kept_of(keys, "keys")};
  check_heads(shape);
  const int64_t rows = qkv.size(0);
  TORCH_CHECK(qkv.size(1) >= shape.all() * shape.size, "qkv has rows of ", qkv.size(1), " numbers");
  uint8_t *key_pages = pages_of(keys, shape, "keys"), *value_pages = pages_of(values, shape, "values");
  TORCH_CHECK(positions.numel() == rows && slots.numel() == rows, "each row has a position and a slot");
  const RotatedRows rotated = {
      qkv.const_data_ptr<float>(),
      qkv.size(1),
      floats(cosines, cosines.numel(), "cosines"),
      floats(sines, cosines.numel(), "sines"),
      whole_numbers(positions, "positions"),
      whole_numbers(slots, "slots"),
      head_norm ? floats(*head_norm, (heads + kv_heads) * shape.size, "head_norm") : nullptr,
      (float)epsilon};
  check_range(rotated.positions, rows, cosines.size(0), "positions");
  check_range(rotated.slots, rows, keys.size(0) * PAGE_TOKENS, "slots");
  Tensor queries = at::empty({rows, heads, query_numbers(shape)}, query_type(shape));
  for (int64_t item = 0; item < rows * shape.all(); ++item) {
    rotate_and_store(shape, rotated, item, (uint8_t*)queries.data_ptr(), key_pages, value_pages);
  }
  return queries;
}

Sequences sequences_of(
    const Tensor& query_starts, const Tensor& context_lens, const Tensor& block_tables, int64_t rows, int64_t pages) {
  const Sequences sequences = {
      context_lens.numel(), whole_numbers(query_starts, "query_starts"), whole_numbers(context_lens, "context_lens"),
      whole_numbers(block_tables, "block_tables"), block_tables.size(1)};
  TORCH_CHECK(query_starts.numel() == sequences.count + 1, "query_starts has one number more than there are sequences");
  TORCH_CHECK(block_tables.dim() == 2 && block_tables.size(0) == sequences.count, "each sequence has a block table");
  TORCH_CHECK(sequences.query_starts[0] == 0 && sequences.query_starts[sequences.count] == rows, "the sequences are not all rows");
  for (int64_t at = 0; at < sequences.count; ++at) {
    const int64_t queries = sequences.query_starts[at + 1] - sequences.query_starts[at];
    const int64_t length = sequences.context_lens[at], used = (length + PAGE_TOKENS - 1) / PAGE_TOKENS;
    TORCH_CHECK(queries > 0 && queries <= length, "a sequence of ", length, " tokens has ", queries, " queries");
    TORCH_CHECK(used <= sequences.table_width, "a sequence of ", length, " tokens has ", sequences.table_width, " pages");
    check_range(sequences.block_tables + at * sequences.table_width, used, pages, "block_tables");
  }
  return sequences;
}

Tensor op_paged_attention(
    const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& query_starts,
    const Tensor& context_lens, const Tensor& block_tables, int64_t kv_heads, double scale, double cap,
    int64_t window_tokens) {
  const Kept kept = kept_of(keys, "keys");
  checked(queries, kept == Kept::bytes ? at::kChar : at::kBFloat16, "queries");
  const int64_t behind = kept == Kept::bytes ? sizeof(RoundedQuery) : 0;
  const Heads heads{queries.size(1), kv_heads, queries.size(2) - behind, kept};
  check_heads(heads);
  const uint8_t *key_pages = pages_of(keys, heads, "keys"), *value_pages = pages_of(values, heads, "values");
  const int64_t rows = queries.size(0);
  const Sequences sequences = sequences_of(query_starts, context_lens, block_tables, rows, keys.size(0));
  const AttentionPlan plan(sequences, heads, window_tokens);
  Tensor states = at::empty({plan.state_numbers()}, at::kFloat);
  Tensor result = at::empty({rows, heads.heads, heads.size}, at::kFloat);
  const auto attend = [&](int64_t begin, int64_t end) {
    at::parallel_for(begin, end, 1, [&](int64_t first, int64_t last) {
      for (int64_t item = first; item < last; ++item) {
        plan.attend(
            item, {(float)scale, (float)cap}, (const uint8_t*)queries.const_data_ptr(), key_pages, value_pages,
            states.data_ptr<float>());
      }
    });
  };
  attend(0, plan.shared_items());
  attend(plan.shared_items(), plan.items());
  for (int64_t row = 0; row < rows; ++row) {
    plan.finish(row, states.const_data_ptr<float>(), result.data_ptr<float>() + row * heads.heads * heads.size);
  }
  return result;
}

// The numbers of a shape and the tensors of a model, by their names in `engine/model/quantised_decoder.py`.
class TorchDecoder : public torch::CustomClassHolder {
 public:
  TorchDecoder(const c10::Dict<std::string, double>& numbers, const c10::Dict<std::string, Tensor>& tensors)
      : numbers_(numbers), tensors_(tensors) {
    shape_.heads = {whole("heads"), whole("kv_heads"), whole("head_size"), Kept::brain};
    check_heads(shape_.heads);
    shape_.hidden = whole("hidden_size");
    shape_.intermediate = whole("intermediate_size");
    shape_.vocabulary = whole("vocabulary_size");
    shape_.epsilon = number("norm_epsilon");
    shape_.score_rule = {number("score_scale"), number("score_cap")};
    shape_.logit_cap = number("logit_cap");
    shape_.embedding_scale = number("embedding_scale");
    shape_.activation = number("gelu") != 0 ? Activation::gelu : Activation::silu;
    rotations_ = whole("rotations");
    const int64_t hidden = shape_.hidden_padded(), vocabulary = DecoderShape::padded(shape_.vocabulary);
    DecoderWeights weights;
    weights.embedding = matrix("embedding", vocabulary, hidden);
    weights.head = matrix("head", vocabulary, hidden);
    weights.final_norm = vector("final_norm", hidden);
    for (int64_t index = 0; index < whole("layers"); ++index) weights.layers.push_back(layer(index));
    TORCH_CHECK(!weights.layers.empty(), "a decoder has layers");
    decoder_ = std::make_unique<Decoder>(shape_, weights);
  }

  Tensor forward(
      const Tensor& token_ids, const Tensor& positions, const Tensor& slots, const Tensor& query_starts,
      const Tensor& context_lens, const Tensor& block_tables, const Tensor& logit_rows,
      const std::vector<Tensor>& angles, const std::vector<Tensor>& keys, const std::vector<Tensor>& values) {
    Step step;
    step.rows = token_ids.numel();
    TORCH_CHECK(step.rows > 0, "a step has rows");
    TORCH_CHECK(positions.numel() == step.rows && slots.numel() == step.rows, "each row has a position and a slot");
    step.token_ids = whole_numbers(token_ids, "token_ids");
    step.positions = whole_numbers(positions, "positions");
    step.slots = whole_numbers(slots, "slots");
    step.logit_rows = whole_numbers(logit_rows, "logit_rows");
    step.wanted = logit_rows.numel();
    check_range(step.token_ids, step.rows, shape_.vocabulary, "token_ids");
    check_range(step.logit_rows, step.wanted, step.rows, "logit_rows");
    TORCH_CHECK(
        keys.size() == (size_t)whole("layers") && values.size() == keys.size(), "each layer has its keys and its values");
    const int64_t pages = keys[0].size(0);
    Heads heads = shape_.heads;
    heads.kept = step.kept = kept_of(keys[0], "keys");
    for (size_t index = 0; index < keys.size(); ++index) {
      TORCH_CHECK(keys[index].size(0) == pages && values[index].size(0) == pages, "all layers have the same pages");
      step.keys.push_back(pages_of(keys[index], heads, "keys"));
      step.values.push_back(pages_of(values[index], heads, "values"));
    }
    check_range(step.slots, step.rows, pages * PAGE_TOKENS, "slots");
    step.sequences = sequences_of(query_starts, context_lens, block_tables, step.rows, pages);
    TORCH_CHECK((int64_t)angles.size() == rotations_, "each kind of rotation has its angles");
    for (const Tensor& table : angles) {
      // [2][positions][size / 2]: cosines, then sines.
      floats(table, table.numel(), "angles");
      TORCH_CHECK(table.dim() == 3 && table.size(0) == 2 && table.size(2) * 2 == shape_.heads.size, "angles have the shape ", table.sizes());
      check_range(step.positions, step.rows, table.size(1), "positions");
      const float* cosines = table.const_data_ptr<float>();
      step.angles.push_back({cosines, cosines + table.size(1) * table.size(2)});
    }
    Tensor logits = at::empty({step.wanted, shape_.vocabulary}, at::kFloat);
    step.logits = logits.data_ptr<float>();
    const std::lock_guard<std::mutex> alone(mutex_);
    decoder_->run(step, at::get_num_threads());
    return logits;
  }

 private:
  float number(const std::string& name) const {
    TORCH_CHECK(numbers_.contains(name), "the shape lacks ", name);
    return (float)numbers_.at(name);
  }
  int64_t whole(const std::string& name) const {
    TORCH_CHECK(numbers_.contains(name), "the shape lacks ", name);
    return (int64_t)numbers_.at(name);
  }
  const float* vector(const std::string& name, int64_t size) const {
    TORCH_CHECK(tensors_.contains(name), "the weights lack ", name);
    return floats(tensors_.at(name), size, name);
  }
  const float* vector_if_there(const std::string& name, int64_t size) const {
    return tensors_.contains(name) ? vector(name, size) : nullptr;
  }
  Matrix matrix(const std::string& name, int64_t rows, int64_t columns) const {
    TORCH_CHECK(tensors_.contains(name) && tensors_.contains(name + ".scales"), "the weights lack ", name);
    const Matrix made = matrix_of(tensors_.at(name), tensors_.at(name + ".scales"), name);
    TORCH_CHECK(
        made.tiles * LANES == rows && made.groups * GROUP == columns, name, " has ", made.tiles * LANES, " rows and ",
        made.groups * GROUP, " columns, where ", rows, " and ", columns, " were expected");
    return made;
  }

  LayerWeights layer(int64_t index) const {
    const std::string prefix = "layers." + std::to_string(index) + ".";
    const int64_t hidden = shape_.hidden_padded(), size = shape_.heads.size;
    const int64_t qkv = DecoderShape::padded(shape_.heads.all() * size);
    const int64_t attended = DecoderShape::padded(shape_.heads.heads * size);
    const int64_t width = DecoderShape::padded(shape_.intermediate);
    LayerWeights weights;
    weights.qkv = matrix(prefix + "qkv", qkv, hidden);
    weights.attention_output = matrix(prefix + "attention_output", hidden, attended);
    weights.gate_up = matrix(prefix + "gate_up", 2 * width, hidden);
    weights.down = matrix(prefix + "down", hidden, width);
    weights.qkv_bias = vector_if_there(prefix + "qkv_bias", qkv);
    weights.attention_output_bias = vector_if_there(prefix + "attention_output_bias", hidden);
    weights.gate_up_bias = vector_if_there(prefix + "gate_up_bias", 2 * width);
    weights.down_bias = vector_if_there(prefix + "down_bias", hidden);
    weights.attention_norm = vector(prefix + "attention_norm", hidden);
    weights.feed_forward_norm = vector(prefix + "feed_forward_norm", hidden);
    weights.head_norm = vector_if_there(prefix + "head_norm", (shape_.heads.heads + shape_.heads.kv_heads) * size);
    weights.attention_output_norm = vector_if_there(prefix + "attention_output_norm", hidden);
    weights.feed_forward_output_norm = vector_if_there(prefix + "feed_forward_output_norm", hidden);
    weights.window_tokens = whole(prefix + "window_tokens");
    weights.rotation = whole(prefix + "rotation");
    TORCH_CHECK(weights.rotation >= 0 && weights.rotation < rotations_, prefix, " has no such rotation");
    return weights;
  }

  c10::Dict<std::string, double> numbers_;
  c10::Dict<std::string, Tensor> tensors_;  // kept alive: the decoder points into them
  DecoderShape shape_{};
  int64_t rotations_ = 0;
  std::unique_ptr<Decoder> decoder_;
  std::mutex mutex_;
};

}  // namespace
}  // namespace kvasir

TORCH_LIBRARY(KVASIR_NAMESPACE, library) {
  using namespace kvasir;
  library.def("quantise_rows(Tensor rows) -> (Tensor, Tensor)", op_quantise_rows);
  library.def(
      "norm_and_quantise(Tensor rows, Tensor weight, int size, float epsilon) -> (Tensor, Tensor)", op_norm_and_quantise);
  library.def("linear(Tensor rows, Tensor quants, Tensor scales, Tensor? bias) -> Tensor", op_linear);
  library.def(
      "gated(Tensor rows, Tensor quants, Tensor scales, Tensor? bias, bool gelu) -> (Tensor, Tensor)", op_gated);
  library.def("matrix_rows(Tensor quants, Tensor scales, Tensor rows) -> Tensor", op_matrix_rows);
  library.def(
      "rotate_and_store(Tensor qkv, Tensor cosines, Tensor sines, Tensor positions, Tensor slots, Tensor(a!) keys, "
      "Tensor(b!) values, int heads, int kv_heads, Tensor? head_norm, float epsilon) -> Tensor",
      op_rotate_and_store);
  library.def(
      "paged_attention(Tensor queries, Tensor keys, Tensor values, Tensor query_starts, Tensor context_lens, "
      "Tensor block_tables, int kv_heads, float scale, float cap, int window_tokens) -> Tensor",
      op_paged_attention);
  library.class_<TorchDecoder>("Decoder")
      .def(torch::init<const c10::Dict<std::string, double>&, const c10::Dict<std::string, Tensor>&>())
      .def("forward", &TorchDecoder::forward);
}
