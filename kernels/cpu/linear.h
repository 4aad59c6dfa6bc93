// Products of rounded rows with matrices of 4 or 8 bits.
//
// A tile is 16 rows of a matrix, one for each lane; a group is 32 of its columns. Padded to whole tiles and groups with 0.
//
//   4 bits   quants [tiles][groups][4][16][4]    byte (b, lane, i): columns 8b + i (low half) and 8b + 4 + i (high half)
//            scales [tiles][groups][2][16]       scale and minimum in float16; weight = nibble * scale + minimum
//   8 bits   quants [tiles][groups][8][16][4]    byte (c, lane, i): column 4c + i, with 128 added
//            scales [tiles][groups][16]          float16; weight = (byte - 128) * scale
//
// Within a group sums are whole numbers, and groups are added in their order: a row's result depends neither on the rows
// beside it nor on who computes which tile.
#pragma once

#include "rows.h"

namespace kvasir {

struct Matrix {
  const uint8_t* quants = nullptr;
  const uint16_t* scales = nullptr;
  int64_t tiles = 0;
  int64_t groups = 0;
  int bits = 0;

  int64_t quant_bytes() const { return bits == 4 ? 256 : 512; }
  int64_t pairs() const { return tiles / 2; }
  int64_t scale_numbers() const { return bits == 4 ? 2 * LANES : LANES; }
  const uint8_t* tile_quants(int64_t tile) const { return quants + tile * groups * quant_bytes(); }
  const uint16_t* tile_scales(int64_t tile) const { return scales + tile * groups * scale_numbers(); }
};

enum class Activation { silu, gelu };

// Tiles come in pairs; each operation computes those from `first` up to `end`.
struct Run {
  int64_t first, end;
};

// to[row, column] = product (+ bias). `stride` numbers lie between rows of `to`.
void linear(
    const Matrix& matrix, const QuantisedRows& rows, int64_t count, const float* bias, float* to, int64_t stride,
    Run pairs);

// to += product (+ bias).
void linear_added(
    const Matrix& matrix, const QuantisedRows& rows, int64_t count, const float* bias, float* to, int64_t stride,
    Run pairs);

// Rows of `columns` logits without padding between them, bent by `cap` where it is not 0.
void linear_logits(
    const Matrix& matrix, const QuantisedRows& rows, int64_t count, int64_t columns, float cap, float* to, Run pairs);

// The gate's rows are the first half of the matrix, in whole groups of 32. activation(gate) * up, rounded at once: a group
// of the result is two tiles of each half, so there are a quarter as many groups as tiles.
void gated(
    const Matrix& matrix, const QuantisedRows& rows, int64_t count, const float* bias, Activation activation,
    const QuantisedRows& to, Run groups);

// One row of the matrix, [groups * 32] numbers.
void matrix_row(const Matrix& matrix, int64_t row, float* to);

}  // namespace kvasir
