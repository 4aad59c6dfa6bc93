#include "rows.h"

#include <cmath>

namespace kvasir {

void quantise_group(const float* numbers, const QuantisedRows& to, int64_t row, int64_t group) {
  const int64_t place = row * to.groups + group;
  const Floats first = load(numbers), second = load(numbers + LANES);
  const float most = largest(larger(magnitude(first), magnitude(second)));
  const float scale = most / 127.0f;
  const Floats inverse = all(most > 0.0f ? 127.0f / most : 0.0f);
  int8_t* bytes = to.bytes + place * GROUP;
  const int total =
      sum(add(store_bytes(bytes, multiply(first, inverse)), store_bytes(bytes + LANES, multiply(second, inverse))));
  // A row with numbers that are not finite stays one: its scale is not finite either.
  to.scales[place] = scale;
  to.sums[place] = total;
  to.offsets[place] = scale * (float)total;
}

void quantise_row(const float* numbers, const QuantisedRows& to, int64_t row) {
  for (int64_t group = 0; group < to.groups; ++group) quantise_group(numbers + group * GROUP, to, row, group);
}

float norm_factor(const float* row, int64_t size, int64_t padded, float epsilon) {
  Floats squares = zeros();
  for (int64_t at = 0; at < padded; at += LANES) {
    const Floats part = load(row + at);
    squares = multiply_add(part, part, squares);
  }
  return 1.0f / std::sqrt(sum(squares) / (float)size + epsilon);
}

void norm_and_quantise(
    const float* row, const float* weight, int64_t size, float epsilon, float* buffer, const QuantisedRows& to,
    int64_t to_row) {
  const int64_t padded = to.groups * GROUP;
  const Floats factor = all(norm_factor(row, size, padded, epsilon));
  for (int64_t at = 0; at < padded; at += LANES) {
    store(buffer + at, multiply(load(weight + at), multiply(load(row + at), factor)));
  }
  quantise_row(buffer, to, to_row);
}

void add_normed(float* hidden, const float* added, const float* weight, int64_t size, int64_t padded, float epsilon) {
  const Floats factor = all(norm_factor(added, size, padded, epsilon));
  for (int64_t at = 0; at < padded; at += LANES) {
    const Floats normed = multiply(load(weight + at), multiply(load(added + at), factor));
    store(hidden + at, add(load(hidden + at), normed));
  }
}

}  // namespace kvasir
