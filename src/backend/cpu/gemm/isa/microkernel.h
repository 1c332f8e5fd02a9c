// The innermost loops of the GEMM, one row of the table per instruction set.
#pragma once

#include <cstdint>

#include "base/isa.h"

namespace ng::cpu {

/// A tile of FP32 values, row-major; data null: all +0 (inputs only).
struct TileIn {
  const float* data = nullptr;
  int64_t stride = 0;
};
struct TileOut {
  float* data = nullptr;
  int64_t stride = 0;
};

/// Elements of panels are FP32 values, pairs of BF16 patterns or of int16 values, or words of int8
/// values: 1, 2 or 4 values along K. Panels are k-major: a [elements][rows], b [elements][cols],
/// 32-byte aligned.

/// to[i][j] = chain of acc = fma(a[k][i], b[k][j], acc) from from[i][j], k ascending. Of a pair the
/// value of the lower k is in the high half, and a pair is two steps of the chain. `from` and `to`
/// may be the same; unfinished sums may wait in `to`.
using ChainKernel = void(int64_t count, const float* a, const float* b, TileIn from, TileOut to);

/// Scales of one segment: left [rows] and right [cols] of a tile.
struct SegmentScales {
  const float* left = nullptr;
  const float* right = nullptr;
  bool left_power_of_two = false;  ///< E8M0
  bool right_power_of_two = false;
  bool right_shared = false;  ///< aligned sixteens of columns have one scale
};

/// Segments of two panels. Words have 128 added to every value of b for instructions that multiply
/// uint8 by int8.
struct SegmentRun {
  int64_t segments = 1;
  int64_t count = 0;  ///< elements of one segment
  const float* a = nullptr;
  const float* b = nullptr;
  const int32_t* starts = nullptr;  ///< words: [segments · stride][rows], -128 · sum of a's
                                    ///< segment; of short dots see DotKernels
  SegmentScales scales;             ///< [segments · stride][rows or cols]
  int64_t stride = 1;
  float factor = 1.0f;     ///< of the results
  int64_t words = 0;       ///< short dots: how many one int16 sum takes, 4 or 8; divides `count`
  int64_t left_words = 0;  ///< matrix tiles: words of a piece of a [tile_panels.h]
  bool rounds_products = false;       ///< FP32: see ScaledKernel
  const uint32_t* factors = nullptr;  ///< short dots: multiply each int16 sum, pairs of equal int16
                                      ///< [segments · count / words][cols]; null: 1
};

/// to[i][j] = run.factor · chain of acc = fma(S, fl32(left[i] · right[j]), acc) from from[i][j]
/// over the segments. S is the chain of a segment from 0, of words the integer sum, |S| < 2^24.
/// Where both scales are powers of two, they and their products are no subnormals. `from` and `to`
/// may be the same; unfinished sums may wait in `to`. Where run.rounds_products, of FP32 elements,
/// acc = fl32(acc + fl32(S · fl32(left[i] · right[j]))).
using ScaledKernel = void(const SegmentRun& run, TileIn from, TileOut to);

/// sums[i][j] += S of all segments, modulo 2^32; the tile has no gaps between its rows. Reads no
/// scales.
using DotKernel = void(const SegmentRun& run, int32_t* sums);

/// Sums of words are made in int32, or by short dots in two halves in int16, values 0 and 1 and
/// values 2 and 3 of SegmentRun::words words, which are then widened. The results are the same
/// where int16 holds two products with b biased and all products of such a half with b unbiased.
/// Short dots read `starts` of every int16 sum, [segments · count / words][rows] pairs of int16:
/// -128 · sum of a's values in that half.
/// Pairs of int16 are summed in int32.
struct DotKernels {
  DotKernel* plain = nullptr;
  ScaledKernel* scaled = nullptr;
  /// As `scaled`, for scales of four significant bits that are normal numbers: looks up their
  /// products, on units that make no sums. Null: as `scaled`.
  ScaledKernel* scaled_by_lookup = nullptr;
};

/// Null where an instruction set has none.
struct ChainKernels {
  ChainKernel* chain = nullptr;
  ScaledKernel* scaled = nullptr;
};

struct Microkernel {
  Isa isa;
  int rows;  ///< of the left panels, the broadcast side
  int cols;  ///< of the right panels, the vector side
  ChainKernels fp32;
  ChainKernels bf16;      ///< pairs, exact only where nothing is subnormal; null: as FP32
  DotKernels dots;        ///< of words; null where the set has none
  DotKernels short_dots;  ///< of words of small values; null where `dots` are as fast
  DotKernels int16_dots;  ///< of pairs, for integers too large for the above; null where FP32 is as
                          ///< fast (AVX-512 without VNNI multiplies and adds them apart)
};

constexpr int kMaxTileRows = 32;
constexpr int kMaxTileCols = 48;

ChainKernel chain_scalar;
ChainKernel chain_avx2;
ChainKernel chain_avx512;
ChainKernel chain_avx512bf16;
ScaledKernel scaled_scalar;
ScaledKernel scaled_avx2;
ScaledKernel scaled_avx512;
ScaledKernel scaled_avx512bf16;
ScaledKernel dot_scaled_scalar;
ScaledKernel dot_scaled_avxvnni;
ScaledKernel dot_scaled_avx512vnni;
ScaledKernel dot_scaled_by_lookup_avx512vnni;
ScaledKernel int16_dot_scaled_avx2;
ScaledKernel int16_dot_scaled_avxvnni;
ScaledKernel int16_dot_scaled_avx512vnni;
ScaledKernel short_dot_scaled_avx2;
ScaledKernel short_dot_scaled_avx512;
DotKernel dot_scalar;
DotKernel dot_avxvnni;
DotKernel dot_avx512vnni;
DotKernel int16_dot_avx2;
DotKernel int16_dot_avxvnni;
DotKernel int16_dot_avx512vnni;
DotKernel short_dot_avx2;
DotKernel short_dot_avx512;

/// Elements (FP32, pairs of BF16 or int16, words of int8) of the left panel to fetch ahead, by
/// kernels that do (kFetches): panels follow one another in memory and come from the L3 cache or
/// beyond, FP32's faster than hardware prefetchers follow. Zen 5, FP32: 60 % of peak without, 94 %
/// with 1024 to 2048.
constexpr int64_t kPanelAhead = 1536;

/// The row of current_isa().
[[nodiscard]] const Microkernel& current_microkernel();

}  // namespace ng::cpu
