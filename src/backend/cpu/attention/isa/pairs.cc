#include "backend/cpu/attention/pairs.h"

#include <hwy/base.h>
#include <immintrin.h>

#include "base/isa.h"
#include "math/bf16.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512bf16")
namespace ng::cpu {
namespace {

constexpr int64_t kLanes = 16;
// Forms without mask read an undefined vector, which GCC 12 warns of.
constexpr __mmask32 kAll = ~__mmask32{0};

/// C (rows, cols) (+)= A · B with A(i, k) = a[i · a_row + k · a_k], B (depth, cols) row by row, all
/// of pairs. Row i sums over k in [(i - start) / 2, (i + end) / 2 rounded up), as far as depth
/// goes; its neighbours may let it sum over more, where A has zeros.
struct PairProduct {
  const uint32_t* a;
  int64_t a_row, a_k;
  const uint32_t* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t rows, cols, depth;  // even rows, whole vectors of columns
  int64_t start, end;
  bool add;

  [[nodiscard]] int64_t first(int64_t i) const {
    return std::clamp<int64_t>(i - start, 0, 2 * depth) / 2;
  }
  [[nodiscard]] int64_t last(int64_t i) const {
    return (std::clamp<int64_t>(i + end, 0, 2 * depth) + 1) / 2;
  }
};

// In assembly: the intrinsics want a vector type that clang 14 and GCC 12 convert differently.
HWY_INLINE void add_products(__m512& sum, __m512i left, __m512i right) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left));
}
HWY_INLINE __m512i broadcast(const uint32_t* from) {
  __m512i v;
  __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*from));
  return v;
}
// Lanes of low, then of high, rounded to BF16, subnormals as zeros.
HWY_INLINE __m512i rounded(__m512 low, __m512 high) {
  __m512i halves;
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(high), "v"(low));
  return halves;
}

template <int kRows, int kVectors>
HWY_INLINE int64_t multiply_rows(const PairProduct& p, int64_t i, int64_t n) {
  for (; i + kRows <= p.rows; i += kRows) {
    __m512 acc[kRows][kVectors];
    float* c = p.c + i * p.c_row + n;
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v)
      acc[r][v] = p.add ? _mm512_loadu_ps(c + r * p.c_row + v * kLanes) : _mm512_setzero_ps();
    const uint32_t* a = p.a + i * p.a_row;
    const int64_t last = p.last(i + kRows - 1);
    for (int64_t k = p.first(i); k < last; ++k) {
      __m512i right[kVectors];
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v)
        right[v] = _mm512_loadu_si512(p.b + k * p.b_row + n + v * kLanes);
      HWY_UNROLL(16)
      for (int r = 0; r < kRows; ++r) {
        const __m512i left = broadcast(a + r * p.a_row + k * p.a_k);
        HWY_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) add_products(acc[r][v], left, right[v]);
      }
    }
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + r * p.c_row + v * kLanes, acc[r][v]);
  }
  return i;
}

template <int kRows, int kVectors>
HWY_NOINLINE void multiply_strip(const PairProduct& p, int64_t n) {
  int64_t i = multiply_rows<kRows, kVectors>(p, 0, n);
  if constexpr (kRows > 4) i = multiply_rows<4, kVectors>(p, i, n);
  multiply_rows<2, kVectors>(p, i, n);
}

void multiply(const PairProduct& p) {
  int64_t n = 0;
  for (; n + 3 * kLanes < p.cols; n += 4 * kLanes) multiply_strip<6, 4>(p, n);
  if (p.cols - n > 2 * kLanes) return multiply_strip<8, 3>(p, n);
  if (p.cols - n > kLanes) return multiply_strip<12, 2>(p, n);
  if (p.cols > n) multiply_strip<16, 1>(p, n);
}

// Pairs as they lie in memory, the other way round.
HWY_INLINE __m512i turned(__m512i pairs) { return _mm512_maskz_rol_epi32(0xFFFF, pairs, 16); }
HWY_INLINE __m512i widened(__m256i patterns) {
  return _mm512_maskz_cvtepu16_epi32(0xFFFF, patterns);
}

/// The smallest magnitude but 0, less 1, and the largest, of lanes of 16 bits.
class Magnitudes {
 public:
  HWY_INLINE Magnitudes() : smallest_(_mm512_set1_epi16(-1)), largest_(_mm512_setzero_si512()) {}
  HWY_INLINE void look_at(__m512i patterns) {
    const __m512i magnitude = _mm512_and_si512(patterns, _mm512_set1_epi16(0x7FFF));
    smallest_ =
        _mm512_maskz_min_epu16(kAll, smallest_, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
    largest_ = _mm512_maskz_max_epu16(kAll, largest_, magnitude);
  }
  HWY_INLINE void note(TileMatrix& x) const {
    alignas(64) uint16_t small[32], large[32];
    _mm512_store_si512(small, smallest_);
    _mm512_store_si512(large, largest_);
    x.smallest = std::min(x.smallest, *std::min_element(small, small + 32));
    x.largest = std::max(x.largest, *std::max_element(large, large + 32));
  }

 private:
  __m512i smallest_, largest_;
};

// The first `count` (at most 32) lanes of 16 bits, of 32.
HWY_INLINE __mmask32 first_lanes(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << std::max<int64_t>(0, count)) - 1;
}

// f(std::true_type) where no vector is a part of one, so that none is masked.
template <class F>
HWY_INLINE void with_whole_vectors(bool are_whole, const F& f) {
  if (are_whole) return f(std::true_type());
  f(std::false_type());
}

// Rows behind the last become zeros: of queries they are multiplied.
void make_row_pairs(TileMatrix& x, const AttentionTiles& tiles) {
  if (x.has_row_pairs) return;
  x.has_row_pairs = true;
  const Rows<const Bf16> from = x.source.as<Bf16>();
  const int64_t words = pair_width(tiles);
  Magnitudes magnitudes;
  with_whole_vectors(from.cols == 2 * words, [&](auto is_whole) {
    for (int64_t r = 0; r < from.rows; ++r)
      for (int64_t w = 0; w < words; w += kLanes) {
        const __mmask32 lanes = is_whole ? kAll : first_lanes(from.cols - 2 * w);
        const __m512i pairs = _mm512_maskz_loadu_epi16(lanes, from.row(r) + 2 * w);
        magnitudes.look_at(pairs);
        _mm512_storeu_si512(x.row_pairs + r * words + w, turned(pairs));
      }
  });
  magnitudes.note(x);
  if (x.column_pairs != nullptr)
    std::fill(x.row_pairs + from.rows * words, x.row_pairs + tiles.edge * words, 0u);
}

void make_column_pairs(TileMatrix& x, const AttentionTiles& tiles) {
  make_row_pairs(x, tiles);
  if (x.has_column_pairs) return;
  x.has_column_pairs = true;
  const int64_t words = pair_width(tiles);
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i rows = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(static_cast<int>(words)));
  for (int64_t w = 0; w < words; ++w)
    for (int64_t r = 0; r < tiles.edge; r += kLanes)
      _mm512_storeu_si512(
          x.column_pairs + w * tiles.edge + r,
          _mm512_mask_i32gather_epi32(zero, 0xFFFF, rows, x.row_pairs + r * words + w, 4));
}

void make_pair_rows(TileMatrix& x, const AttentionTiles& tiles) {
  if (x.has_pair_rows) return;
  x.has_pair_rows = true;
  const Rows<const Bf16> from = x.source.as<Bf16>();
  const bool are_whole = from.rows == tiles.edge && from.cols == tiles.width;
  Magnitudes magnitudes;
  with_whole_vectors(are_whole, [&](auto is_whole) {
    for (int64_t r = 0; r < tiles.edge; r += 2)
      for (int64_t c = 0; c < tiles.width; c += kLanes) {
        const auto lanes = static_cast<__mmask16>(is_whole ? kAll : first_lanes(from.cols - c));
        const __mmask16 upper = is_whole || r < from.rows ? lanes : 0;
        const __mmask16 lower = is_whole || r + 1 < from.rows ? lanes : 0;
        const Bf16* at = from.data + r * from.stride + c;
        const __m512i even = widened(_mm256_maskz_loadu_epi16(upper, at));
        const __m512i odd = widened(_mm256_maskz_loadu_epi16(lower, at + from.stride));
        const __m512i pairs = _mm512_or_si512(_mm512_maskz_slli_epi32(0xFFFF, even, 16), odd);
        magnitudes.look_at(pairs);
        _mm512_storeu_si512(x.pair_rows + r / 2 * tiles.width + c, pairs);
      }
  });
  magnitudes.note(x);
}

/// The queries from n that see key i, documents aside.
HWY_INLINE __mmask16 seeing(const Visible& visible, int64_t i, int64_t n) {
  if (i >= visible.keys) return 0;
  const int64_t first = std::max<int64_t>(0, i - visible.diagonal) - n;
  const int64_t end = visible.queries_of(i + 1) - n;
  return static_cast<__mmask16>(first_lanes(std::min(end, kLanes)) & ~first_lanes(first));
}

/// P or dS of key i and the queries from n, 0 where one does not see the other.
HWY_INLINE __m512 seen(const TileWeights& from, const AttentionTiles& tiles, const Visible& visible,
                       bool all, int64_t i, int64_t n) {
  const __mmask16 queries = all ? 0xFFFF : seeing(visible, i, n);
  return _mm512_maskz_loadu_ps(queries, from.values + i * tiles.edge + n);
}

bool all_see_all(const AttentionTiles& tiles, const Visible& visible) {
  return visible.all() && visible.keys == tiles.edge && visible.queries == tiles.edge;
}

void pair_over_keys(const TileWeights& of, const AttentionTiles& tiles, const Visible& visible) {
  alignas(64) uint16_t order[32];  // lane l of the odd key, then of the even one
  for (uint16_t l = 0; l < kLanes; ++l) order[2 * l] = l, order[2 * l + 1] = l + kLanes;
  const __m512i side_by_side = _mm512_load_si512(order);
  with_whole_vectors(all_see_all(tiles, visible), [&](auto all) {
    for (int64_t i = 0; i < tiles.edge; i += 2)
      for (int64_t n = 0; n < tiles.edge; n += kLanes) {
        const __m512 even = seen(of, tiles, visible, all, i, n);
        const __m512 odd = seen(of, tiles, visible, all, i + 1, n);
        _mm512_storeu_si512(of.over_keys + i / 2 * tiles.edge + n,
                            _mm512_maskz_permutexvar_epi16(kAll, side_by_side, rounded(odd, even)));
      }
  });
}

void pair_over_queries(const TileWeights& of, const AttentionTiles& tiles, const Visible& visible) {
  with_whole_vectors(all_see_all(tiles, visible), [&](auto all) {
    for (int64_t i = 0; i < tiles.edge; ++i)
      for (int64_t n = 0; n < tiles.edge; n += 2 * kLanes) {
        const __m512 first = seen(of, tiles, visible, all, i, n);
        const __m512 second = seen(of, tiles, visible, all, i, n + kLanes);
        _mm512_storeu_si512(of.over_queries + (i * tiles.edge + n) / 2,
                            turned(rounded(first, second)));
      }
  });
}

// A value of exponent e is a multiple of 2^(e - 7), so that products are of 2^-126 and sums, too.
bool are_never_subnormal(const TileMatrix& x, const TileMatrix& y) {
  const int left = (x.smallest + 1) >> 7, right = (y.smallest + 1) >> 7;  // exponents + 127
  return left > 0 && right > 0 && left + right >= 2 * (127 + 7) - 126;
}

}  // namespace

bool takes_pairs(const ConstView& stored, const AttentionTiles& tiles, int64_t floats) {
  const int64_t words = tiles.edge * pair_width(tiles), rows = tiles.edge / 2 * tiles.width;
  const int64_t pairs = 2 * (2 * words + rows) + 2 * (words + rows) + 2 * tiles.edge * tiles.edge;
  return stored.is(bf16_format()) && current_isa() == Isa::avx512bf16 && tiles.edge >= 2 * kLanes &&
         floats + pairs <= kScratchFloats;
}

bool find_scores_by_pairs(TileMatrix& keys, TileMatrix& queries, float* scores,
                          const AttentionTiles& tiles, const Visible& visible) {
  if (keys.row_pairs == nullptr) return false;
  make_row_pairs(keys, tiles);
  make_column_pairs(queries, tiles);
  if (!are_never_subnormal(keys, queries)) return false;
  const int64_t words = pair_width(tiles), depth = tiles.width / 2;
  for_score_blocks(visible, [&](int64_t i, int64_t rows, int64_t n, int64_t cols) {
    multiply({.a = keys.row_pairs + i * words,
              .a_row = words,
              .a_k = 1,
              .b = queries.column_pairs + n,
              .b_row = tiles.edge,
              .c = scores + i * tiles.edge + n,
              .c_row = tiles.edge,
              .rows = (rows + 1) / 2 * 2,
              .cols = cols,
              .depth = depth,
              .start = tiles.edge,
              .end = 2 * depth,
              .add = false});
  });
  return true;
}

bool add_over_keys_by_pairs(const TileWeights& weights, TileMatrix& x, float* sums,
                            const AttentionTiles& tiles, const Visible& visible) {
  if (weights.over_keys == nullptr) return false;
  make_pair_rows(x, tiles);
  if (!x.is_finite()) return false;
  pair_over_keys(weights, tiles, visible);
  multiply({.a = weights.over_keys,
            .a_row = 1,
            .a_k = tiles.edge,
            .b = x.pair_rows,
            .b_row = tiles.width,
            .c = sums,
            .c_row = tiles.width,
            .rows = (visible.queries + 1) / 2 * 2,
            .cols = tiles.width,
            .depth = (visible.keys + 1) / 2,
            .start = visible.window - visible.diagonal - 1,
            .end = visible.diagonal + 1,
            .add = true});
  return true;
}

bool add_over_queries_by_pairs(const TileWeights& weights, TileMatrix& x, const Rows<float>& sums,
                               const AttentionTiles& tiles, const Visible& visible) {
  if (weights.over_queries == nullptr) return false;
  make_pair_rows(x, tiles);
  if (!x.is_finite()) return false;
  pair_over_queries(weights, tiles, visible);
  multiply({.a = weights.over_queries,
            .a_row = tiles.edge / 2,
            .a_k = 1,
            .b = x.pair_rows,
            .b_row = tiles.width,
            .c = sums.data,
            .c_row = sums.stride,
            .rows = (visible.keys + 1) / 2 * 2,
            .cols = tiles.width,
            .depth = (visible.queries + 1) / 2,
            .start = visible.diagonal,
            .end = visible.window - visible.diagonal,
            .add = true});
  return true;
}

}  // namespace ng::cpu
HWY_POP_ATTRIBUTES
