// 4 x 8 tile for any CPU.
#include <cmath>

#include "backend/cpu/isa/microkernel.h"

namespace ng::cpu {
namespace {

constexpr int kRows = 4;
constexpr int kCols = 8;

void accumulate(int64_t k, const float* a, const float* b, float (&acc)[kRows][kCols]) {
  for (; k > 0; --k, a += kRows, b += kCols)
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) acc[i][j] = std::fma(a[i], b[j], acc[i][j]);
}

}  // namespace

void chain_scalar(int64_t k, const float* a, const float* b, TileIn from, TileOut to) {
  float acc[kRows][kCols];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j)
      acc[i][j] = from.data != nullptr ? from.data[i * from.stride + j] : 0.0f;
  accumulate(k, a, b, acc);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j) to.data[i * to.stride + j] = acc[i][j];
}

void scaled_scalar(int64_t k, const float* a, const float* b, const SegmentScales& scales,
                   float* tile) {
  float acc[kRows][kCols] = {};
  accumulate(k, a, b, acc);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j)
      tile[i * kCols + j] += acc[i][j] * (scales.left[i] * scales.right[j]);
}

}  // namespace ng::cpu
