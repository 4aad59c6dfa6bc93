// Sixteen numbers at once, in one register of AVX-512 or in two of AVX2: the only file that knows which.
//
// Every operation of a kernel is written once, over these. Sums have one order, so that both variants give the same bits,
// except `dot_pairs`, which AVX-512 has an instruction for that rounds in its own way.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__) && \
    defined(__AVX512BF16__)
#define KVASIR_AVX512 1
#elif !(defined(__AVX2__) && defined(__FMA__) && defined(__F16C__))
#error "neither the instructions of AVX-512 with VNNI and BF16 nor those of AVX2 with FMA and F16C are switched on"
#endif

namespace kvasir {

constexpr int LANES = 16;

#ifdef KVASIR_AVX512
// How many rows and how many registers of what they share are computed with at once: as many as sums find registers.
constexpr int TILE_ROWS = 6, TILE_WIDTH = 4;
#else
constexpr int TILE_ROWS = 2, TILE_WIDTH = 2;
#endif

// Asks for the cache line of a place that will be read soon. Not by the compiler's own name for it: that it takes for a change of
// memory, and stores all sums of a loop each time round.
inline void fetch_ahead(const void* place) { asm volatile("prefetcht0 (%0)" : : "r"(place)); }

inline uint32_t four_bytes(const void* place) {
  uint32_t word;
  std::memcpy(&word, place, sizeof word);
  return word;
}

#ifdef KVASIR_AVX512

using Floats = __m512;
using Ints = __m512i;
using Bytes = __m512i;      // 64 of them: four for each lane
using BytePairs = __m512i;  // 16 words of two bfloat16

inline Floats zeros() { return _mm512_setzero_ps(); }
inline Floats all(float value) { return _mm512_set1_ps(value); }
inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
inline Floats load_half(const uint16_t* from) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from)); }
inline void store(float* to, Floats a) { _mm512_storeu_ps(to, a); }
inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats multiply_subtract(Floats a, Floats b, Floats c) { return _mm512_fmsub_ps(a, b, c); }
inline Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
inline Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
inline Floats magnitude(Floats a) { return _mm512_abs_ps(a); }
inline Floats rounded(Floats a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

// `a` in the lanes from `first` up to `end`, `b` in the others.
inline Floats between(int first, int end, Floats a, Floats b) {
  const __mmask16 below_end = end >= 16 ? 0xffff : (__mmask16)((1u << (end < 0 ? 0 : end)) - 1);
  const __mmask16 below_first = first <= 0 ? 0 : first >= 16 ? 0xffff : (__mmask16)((1u << first) - 1);
  return _mm512_mask_blend_ps(below_end & ~below_first, b, a);
}

// `a` where `x` is at least `bound`, 0 elsewhere.
inline Floats where_at_least(Floats x, Floats bound, Floats a) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_GE_OQ), a);
}

// How much `x` is more than the whole number below it.
inline Floats above_whole(Floats x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }

// `a` times 2 to the power of the whole number below `x`; for normal numbers, and where the result is one.
inline Floats shift_exponent(Floats a, Floats x) { return _mm512_scalef_ps(a, x); }

// One step of a Walsh-Hadamard transform: of each two lanes that are `distance` apart, their sum and their difference.
template <int distance>
inline Floats sums_and_differences(Floats a) {
  constexpr __mmask16 second = distance == 1 ? 0xaaaa : distance == 2 ? 0xcccc : distance == 4 ? 0xf0f0 : 0xff00;
  Floats other;
  if constexpr (distance == 1) other = _mm512_permute_ps(a, 0xb1);
  if constexpr (distance == 2) other = _mm512_permute_ps(a, 0x4e);
  if constexpr (distance == 4) other = _mm512_shuffle_f32x4(a, a, 0xb1);
  if constexpr (distance == 8) other = _mm512_shuffle_f32x4(a, a, 0x4e);
  return _mm512_mask_sub_ps(_mm512_add_ps(a, other), second, other, a);
}

// 2 to the power of `whole`, which is between -126 and 127.
inline Floats power_of_two(Floats whole) {
  const Ints exponent = _mm512_add_epi32(_mm512_cvtps_epi32(whole), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}

inline float sum(Floats a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float largest(Floats a) { return _mm512_reduce_max_ps(a); }

// Likewise of numbers that are not below 0, where what is not a number is larger than all: their bits are compared.
inline Floats larger_or_none(Floats a, Floats b) {
  return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
inline float largest_or_none(Floats a) {
  const uint32_t bits = _mm512_reduce_max_epu32(_mm512_castps_si512(a));
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

inline Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }

// Rounds to the nearest, ties to even, and writes 16 signed bytes; returns them as whole numbers.
inline Ints store_bytes(int8_t* to, Floats a) {
  const Ints whole = _mm512_cvtps_epi32(a);
  _mm_storeu_si128((__m128i*)to, _mm512_cvtsepi32_epi8(whole));
  return whole;
}
inline Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline int sum(Ints a) { return _mm512_reduce_add_epi32(a); }

// Likewise 16 bytes of numbers from 0 to 255.
inline void store_unsigned(uint8_t* to, Floats a) {
  _mm_storeu_si128((__m128i*)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}
inline void store_unsigned(uint8_t* to, Floats a, Floats b, Floats c, Floats d) {
  const Ints ab = _mm512_packus_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
  const Ints cd = _mm512_packus_epi32(_mm512_cvtps_epi32(c), _mm512_cvtps_epi32(d));
  // Packings stay within quarters: each has four bytes of each of the four.
  const Ints places = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi32(places, _mm512_packus_epi16(ab, cd)));
}

// Writes 16 bytes to the `place`-th of each four, and leaves the others alone.
inline void store_every_fourth(uint8_t* to, int64_t place, const int8_t* bytes) {
  const Ints fours = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)bytes));
  const Ints shifted = _mm512_sll_epi32(fours, _mm_cvtsi64_si128(8 * place));
  _mm512_mask_storeu_epi8(to, (__mmask64)0x1111111111111111 << place, shifted);
}

inline void store_brain(uint16_t* to, Floats a) {
  const __m256bh narrow = _mm512_cvtneps_pbh(a);
  std::memcpy(to, &narrow, sizeof narrow);
}

inline Ints no_ints() { return _mm512_setzero_si512(); }
inline Bytes load_bytes(const uint8_t* from) { return _mm512_loadu_si512(from); }
inline Bytes low_nibbles(Bytes a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
inline Bytes high_nibbles(Bytes a) { return _mm512_and_si512(_mm512_srli_epi16(a, 4), _mm512_set1_epi8(15)); }
inline Bytes all_fours(const int8_t* from) { return _mm512_set1_epi32((int)four_bytes(from)); }

// Each lane's four weights times the same four activations, added to `total`. Weights are 0 to 15.
inline Ints dot_small(Ints total, Bytes weights, Bytes activations) {
  return _mm512_dpbusd_epi32(total, weights, activations);
}

// Weights are stored with 128 added. The instruction wants them unsigned, so a sum begins with what that adds too much.
inline Ints begin_offset(int activation_sum) { return _mm512_set1_epi32(-128 * activation_sum); }
inline Ints dot_offset(Ints total, Bytes weights, Bytes activations) {
  return _mm512_dpbusd_epi32(total, weights, activations);
}

// Each lane's four signed bytes times the same four unsigned ones, added to `total`.
inline Ints dot_weights(Ints total, Bytes weights, Bytes bytes) { return _mm512_dpbusd_epi32(total, weights, bytes); }

inline BytePairs load_pairs(const uint16_t* from) { return _mm512_loadu_si512(from); }
inline BytePairs all_pairs(const uint16_t* from) { return _mm512_set1_epi32((int)four_bytes(from)); }
inline BytePairs first_of_pairs(BytePairs a) { return _mm512_and_si512(a, _mm512_set1_epi32(0xffff)); }

// Each lane's two products of bfloat16, added to `total`.
inline Floats dot_pairs(Floats total, BytePairs a, BytePairs b) {
  return _mm512_dpbf16_ps(total, (__m512bh)a, (__m512bh)b);
}

#else

struct Floats {
  __m256 low, high;
};
struct Ints {
  __m256i low, high;
};
using Bytes = Ints;
using BytePairs = Ints;

inline Floats zeros() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Floats all(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
inline Floats load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline Floats load_half(const uint16_t* from) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)),
          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(from + 8)))};
}
inline void store(float* to, Floats a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
inline Floats add(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Floats subtract(Floats a, Floats b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Floats multiply(Floats a, Floats b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Floats divide(Floats a, Floats b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats multiply_subtract(Floats a, Floats b, Floats c) {
  return {_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
}
inline Floats larger(Floats a, Floats b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Floats smaller(Floats a, Floats b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Floats magnitude(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
inline Floats rounded(Floats a) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, mode), _mm256_round_ps(a.high, mode)};
}

inline Floats between(int first, int end, Floats a, Floats b) {
  const __m256i low_lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high_lanes = _mm256_add_epi32(low_lanes, _mm256_set1_epi32(8));
  const __m256i before_first = _mm256_set1_epi32(first - 1), last = _mm256_set1_epi32(end);
  const auto inside = [&](__m256i lanes) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_cmpgt_epi32(lanes, before_first), _mm256_cmpgt_epi32(last, lanes)));
  };
  return {_mm256_blendv_ps(b.low, a.low, inside(low_lanes)), _mm256_blendv_ps(b.high, a.high, inside(high_lanes))};
}

inline Floats where_at_least(Floats x, Floats bound, Floats a) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.low, bound.low, _CMP_GE_OQ), a.low),
          _mm256_and_ps(_mm256_cmp_ps(x.high, bound.high, _CMP_GE_OQ), a.high)};
}

inline Floats above_whole(Floats x) {
  return {_mm256_sub_ps(x.low, _mm256_floor_ps(x.low)), _mm256_sub_ps(x.high, _mm256_floor_ps(x.high))};
}

inline Floats shift_exponent(Floats a, Floats x) {
  const auto shifted = [](__m256 half, __m256 by) {
    const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(_mm256_floor_ps(by)), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(half), shift));
  };
  return {shifted(a.low, x.low), shifted(a.high, x.high)};
}

template <int distance>
inline Floats sums_and_differences(Floats a) {
  if constexpr (distance == 8) return {_mm256_add_ps(a.low, a.high), _mm256_sub_ps(a.low, a.high)};
  const auto half = [](__m256 own) {
    __m256 other;
    if constexpr (distance == 1) other = _mm256_permute_ps(own, 0xb1);
    if constexpr (distance == 2) other = _mm256_permute_ps(own, 0x4e);
    if constexpr (distance == 4) other = _mm256_permute2f128_ps(own, own, 1);
    constexpr int second = distance == 1 ? 0xaa : distance == 2 ? 0xcc : 0xf0;
    return _mm256_blend_ps(_mm256_add_ps(own, other), _mm256_sub_ps(other, own), second);
  };
  return {half(a.low), half(a.high)};
}

inline Floats power_of_two(Floats whole) {
  const __m256i bias = _mm256_set1_epi32(127);
  const auto shifted = [&](__m256 half) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(half), bias), 23));
  };
  return {shifted(whole.low), shifted(whole.high)};
}

inline float sum(Floats a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float largest(Floats a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline Floats larger_or_none(Floats a, Floats b) {
  const auto of_halves = [](__m256 one, __m256 other) {
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(one), _mm256_castps_si256(other)));
  };
  return {of_halves(a.low, b.low), of_halves(a.high, b.high)};
}
inline float largest_or_none(Floats a) {
  const auto most = [](__m128i one, __m128i other) { return _mm_max_epu32(one, other); };
  const __m256i eight = _mm256_max_epu32(_mm256_castps_si256(a.low), _mm256_castps_si256(a.high));
  __m128i four = most(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = most(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtss_f32(_mm_castsi128_ps(most(four, _mm_shuffle_epi32(four, 0xb1))));
}

inline Floats to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

inline Ints store_bytes(int8_t* to, Floats a) {
  const Ints whole = {_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)};
  const __m256i words = _mm256_packs_epi32(whole.low, whole.high);
  const __m256i bytes = _mm256_packs_epi16(words, words);
  // Both packings stay within halves: the bytes are in the words 0, 4, 1 and 5.
  const __m256i ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0));
  _mm_storeu_si128((__m128i*)to, _mm256_castsi256_si128(ordered));
  return whole;
}
inline Ints add(Ints a, Ints b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
inline int sum(Ints a) {
  const __m256i eight = _mm256_add_epi32(a.low, a.high);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

inline void store_unsigned(uint8_t* to, Floats a) {
  const __m256i words = _mm256_packus_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
  const __m256i bytes = _mm256_packus_epi16(words, words);
  // Both packings stay within halves: the bytes are in the words 0, 4, 1 and 5.
  const __m256i ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0));
  _mm_storeu_si128((__m128i*)to, _mm256_castsi256_si128(ordered));
}

inline void store_unsigned(uint8_t* to, Floats a, Floats b, Floats c, Floats d) {
  store_unsigned(to, a);
  store_unsigned(to + LANES, b);
  store_unsigned(to + 2 * LANES, c);
  store_unsigned(to + 3 * LANES, d);
}

inline void store_every_fourth(uint8_t* to, int64_t place, const int8_t* bytes) {
  for (int lane = 0; lane < LANES; ++lane) to[4 * lane + place] = (uint8_t)bytes[lane];
}

inline void store_brain(uint16_t* to, Floats a) {
  alignas(32) uint32_t bits[LANES];
  _mm256_store_ps((float*)bits, a.low);
  _mm256_store_ps((float*)bits + 8, a.high);
  for (int lane = 0; lane < LANES; ++lane) {
    const bool is_nan = (bits[lane] & 0x7fffffffu) > 0x7f800000u;
    to[lane] = is_nan ? 0x7fc0 : (uint16_t)((bits[lane] + 0x7fffu + ((bits[lane] >> 16) & 1u)) >> 16);
  }
}

inline Ints no_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline Bytes load_bytes(const uint8_t* from) {
  return {_mm256_loadu_si256((const __m256i*)from), _mm256_loadu_si256((const __m256i*)(from + 32))};
}
inline Bytes low_nibbles(Bytes a) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(a.low, mask), _mm256_and_si256(a.high, mask)};
}
inline Bytes high_nibbles(Bytes a) {
  return low_nibbles({_mm256_srli_epi16(a.low, 4), _mm256_srli_epi16(a.high, 4)});
}
inline Bytes all_fours(const int8_t* from) {
  const __m256i word = _mm256_set1_epi32((int)four_bytes(from));
  return {word, word};
}

inline __m256i dot_half(__m256i total, __m256i unsigned_bytes, __m256i signed_bytes) {
  const __m256i sums_of_two = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
  return _mm256_add_epi32(total, _mm256_madd_epi16(sums_of_two, _mm256_set1_epi16(1)));
}

inline Ints dot_small(Ints total, Bytes weights, Bytes activations) {
  return {dot_half(total.low, weights.low, activations.low), dot_half(total.high, weights.high, activations.high)};
}

// Two products of unsigned bytes up to 255 would not fit into 16 bits; of magnitudes up to 128 they do.
inline __m256i dot_offset_half(__m256i total, __m256i weights, __m256i activations) {
  const __m256i plain = _mm256_xor_si256(weights, _mm256_set1_epi8((char)0x80));
  return dot_half(total, _mm256_abs_epi8(plain), _mm256_sign_epi8(activations, plain));
}

inline Ints begin_offset(int) { return no_ints(); }
inline Ints dot_offset(Ints total, Bytes weights, Bytes activations) {
  return {dot_offset_half(total.low, weights.low, activations.low),
          dot_offset_half(total.high, weights.high, activations.high)};
}

// 255 times 127 twice does not fit into 16 bits, so bytes are widened first: those at even and those at odd places.
inline __m256i dot_weights_half(__m256i total, __m256i weights, __m256i bytes) {
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), odd = _mm256_srai_epi16(bytes, 8);
  const __m256i even_weights = _mm256_and_si256(weights, _mm256_set1_epi16(255));
  const __m256i products = _mm256_madd_epi16(even, even_weights);
  return _mm256_add_epi32(
      total, _mm256_add_epi32(products, _mm256_madd_epi16(odd, _mm256_srli_epi16(weights, 8))));
}
inline Ints dot_weights(Ints total, Bytes weights, Bytes bytes) {
  return {dot_weights_half(total.low, weights.low, bytes.low), dot_weights_half(total.high, weights.high, bytes.high)};
}

inline BytePairs load_pairs(const uint16_t* from) { return load_bytes((const uint8_t*)from); }
inline BytePairs all_pairs(const uint16_t* from) { return all_fours((const int8_t*)from); }
inline BytePairs first_of_pairs(BytePairs a) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  return {_mm256_and_si256(a.low, mask), _mm256_and_si256(a.high, mask)};
}

inline __m256 dot_pairs_half(__m256 total, __m256i a, __m256i b) {
  const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
  const auto first = [](__m256i pair) { return _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)); };
  const auto second = [&](__m256i pair) { return _mm256_castsi256_ps(_mm256_and_si256(pair, upper)); };
  return _mm256_fmadd_ps(second(a), second(b), _mm256_fmadd_ps(first(a), first(b), total));
}

inline Floats dot_pairs(Floats total, BytePairs a, BytePairs b) {
  return {dot_pairs_half(total.low, a.low, b.low), dot_pairs_half(total.high, a.high, b.high)};
}

#endif

// e to the power of `x`, to the last bits of float32; 0 below where float32 has normal numbers.
inline Floats exponential(Floats x) {
  const Floats bounded = smaller(larger(x, all(-87.0f)), all(88.0f));
  const Floats whole = rounded(multiply(bounded, all(1.44269504088896341f)));
  Floats rest = multiply_add(whole, all(-0.693359375f), bounded);
  rest = multiply_add(whole, all(2.12194440e-4f), rest);
  Floats series = all(1.9875691500e-4f);
  series = multiply_add(series, rest, all(1.3981999507e-3f));
  series = multiply_add(series, rest, all(8.3334519073e-3f));
  series = multiply_add(series, rest, all(4.1665795894e-2f));
  series = multiply_add(series, rest, all(1.6666665459e-1f));
  series = multiply_add(series, rest, all(5.0000001201e-1f));
  series = add(multiply_add(multiply(rest, rest), series, rest), all(1.0f));
  return where_at_least(x, all(-87.0f), multiply(series, power_of_two(whole)));
}

// 2 to the power of `x`, which is not above 0, to three parts in a million; what is below 2 to the power of -100 is that.
inline Floats power(Floats x) {
  // What is not a number stays none: it is the second of two that are compared.
  const Floats bounded = larger(all(-100.0f), x);
  const Floats rest = above_whole(bounded);
  Floats series = all(1.3426686e-2f);
  series = multiply_add(series, rest, all(5.2242473e-2f));
  series = multiply_add(series, rest, all(2.4128021e-1f));
  series = multiply_add(series, rest, all(6.9304484e-1f));
  series = multiply_add(series, rest, all(1.0f));
  return shift_exponent(series, bounded);
}

// 1 - 2 / (e^2x + 1): exact to the last bits of 1, which is what a bound needs.
inline Floats hyperbolic_tangent(Floats x) {
  const Floats grown = exponential(add(x, x));
  return subtract(all(1.0f), divide(all(2.0f), add(grown, all(1.0f))));
}

inline float largest_of(const float* numbers, int count) {
  Floats most = all(numbers[0]);
  int at = 0;
  for (; at + LANES <= count; at += LANES) most = larger(most, load(numbers + at));
  float result = largest(most);
  for (; at < count; ++at) result = numbers[at] > result ? numbers[at] : result;
  return result;
}

}  // namespace kvasir
