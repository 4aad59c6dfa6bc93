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

// Asks for the cache line of a place that will be read soon.
inline void fetch_ahead(const void* place) { _mm_prefetch((const char*)place, _MM_HINT_T0); }

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

inline Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }

// Rounds to the nearest, ties to even, and writes 16 signed bytes; returns their sum.
inline int store_bytes(int8_t* to, Floats a) {
  const Ints whole = _mm512_cvtps_epi32(a);
  _mm_storeu_si128((__m128i*)to, _mm512_cvtsepi32_epi8(whole));
  return _mm512_reduce_add_epi32(whole);
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

inline Floats to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

inline int store_bytes(int8_t* to, Floats a) {
  alignas(32) int32_t whole[LANES];
  _mm256_store_si256((__m256i*)whole, _mm256_cvtps_epi32(a.low));
  _mm256_store_si256((__m256i*)(whole + 8), _mm256_cvtps_epi32(a.high));
  int total = 0;
  for (int lane = 0; lane < LANES; ++lane) {
    to[lane] = (int8_t)whole[lane];
    total += whole[lane];
  }
  return total;
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
