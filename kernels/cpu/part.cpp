#include "part.h"

#include <algorithm>
#include <utility>

#define ALWAYS_INLINE inline __attribute__((always_inline))
// Apart from what calls it, so that a compiler keeps the sums of a loop in registers.
#define NOT_INLINED __attribute__((noinline))
// All of it unrolled, so that what is indexed lies in registers.
#define EACH(at, count) _Pragma("GCC unroll 8") for (int at = 0; at < count; ++at)

namespace kvasir {
namespace {

constexpr float LOG2_E = 1.44269504088896341f;

// Pages in bfloat16. Scores and sums are floats from the first product on.
struct BrainPages {
  using Weight = uint16_t;

  static const uint16_t* numbers(const uint8_t* place) { return (const uint16_t*)place; }
  static float query_scale(const uint8_t*, int64_t) { return 1.0f; }

  template <int Rows, int Width>
  static NOT_INLINED void scores(
      const PartRow* rows, const uint8_t* const* keys, const uint8_t* const* ahead, int64_t size, float* to) {
    Floats total[Rows][Width];
    EACH(row, Rows) EACH(page, Width) total[row][page] = zeros();
    for (int64_t pair = 0; pair < size; pair += 2) {
      BytePairs key[Width];
      EACH(page, Width) {
        key[page] = load_pairs(numbers(keys[page]) + pair * PAGE_TOKENS);
        if (ahead != nullptr) fetch_ahead(numbers(ahead[page]) + pair * PAGE_TOKENS);
      }
      EACH(row, Rows) {
        const BytePairs query = all_pairs(numbers(rows[row].query) + pair);
        EACH(page, Width) total[row][page] = dot_pairs(total[row][page], key[page], query);
      }
    }
    EACH(row, Rows) EACH(page, Width) store(to + row * PART_TOKENS + page * PAGE_TOKENS, total[row][page]);
  }

  static Floats scaled(const Part&, int64_t, int64_t, Floats weight) { return weight; }

  // Rounds a row's weights, of which `most` is the largest; what its sums are to be multiplied by.
  static float round(const float* weights, int64_t first, int64_t end, float, Weight* to) {
    for (int64_t page = first; page < end; ++page) {
      store_brain(to + page * PAGE_TOKENS, load(weights + page * PAGE_TOKENS));
    }
    return 1.0f;
  }

  template <int Rows, int Width>
  static NOT_INLINED void sums(
      const Part& part, int64_t first, int64_t end, const Weight* weights, bool is_ahead, int64_t dimension,
      int64_t size, float* to) {
    Floats total[Rows][Width];
    EACH(row, Rows) EACH(chunk, Width) total[row][chunk] = zeros();
    for (int64_t page = first; page < end; ++page) {
      const uint16_t* values = numbers(part.values[page]) + 2 * dimension;
      const uint16_t* next = numbers(part.next_values[page]) + 2 * dimension;
      const uint16_t* own = weights + page * PAGE_TOKENS;
      const int64_t tokens = std::min<int64_t>(part.tokens - page * PAGE_TOKENS, PAGE_TOKENS);
      for (int64_t token = 0; token + 1 < tokens; token += 2, values += 2 * size, next += 2 * size, own += 2) {
        if (is_ahead) EACH(chunk, Width) fetch_ahead(next + chunk * 2 * LANES);
        add_two<Rows, Width, false>(values, own, total);
      }
      if (tokens % 2 == 1) add_two<Rows, Width, true>(values, own, total);
    }
    EACH(row, Rows) EACH(chunk, Width) store(to + (row * Width + chunk) * LANES, total[row][chunk]);
  }

 private:
  // What lies behind the last token need not be numbers: 0 times that is not 0.
  template <int Rows, int Width, bool IsLast>
  static ALWAYS_INLINE void add_two(const uint16_t* values, const uint16_t* weights, Floats (&total)[Rows][Width]) {
    BytePairs value[Width];
    EACH(chunk, Width) {
      value[chunk] = load_pairs(values + chunk * 2 * LANES);
      if (IsLast) value[chunk] = first_of_pairs(value[chunk]);
    }
    EACH(row, Rows) {
      const BytePairs weight = all_pairs(weights + row * PART_TOKENS);
      EACH(chunk, Width) total[row][chunk] = dot_pairs(total[row][chunk], value[chunk], weight);
    }
  }
};

// Pages in 8 bits. Scores and sums are whole numbers; the scales of values are multiplied into the weights before those are
// rounded to 8 bits, a row's largest in the part becoming 255.
struct BytePages {
  using Weight = uint8_t;

  static const float* scales(const uint8_t* place, int64_t size) { return (const float*)(place + PAGE_TOKENS * size); }
  static const RoundedQuery& rounded(const uint8_t* query, int64_t size) { return *(const RoundedQuery*)(query + size); }
  static float query_scale(const uint8_t* query, int64_t size) { return rounded(query, size).scale; }

  template <int Rows, int Width>
  static NOT_INLINED void scores(
      const PartRow* rows, const uint8_t* const* keys, const uint8_t* const* ahead, int64_t size, float* to) {
    Ints total[Rows][Width];
    EACH(row, Rows) {
      EACH(page, Width) total[row][page] = begin_offset(rounded(rows[row].query, size).sum);
    }
    for (int64_t four = 0; four < size; four += 4) {
      Bytes key[Width];
      EACH(page, Width) {
        key[page] = load_bytes(keys[page] + four * PAGE_TOKENS);
        if (ahead != nullptr) fetch_ahead(ahead[page] + four * PAGE_TOKENS);
      }
      EACH(row, Rows) {
        const Bytes query = all_fours((const int8_t*)rows[row].query + four);
        EACH(page, Width) total[row][page] = dot_offset(total[row][page], key[page], query);
      }
    }
    EACH(page, Width) {
      if (ahead != nullptr) fetch_ahead(scales(ahead[page], size));
      const Floats scale = load(scales(keys[page], size));
      EACH(row, Rows) {
        store(to + row * PART_TOKENS + page * PAGE_TOKENS, multiply(to_floats(total[row][page]), scale));
      }
    }
  }

  static Floats scaled(const Part& part, int64_t page, int64_t size, Floats weight) {
    return multiply(weight, load(scales(part.values[page], size)));
  }

  static float round(const float* weights, int64_t first, int64_t end, float most, Weight* to) {
    const Floats inverse = all(most > SMALLEST_MAGNITUDE ? 255.0f / most : 0.0f);
    const auto rounded = [&](int64_t page) { return multiply(load(weights + page * PAGE_TOKENS), inverse); };
    int64_t page = first;
    for (; page + 4 <= end; page += 4) {
      store_unsigned(
          to + page * PAGE_TOKENS, rounded(page), rounded(page + 1), rounded(page + 2), rounded(page + 3));
    }
    for (; page < end; ++page) store_unsigned(to + page * PAGE_TOKENS, rounded(page));
    return most / 255.0f;
  }

  template <int Rows, int Width>
  static NOT_INLINED void sums(
      const Part& part, int64_t first, int64_t end, const Weight* weights, bool is_ahead, int64_t dimension,
      int64_t size, float* to) {
    Ints total[Rows][Width];
    EACH(row, Rows) EACH(chunk, Width) total[row][chunk] = no_ints();
    for (int64_t page = first; page < end; ++page) {
      const uint8_t* values = part.values[page] + 4 * dimension;
      const uint8_t* next = part.next_values[page] + 4 * dimension;
      const int8_t* own = (const int8_t*)weights + page * PAGE_TOKENS;
      if (is_ahead) fetch_ahead(scales(part.next_values[page], size));
      for (int64_t token = 0; token < PAGE_TOKENS; token += 4, values += 4 * size, next += 4 * size, own += 4) {
        Bytes value[Width];
        EACH(chunk, Width) {
          value[chunk] = load_bytes(values + chunk * 4 * LANES);
          if (is_ahead) fetch_ahead(next + chunk * 4 * LANES);
        }
        EACH(row, Rows) {
          const Bytes weight = all_fours(own + row * PART_TOKENS);
          EACH(chunk, Width) total[row][chunk] = dot_weights(total[row][chunk], weight, value[chunk]);
        }
      }
    }
    EACH(row, Rows) EACH(chunk, Width) store(to + (row * Width + chunk) * LANES, to_floats(total[row][chunk]));
  }
};

struct Weighed {
  float factor, most, most_weight, scale;
  Floats sum;
};

// The largest of a row's scores. A cap is applied to them on the way.
template <bool IsWhole>
ALWAYS_INLINE float largest_score(const ScoreRule& rule, const PartRow& row, float& factor, float* scores) {
  Floats most = all(NOTHING);
  const int64_t first = IsWhole ? 0 : row.first_page(), end = IsWhole ? PART_PAGES : row.end_page();
  if (rule.cap != 0.0f) {
    for (int64_t page = first; page < end; ++page) {
      const Floats bent = hyperbolic_tangent(multiply(load(scores + page * PAGE_TOKENS), all(factor / rule.cap)));
      store(scores + page * PAGE_TOKENS, multiply(all(rule.cap), bent));
    }
    factor = 1.0f;
  }
  for (int64_t page = first; page < end; ++page) {
    const Floats score = load(scores + page * PAGE_TOKENS);
    most = larger(most, IsWhole || row.sees_all(page) ? score : row.seen(page, score, all(NOTHING)));
  }
  return largest(most);
}

// A row's scores become weights, in place; those of tokens it does not see are 0.
template <class Pages, bool IsWhole>
ALWAYS_INLINE void weigh(const Heads& heads, const Part& part, const PartRow& row, float* scores, Weighed& weighed) {
  const Floats factor = all(weighed.factor), most = all(weighed.most);
  Floats total = zeros(), most_weight = zeros();
  const int64_t first = IsWhole ? 0 : row.first_page(), end = IsWhole ? PART_PAGES : row.end_page();
  for (int64_t page = first; page < end; ++page) {
    Floats weight = power(multiply_subtract(load(scores + page * PAGE_TOKENS), factor, most));
    const bool sees_all = IsWhole || row.sees_all(page);
    if (!sees_all) weight = row.seen(page, weight, zeros());
    total = add(total, weight);
    weight = Pages::scaled(part, page, heads.size, weight);
    // The scales of tokens that are not seen may be anything.
    if (!sees_all) weight = row.seen(page, weight, zeros());
    most_weight = larger_or_none(most_weight, weight);
    store(scores + page * PAGE_TOKENS, weight);
  }
  weighed.sum = total;
  weighed.most_weight = largest_or_none(most_weight);
}

template <class Pages, int Rows, bool IsWhole>
void attend_rows(const Heads& heads, const ScoreRule& rule, const Part& part, const PartRow* rows, bool fetches) {
  alignas(64) float scores[Rows * PART_TOKENS];
  alignas(64) typename Pages::Weight weights[Rows * PART_TOKENS];
  const auto sees_any = [&](int row) { return IsWhole || rows[row].sees_any(); };
  int64_t first_page = IsWhole ? 0 : PART_PAGES, end_page = IsWhole ? PART_PAGES : 0;
  if constexpr (!IsWhole) {
    EACH(row, Rows) {
      if (!sees_any(row)) continue;
      first_page = std::min(first_page, rows[row].first_page());
      end_page = std::max(end_page, rows[row].end_page());
    }
    if (first_page >= end_page) return;
  }

  int64_t page = first_page;
  const auto score = [&](auto width) {
    constexpr int Width = decltype(width)::value;
    for (; page + Width <= end_page; page += Width) {
      Pages::template scores<Rows, Width>(
          rows, part.keys + page, fetches ? part.next_keys + page : nullptr, heads.size, scores + page * PAGE_TOKENS);
    }
  };
  score(std::integral_constant<int, TILE_WIDTH>());
  if constexpr (!IsWhole) score(std::integral_constant<int, 1>());

  // Step by step for all rows: each step ends in one number of a row, which the next ones need and a processor waits for.
  Weighed weighed[Rows];
  // What a row's sums so far and those of this part are multiplied by.
  alignas(64) float old_shares[LANES], new_shares[LANES];
  for (int row = 0; row < Rows; ++row) {
    old_shares[row] = new_shares[row] = 0.0f;
    if (!sees_any(row)) continue;
    Weighed& own = weighed[row];
    own.factor = rule.scale * Pages::query_scale(rows[row].query, heads.size);
    const float most = largest_score<IsWhole>(rule, rows[row], own.factor, scores + row * PART_TOKENS);
    own.factor *= LOG2_E;
    own.most = most * own.factor;
    const float before = rows[row].state[largest_at(heads.size)], both = std::max(before, own.most);
    old_shares[row] = before - both;
    new_shares[row] = own.most - both;
  }
  for (int row = 0; row < Rows; ++row) {
    if (sees_any(row)) weigh<Pages, IsWhole>(heads, part, rows[row], scores + row * PART_TOKENS, weighed[row]);
  }
  for (int row = 0; row < Rows; ++row) {
    typename Pages::Weight* own = weights + row * PART_TOKENS;
    int64_t first = first_page, end = end_page;
    if constexpr (!IsWhole) {
      first = sees_any(row) ? rows[row].first_page() : end_page;
      end = sees_any(row) ? rows[row].end_page() : end_page;
    }
    if (sees_any(row)) {
      weighed[row].scale = Pages::round(scores + row * PART_TOKENS, first, end, weighed[row].most_weight, own);
    }
    if (first > first_page) std::fill(own + first_page * PAGE_TOKENS, own + first * PAGE_TOKENS, 0);
    if (end < end_page) std::fill(own + end * PAGE_TOKENS, own + end_page * PAGE_TOKENS, 0);
  }
  for (int row = Rows; row < LANES; ++row) old_shares[row] = new_shares[row] = 0.0f;
  store(old_shares, power(load(old_shares)));
  store(new_shares, power(load(new_shares)));

  int64_t dimension = 0;
  const auto add_up = [&](auto width) {
    constexpr int Width = decltype(width)::value;
    for (; dimension + Width * LANES <= heads.size; dimension += Width * LANES) {
      alignas(64) float sums[Rows * Width * LANES];
      Pages::template sums<Rows, Width>(part, first_page, end_page, weights, fetches, dimension, heads.size, sums);
      EACH(row, Rows) {
        if (!sees_any(row)) continue;
        const Floats old_share = all(old_shares[row]), share = all(new_shares[row] * weighed[row].scale);
        EACH(chunk, Width) {
          float* state = rows[row].state + dimension + chunk * LANES;
          const Floats own = load(sums + (row * Width + chunk) * LANES);
          store(state, multiply_add(own, share, multiply(load(state), old_share)));
        }
      }
    }
  };
  add_up(std::integral_constant<int, TILE_WIDTH>());
  add_up(std::integral_constant<int, 1>());

  EACH(row, Rows) {
    if (!sees_any(row)) continue;
    float *own = rows[row].state + weights_at(heads.size), *most = rows[row].state + largest_at(heads.size);
    store(own, multiply_add(weighed[row].sum, all(new_shares[row]), multiply(load(own), all(old_shares[row]))));
    *most = std::max(*most, weighed[row].most);
  }
}

template <class Pages, bool IsWhole>
void attend_part_of(const Heads& heads, const ScoreRule& rule, const Part& part, const PartRow* rows, int64_t count) {
  int64_t row = 0;
  const auto attend = [&](auto rows_at_once) {
    constexpr int Rows = decltype(rows_at_once)::value;
    for (; row + Rows <= count; row += Rows) {
      attend_rows<Pages, Rows, IsWhole>(heads, rule, part, rows + row, part.has_next && row == 0);
    }
  };
  attend(std::integral_constant<int, TILE_ROWS>());
  if constexpr (TILE_ROWS > 3) {
    attend(std::integral_constant<int, 3>());
    attend(std::integral_constant<int, 2>());
  }
  attend(std::integral_constant<int, 1>());
}

}  // namespace

void begin_state(const Heads& heads, float* state) {
  std::fill_n(state, largest_at(heads.size), 0.0f);
  state[largest_at(heads.size)] = NOTHING;
}

void attend_part(
    const Heads& heads, const ScoreRule& rule, const Part& part, const PartRow* rows, int64_t count, bool is_whole) {
  const auto attend = heads.kept == Kept::brain
                          ? is_whole ? attend_part_of<BrainPages, true> : attend_part_of<BrainPages, false>
                          : is_whole ? attend_part_of<BytePages, true> : attend_part_of<BytePages, false>;
  attend(heads, rule, part, rows, count);
}

void add_up(const float* states, int64_t count, int64_t stride, int64_t size, float* to) {
  if (count == 1) {
    const Floats share = all(1.0f / sum(load(states + weights_at(size))));
    for (int64_t at = 0; at < size; at += LANES) store(to + at, multiply(load(states + at), share));
    return;
  }
  float most = NOTHING;
  for (int64_t at = 0; at < count; ++at) most = std::max(most, states[at * stride + largest_at(size)]);
  std::fill_n(to, size, 0.0f);
  Floats weights = zeros();
  alignas(64) float shares[LANES];
  for (int64_t first = 0; first < count; first += LANES) {
    const float* own = states + first * stride;
    const int64_t some = std::min<int64_t>(count - first, LANES);
    for (int64_t at = 0; at < LANES; ++at) {
      shares[at] = at < some ? own[at * stride + largest_at(size)] - most : NOTHING;
    }
    store(shares, power(load(shares)));
    for (int64_t dimension = 0; dimension < size; dimension += LANES) {
      Floats total = load(to + dimension);
      for (int64_t at = 0; at < some; ++at) {
        total = multiply_add(load(own + at * stride + dimension), all(shares[at]), total);
      }
      store(to + dimension, total);
    }
    for (int64_t at = 0; at < some; ++at) {
      weights = multiply_add(load(own + at * stride + weights_at(size)), all(shares[at]), weights);
    }
  }
  const Floats share = all(1.0f / sum(weights));
  for (int64_t at = 0; at < size; at += LANES) store(to + at, multiply(load(to + at), share));
}

}  // namespace kvasir
