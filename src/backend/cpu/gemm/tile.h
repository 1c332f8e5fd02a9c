// What happens to tiles of sums between and after the microkernels.
#pragma once

#include "backend/cpu/gemm/isa/microkernel.h"
#include "backend/cpu/gemm/rule.h"
#include "math/bf16.h"

namespace ng::cpu {

/// A whole microkernel tile, rows · cols values without gaps; cols is a multiple of 8: 8 x 48 with
/// AVX-512, 1,536 bytes of FP32, 8 x 24 with AVX2, 8 x 8 scalar.
struct TileShape {
  int rows = 0;
  int cols = 0;
};

/// acc = fl32(acc + scalbn(fl32(sums · m), e)): any scales, NaN included.
void add_scalbn(const TileShape& shape, float* acc, const float* sums, const SegmentScales& scales);

/// acc = fl32(acc + fl32(Σ sums · left · right)), added in FP64 over the `blocks` blocks of a
/// group: sums (blocks, rows · cols), their scales (blocks, rows) and (blocks, cols).
void add_group(const TileShape& shape, int64_t blocks, float* acc, const float* sums,
               const SegmentScales& scales);

/// Integer sums below 2^24 in FP32 to int32 totals.
void add_integers(const TileShape& shape, int32_t* totals, const float* sums);

/// to = from as FP32
void convert_sums(const TileShape& shape, const int32_t* from, float* to);

/// acc = fl32(acc + fl32(totals)); totals = 0
void add_totals(const TileShape& shape, float* acc, int32_t* totals);

/// The last steps from a sum to an output. [backend/ref/gemm.h, 2 and 3]
struct Finish {
  bool scaled = false;                 ///< acc is multiplied by fl32(fl32(left · right) · alpha)
  const float* left_scale = nullptr;   ///< [rows of the tile]
  const float* right_scale = nullptr;  ///< [cols of the tile]
  float alpha = 1.0f;
  const float* bias = nullptr;  ///< [cols of the tile] or null
  bool add = false;
  bool to_bf16 = false;  ///< y is rounded; where it is stored so, always
};

/// Writes rows × cols outputs, which may be less than a whole tile.
void finish_tile(const TileShape& shape, TileIn acc, TileOut y, const Finish& finish);
/// The same where y is stored as BF16, `stride` values from one row to the next.
void finish_tile(const TileShape& shape, TileIn acc, Bf16* y, int64_t stride, const Finish& finish);

}  // namespace ng::cpu
