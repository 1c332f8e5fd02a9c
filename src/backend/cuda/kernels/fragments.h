// Products of a warp by matrix units, in tiles of shared memory: C (16 × 8, FP32) += A (16 × 16) ·
// B (16 × 8) of BF16. With g = lane / 4 and t = lane % 4 a lane holds
//   of C  values (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
//   of A  pairs  (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8)   and the column after each
//   of B  pairs  (2t, g), (2t + 8, g)                                 and the row after each
// so that two C beside each other, rounded, lie as an A. [PTX ISA 9.0, mma m16n8k16]
#pragma once

#include "backend/cuda/kernels/attention.h"

namespace ng::cuda {

inline constexpr int kFlashThreads = 128;
/// That a multiprocessor has at least, by the columns of a head.
constexpr int flash_blocks(int cols) { return cols <= 64 ? 3 : 2; }
inline constexpr int kWarpRows = 16;  ///< of a block's, for each of its warps
/// Of a factor in FP32 as a sum of BF16 values: its 24 bits.
inline constexpr int kParts = 3;
inline constexpr float kLog2e = 1.442695F;

/// kFlashRows × kCols of BF16. Rows are a quad longer than they need be: eight of them lie in
/// different banks.
template <int kCols>
struct TileShape {
  static constexpr int kQuads = kCols / 8, kStride = kQuads + 1, kSize = kFlashRows * kStride;
};

/// Whether a BF16 value of a word is infinite or NaN.
__device__ inline bool has_nonfinite(uint32_t word) {
  return (word & 0x7F80u) == 0x7F80u || (word & 0x7F800000u) == 0x7F800000u;
}

/// Of `x`, of BF16, rows × cols (of 8 each) from (row, col) into tile `which`, zeros beyond.
/// Returns whether one that this thread moved is not finite.
template <int kCols, class Tiles>
__device__ bool load_tile(const Tiles& tiles, int which, const Source& x, int64_t row, int64_t col,
                          int rows, int cols) {
  using Shape = TileShape<kCols>;
  const auto* const from = static_cast<const Bf16*>(x.data) + row * x.stride + col;
  bool is_odd = false;
  for (int i = static_cast<int>(threadIdx.x); i < kFlashRows * Shape::kQuads; i += kFlashThreads) {
    const int r = i / Shape::kQuads, c = i % Shape::kQuads;
    Quad quad = {};
    if (r < rows && 8 * c < cols)
      quad = *reinterpret_cast<const Quad*>(from + r * x.stride + 8 * c);
    NG_UNROLL
    for (int w = 0; w < 4; ++w) is_odd = is_odd || has_nonfinite(quad.words[w]);
    tiles[which * Shape::kSize + r * Shape::kStride + c] = quad;
  }
  return is_odd;
}

/// An A: rows from `row` on and columns 16·step ... of a tile.
template <int kCols, class Tiles>
__device__ void load_rows(uint32_t (&a)[4], const Tiles& tiles, int which, int row, int step) {
  using Shape = TileShape<kCols>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  ldmatrix(
      a, &tiles[which * Shape::kSize + (row + lane % 16) * Shape::kStride + 2 * step + lane / 16]);
}

/// Two B beside each other, b[0] b[1] and b[2] b[3], whose columns are 16 rows of a tile from `row`
/// on: X · tileᵀ. k is columns 16·step ...
template <int kCols, class Tiles>
__device__ void load_turned(uint32_t (&b)[4], const Tiles& tiles, int which, int row, int step) {
  using Shape = TileShape<kCols>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, m = lane / 8;
  ldmatrix(b, &tiles[which * Shape::kSize + (row + m / 2 * 8 + lane % 8) * Shape::kStride +
                     2 * step + m % 2]);
}

/// Two B beside each other, whose rows are 16 rows of a tile from `row` on, of columns
/// 16·pair ...: X · tile.
template <int kCols, class Tiles>
__device__ void load_straight(uint32_t (&b)[4], const Tiles& tiles, int which, int row, int pair) {
  using Shape = TileShape<kCols>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, m = lane / 8;
  ldmatrix_trans(b, &tiles[which * Shape::kSize + (row + m % 2 * 8 + lane % 8) * Shape::kStride +
                           2 * pair + m / 2]);
}

/// c[0], c[1] += a · two B.
__device__ inline void multiply_two(float (&c)[2][4], const uint32_t (&a)[4],
                                    const uint32_t (&b)[4]) {
  mma_bf16(c[0], a, b[0], b[1]);
  mma_bf16(c[1], a, b[2], b[3]);
}

/// Two C beside each other as factors: their values to BF16, and unless these are all that is
/// wanted what that lacks, twice.
struct Factors {
  uint32_t parts[kParts][4];
  int count;

  __device__ Factors(float (&c)[2][4], bool is_rounded) : count(is_rounded ? 1 : kParts) {
    NG_UNROLL
    for (int part = 0; part < kParts; ++part) {
      if (part >= count) break;
      NG_UNROLL
      for (int i = 0; i < 4; ++i)
        parts[part][i] = take(c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1]);
    }
  }
  /// sums, two C, += these · two B.
  __device__ void multiply(float (&sums)[2][4], const uint32_t (&b)[4]) const {
    NG_UNROLL
    for (int part = 0; part < kParts; ++part)
      if (part < count) multiply_two(sums, parts[part], b);
  }

 private:
  /// Both rounded, in a word; the values keep what is left of them.
  __device__ static uint32_t take(float& low, float& high) {
    const uint32_t word = uint32_t{to_bf16(low).bits} | uint32_t{to_bf16(high).bits} << 16;
    low -= round_to_bf16(low);
    high -= round_to_bf16(high);
    return word;
  }
};

/// The 16 rows of a warp, an A for each 16 columns, in registers.
template <int kCols>
struct HeldRows {
  uint32_t a[kCols / 16][4];
  template <class Tiles>
  __device__ void take(const Tiles& tiles, int which, int row) {
    NG_UNROLL
    for (int step = 0; step < kCols / 16; ++step)
      load_rows<kCols>(a[step], tiles, which, row, step);
  }
  template <class Tiles>
  __device__ void read(uint32_t (&to)[4], const Tiles& /* tiles */, int step) const {
    NG_UNROLL
    for (int i = 0; i < 4; ++i) to[i] = a[step][i];
  }
};
/// Products of a warp's 16 rows with 16 rows of a tile, over a head's columns.
template <int kCols, class Rows, class Tiles>
__device__ void multiply_turned(float (&c)[2][4], const Rows& rows, const Tiles& tiles, int which,
                                int row, int cols) {
  uint32_t a[4], b[4];
  NG_UNROLL
  for (int step = 0; step < kCols / 16; ++step) {
    if (16 * step >= cols) break;
    rows.read(a, tiles, step);
    load_turned<kCols>(b, tiles, which, row, step);
    multiply_two(c, a, b);
  }
}
/// sums += factors (16 × 16) · 16 rows of a tile.
template <int kCols, class Tiles>
__device__ void multiply_straight(float (&sums)[kCols / 16][2][4], const Factors& factors,
                                  const Tiles& tiles, int which, int row, int cols) {
  uint32_t b[4];
  NG_UNROLL
  for (int pair = 0; pair < kCols / 16; ++pair) {
    if (16 * pair >= cols) break;
    load_straight<kCols>(b, tiles, which, row, pair);
    factors.multiply(sums[pair], b);
  }
}

/// Of a block, in the end: whether any of its threads met a value that is not finite. True for all
/// of them then.
__device__ inline bool tell_odd(bool is_odd, uint32_t& left) {
  NG_SHARED(uint32_t, any, 1);
  if (threadIdx.x == 0) any[0] = 0;
  __syncthreads();
  if (is_odd) atomicOr(&any[0], 1u);
  __syncthreads();
  const uint32_t is_any = any[0];
  if (threadIdx.x == 0) left = is_any;
  return is_any != 0;
}

/// Of a block that takes rows of a head: which, the last of a sequence first, for they see most.
struct FlashPlace {
  int sequence, head, first, rows;  ///< `rows` from row `first` of the sequence on
  uint32_t block;                   ///< of FlashBlocks

  __device__ explicit FlashPlace(const FlashBlocks& blocks) {
    const uint32_t all = blocks.in_sequence(), at = blockIdx.x;
    const auto heads = static_cast<uint32_t>(blocks.heads);
    const uint32_t of_head = at / all, own = all - 1 - at % all;
    head = static_cast<int>(of_head % heads);
    sequence = static_cast<int>(of_head / heads);
    first = static_cast<int>(own) * kFlashRows;
    const int rest = static_cast<int>(blocks.length) - first;
    rows = rest < kFlashRows ? rest : kFlashRows;
    block = of_head * all + own;
  }
};

/// Queries of a lane, g and g + 8 of its warp's: the keys that they see.
struct LaneQueries {
  int first[2], last[2];

  /// Of a warp's 16 from `mine` on of a block's, whose first lies in `row`; there is none where the
  /// block has fewer.
  __device__ LaneQueries(const Heads& heads, const FlashPlace& at, int64_t row, int mine) {
    NG_UNROLL
    for (int of = 0; of < 2; ++of) {
      const int i = mine + static_cast<int>(threadIdx.x) % kWarp / 4 + 8 * of;
      const bool is_there = i < at.rows;
      first[of] = is_there ? static_cast<int>(heads.first_key(row + i, at.first + i)) : 0;
      last[of] = is_there ? static_cast<int>(heads.s.first) + at.first + i : -1;
    }
  }
  [[nodiscard]] __device__ bool see(int of, int key) const {
    return first[of] <= key && key <= last[of];
  }
};

/// Of a block of queries, whose first lies in `row`: where the tiles of keys that any of them sees
/// begin. All threads of the block meet here, so that tiles may be written again behind it.
__device__ inline int first_tile(const Heads& heads, int64_t row, const FlashPlace& at) {
  NG_SHARED(int, first, 1);
  if (threadIdx.x == 0) first[0] = static_cast<int>(heads.first_key(row, at.first));
  __syncthreads();
  const int own = static_cast<int>(threadIdx.x);
  if (own < at.rows)
    atomicMin(&first[0], static_cast<int>(heads.first_key(row + own, at.first + own)));
  __syncthreads();
  return first[0] / kFlashRows * kFlashRows;
}

/// F holds what it needs, by value, and is called by each thread of each block.
template <class F>
__global__ void __launch_bounds__(kFlashThreads, F::kBlocks) flash(F f) {
  f();
}

}  // namespace ng::cuda
