#include "linear.h"

#include <vector>

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace kvasir {
namespace {

constexpr int MOST_ROWS = 6;

struct Nibbles {
  static constexpr bool has_minimum = true;
  static constexpr int64_t quant_bytes = 256, scale_numbers = 2 * LANES;

  static ALWAYS_INLINE Ints begin(int32_t) { return no_ints(); }

  template <int Rows, int Tiles>
  static ALWAYS_INLINE void add(
      Ints (&total)[Rows][Tiles], const uint8_t* const (&quants)[Tiles], const int8_t* bytes, int64_t stride) {
#pragma GCC unroll 4
    for (int step = 0; step < 4; ++step) {
      Bytes low[Tiles], high[Tiles];
#pragma GCC unroll 4
      for (int tile = 0; tile < Tiles; ++tile) {
        const Bytes both = load_bytes(quants[tile] + 64 * step);
        low[tile] = low_nibbles(both);
        high[tile] = high_nibbles(both);
      }
#pragma GCC unroll 8
      for (int row = 0; row < Rows; ++row) {
        const Bytes first = all_fours(bytes + row * stride + 8 * step);
        const Bytes second = all_fours(bytes + row * stride + 8 * step + 4);
#pragma GCC unroll 4
        for (int tile = 0; tile < Tiles; ++tile) {
          total[row][tile] = dot_small(total[row][tile], low[tile], first);
          total[row][tile] = dot_small(total[row][tile], high[tile], second);
        }
      }
    }
  }
};

struct WholeBytes {
  static constexpr bool has_minimum = false;
  static constexpr int64_t quant_bytes = 512, scale_numbers = LANES;

  static ALWAYS_INLINE Ints begin(int32_t sum) { return begin_offset(sum); }

  template <int Rows, int Tiles>
  static ALWAYS_INLINE void add(
      Ints (&total)[Rows][Tiles], const uint8_t* const (&quants)[Tiles], const int8_t* bytes, int64_t stride) {
#pragma GCC unroll 8
    for (int step = 0; step < 8; ++step) {
      Bytes weights[Tiles];
#pragma GCC unroll 4
      for (int tile = 0; tile < Tiles; ++tile) weights[tile] = load_bytes(quants[tile] + 64 * step);
#pragma GCC unroll 8
      for (int row = 0; row < Rows; ++row) {
        const Bytes activations = all_fours(bytes + row * stride + 4 * step);
#pragma GCC unroll 4
        for (int tile = 0; tile < Tiles; ++tile) {
          total[row][tile] = dot_offset(total[row][tile], weights[tile], activations);
        }
      }
    }
  }
};

// Where some tiles of a matrix lie, and what is `next` tiles further in memory. That is asked for while these are computed with, or
// memory would rest meanwhile; it need not exist, because asking for a place does not read it.
template <class Format, int Tiles>
struct Places {
  Places(const Matrix& matrix, const int64_t (&tiles)[Tiles], int64_t next_tiles)
      : next_quants(next_tiles * matrix.groups * Format::quant_bytes),
        next_scales(next_tiles * matrix.groups * Format::scale_numbers) {
    for (int at = 0; at < Tiles; ++at) {
      quants[at] = matrix.tile_quants(tiles[at]);
      scales[at] = matrix.tile_scales(tiles[at]);
    }
  }

  void ask_for_next(int64_t group) const {
    for (int tile = 0; tile < Tiles; ++tile) {
      const uint8_t* quant = quants[tile] + next_quants + group * Format::quant_bytes;
      for (int64_t at = 0; at < Format::quant_bytes; at += 64) fetch_ahead(quant + at);
      fetch_ahead(scales[tile] + next_scales + group * Format::scale_numbers);
    }
  }

  const uint8_t* quants[Tiles];
  const uint16_t* scales[Tiles];
  const int64_t next_quants, next_scales;
};

template <class Format, int Rows, int Tiles, class Finish>
ALWAYS_INLINE void block(
    const Places<Format, Tiles>& places, const QuantisedRows& rows, int64_t first_row, int64_t ask_at, int64_t ask_every,
    const Finish& finish) {
  const int64_t groups = rows.groups, stride = groups * GROUP;
  Floats result[Rows][Tiles];
#pragma GCC unroll 8
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int tile = 0; tile < Tiles; ++tile) result[row][tile] = zeros();
  }
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t place = first_row * groups + group;
    if (group == ask_at) {
      places.ask_for_next(group);
      ask_at += ask_every;
    }
    const uint8_t* quants[Tiles];
#pragma GCC unroll 4
    for (int tile = 0; tile < Tiles; ++tile) quants[tile] = places.quants[tile] + group * Format::quant_bytes;
    Ints total[Rows][Tiles];
#pragma GCC unroll 8
    for (int row = 0; row < Rows; ++row) {
      const Ints begun = Format::begin(rows.sums[place + row * groups]);
#pragma GCC unroll 4
      for (int tile = 0; tile < Tiles; ++tile) total[row][tile] = begun;
    }
    Format::template add<Rows, Tiles>(total, quants, rows.bytes + place * GROUP, stride);
#pragma GCC unroll 4
    for (int tile = 0; tile < Tiles; ++tile) {
      const uint16_t* of_tile = places.scales[tile] + group * Format::scale_numbers;
      const Floats scale = load_half(of_tile);
      const Floats minimum = Format::has_minimum ? load_half(of_tile + LANES) : zeros();
#pragma GCC unroll 8
      for (int row = 0; row < Rows; ++row) {
        const Floats scaled = multiply(to_floats(total[row][tile]), all(rows.scales[place + row * groups]));
        result[row][tile] = multiply_add(scaled, scale, result[row][tile]);
        if (Format::has_minimum) {
          result[row][tile] = multiply_add(all(rows.offsets[place + row * groups]), minimum, result[row][tile]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int tile = 0; tile < Tiles; ++tile) finish(first_row + row, tile, result[row][tile]);
  }
}

template <class Format, int Tiles, class Finish>
void all_rows(const Places<Format, Tiles>& places, const QuantisedRows& rows, int64_t count, const Finish& finish) {
  const int64_t blocks = (count + MOST_ROWS - 1) / MOST_ROWS;
  for (int64_t at = 0; at < blocks; ++at) {
    const int64_t first = count * at / blocks, end = count * (at + 1) / blocks;
    // Each block asks for its share of the groups.
    switch (end - first) {
      case 1: block<Format, 1, Tiles>(places, rows, first, at, blocks, finish); break;
      case 2: block<Format, 2, Tiles>(places, rows, first, at, blocks, finish); break;
      case 3: block<Format, 3, Tiles>(places, rows, first, at, blocks, finish); break;
      case 4: block<Format, 4, Tiles>(places, rows, first, at, blocks, finish); break;
      case 5: block<Format, 5, Tiles>(places, rows, first, at, blocks, finish); break;
      default: block<Format, 6, Tiles>(places, rows, first, at, blocks, finish); break;
    }
  }
}

template <int Tiles, class Finish>
void tiles_of(
    const Matrix& matrix, const int64_t (&tiles)[Tiles], int64_t next, const QuantisedRows& rows, int64_t count,
    const Finish& finish) {
  if (matrix.bits == 8) {
    all_rows<WholeBytes>(Places<WholeBytes, Tiles>(matrix, tiles, next), rows, count, finish);
  } else {
    all_rows<Nibbles>(Places<Nibbles, Tiles>(matrix, tiles, next), rows, count, finish);
  }
}

// `finish(row, tile, numbers)` for each row and each tile of some pairs.
template <class Finish>
void each_tile(const Matrix& matrix, const QuantisedRows& rows, int64_t count, Run pairs, const Finish& finish) {
  for (int64_t pair = pairs.first; pair < pairs.end; ++pair) {
    const int64_t tiles[2] = {2 * pair, 2 * pair + 1};
    tiles_of<2>(matrix, tiles, 2, rows, count, [&](int64_t row, int at, Floats numbers) {
      finish(row, 2 * pair + at, numbers);
    });
  }
}

template <class Finish>
void with_bias(const float* bias, const Finish& finish) {
  if (bias == nullptr) {
    finish([](int64_t, Floats numbers) { return numbers; });
  } else {
    finish([bias](int64_t tile, Floats numbers) { return add(numbers, load(bias + tile * LANES)); });
  }
}

Floats activated(Activation activation, Floats x) {
  if (activation == Activation::silu) {
    return divide(x, add(all(1.0f), exponential(subtract(zeros(), x))));
  }
  const Floats cubed = multiply(multiply(x, x), x);
  const Floats bent = hyperbolic_tangent(multiply(all(0.7978845608028654f), multiply_add(all(0.044715f), cubed, x)));
  return multiply(multiply(all(0.5f), x), add(all(1.0f), bent));
}

float half_to_float(uint16_t half) {
  return _cvtsh_ss(half);
}

}  // namespace

void linear(
    const Matrix& matrix, const QuantisedRows& rows, int64_t count, const float* bias, float* to, int64_t stride,
    Run pairs) {
  with_bias(bias, [&](auto biased) {
    each_tile(matrix, rows, count, pairs, [&](int64_t row, int64_t tile, Floats numbers) {
      store(to + row * stride + tile * LANES, biased(tile, numbers));
    });
  });
}

void linear_added(
    const Matrix& matrix, const QuantisedRows& rows, int64_t count, const float* bias, float* to, int64_t stride,
    Run pairs) {
  with_bias(bias, [&](auto biased) {
    each_tile(matrix, rows, count, pairs, [&](int64_t row, int64_t tile, Floats numbers) {
      float* place = to + row * stride + tile * LANES;
      store(place, add(load(place), biased(tile, numbers)));
    });
  });
}

void linear_logits(
    const Matrix& matrix, const QuantisedRows& rows, int64_t count, int64_t columns, float cap, float* to, Run pairs) {
  each_tile(matrix, rows, count, pairs, [&](int64_t row, int64_t tile, Floats numbers) {
    if (cap != 0.0f) numbers = multiply(all(cap), hyperbolic_tangent(divide(numbers, all(cap))));
    const int64_t left = columns - tile * LANES;
    float* place = to + row * columns + tile * LANES;
    if (left >= LANES) {
      store(place, numbers);
    } else {
      float last[LANES];
      store(last, numbers);
      for (int64_t at = 0; at < left; ++at) place[at] = last[at];
    }
  });
}

void gated(
    const Matrix& matrix, const QuantisedRows& rows, int64_t count, const float* bias, Activation activation,
    const QuantisedRows& to, Run groups) {
  const int64_t half = matrix.tiles / 2;
  static thread_local std::vector<float> room;
  if ((int64_t)room.size() < count * GROUP) room.resize(count * GROUP);
  float* both = room.data();
  float gate[LANES];
  for (int64_t group = groups.first; group < groups.end; ++group) {
    for (int part = 0; part < 2; ++part) {
      const int64_t tiles[2] = {2 * group + part, half + 2 * group + part};
      with_bias(bias, [&](auto biased) {
        // A row's up comes right behind its gate.
        tiles_of<2>(matrix, tiles, 1, rows, count, [&](int64_t row, int at, Floats numbers) {
          const Floats whole = biased(tiles[at], numbers);
          if (at == 0) {
            store(gate, activated(activation, whole));
          } else {
            store(both + row * GROUP + part * LANES, multiply(load(gate), whole));
          }
        });
      });
    }
    for (int64_t row = 0; row < count; ++row) quantise_group(both + row * GROUP, to, row, group);
  }
}

void matrix_row(const Matrix& matrix, int64_t row, float* to) {
  const int64_t tile = row / LANES, lane = row % LANES;
  const uint8_t* quants = matrix.tile_quants(tile) + lane * 4;
  const uint16_t* scales = matrix.tile_scales(tile) + lane;
  for (int64_t group = 0; group < matrix.groups; ++group) {
    const uint8_t* of_group = quants + group * matrix.quant_bytes();
    const float scale = half_to_float(scales[group * matrix.scale_numbers()]);
    float* numbers = to + group * GROUP;
    if (matrix.bits == 8) {
      for (int at = 0; at < GROUP; ++at) {
        numbers[at] = (float)((int)of_group[(at / 4) * 64 + at % 4] - 128) * scale;
      }
    } else {
      const float minimum = half_to_float(scales[group * matrix.scale_numbers() + LANES]);
      for (int at = 0; at < GROUP; ++at) {
        const uint8_t both = of_group[(at / 8) * 64 + at % 4];
        numbers[at] = (float)(at % 8 < 4 ? both & 15 : both >> 4) * scale + minimum;
      }
    }
  }
}

}  // namespace kvasir
