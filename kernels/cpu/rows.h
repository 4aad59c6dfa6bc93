// Rows between the products: norms, and rounding to 8 bits in groups of 32.
#pragma once

#include "vectors.h"

namespace kvasir {

constexpr int GROUP = 32;

// Rounded rows: 32 numbers share a scale. A product needs their sum too, as a whole number and scaled.
//
//   bytes   [rows][groups][32]     number = byte * scale
//   scales  [rows][groups]         largest magnitude / 127
//   sums    [rows][groups]         of the bytes
//   offsets [rows][groups]         sum * scale
struct QuantisedRows {
  int8_t* bytes;
  float* scales;
  int32_t* sums;
  float* offsets;
  int64_t groups;
};

void quantise_group(const float* numbers, const QuantisedRows& to, int64_t row, int64_t group);

void quantise_row(const float* numbers, const QuantisedRows& to, int64_t row);

// What RMSNorm multiplies a row of `size` numbers by, apart from its weight. `padded` is a multiple of 16, and what is
// behind `size` is 0.
float norm_factor(const float* row, int64_t size, int64_t padded, float epsilon);

// The norm of a row, rounded; `buffer` has room for the row.
void norm_and_quantise(
    const float* row, const float* weight, int64_t size, float epsilon, float* buffer, const QuantisedRows& to,
    int64_t to_row);

// hidden += norm(added), in place.
void add_normed(float* hidden, const float* added, const float* weight, int64_t size, int64_t padded, float epsilon);

}  // namespace kvasir
