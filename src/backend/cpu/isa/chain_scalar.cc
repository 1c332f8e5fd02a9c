// 4 x 8 tile for any CPU.
#include <cmath>

#include "backend/cpu/isa/microkernel.h"

namespace ng::cpu {

void chain_scalar(int64_t k, const float* a, const float* b, TileIn from, TileOut to) {
  constexpr int kRows = 4;
  constexpr int kCols = 8;
  float acc[kRows][kCols];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j)
      acc[i][j] = from.data != nullptr ? from.data[i * from.stride + j] : 0.0f;
  for (; k > 0; --k, a += kRows, b += kCols)
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) acc[i][j] = std::fma(a[i], b[j], acc[i][j]);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j) to.data[i * to.stride + j] = acc[i][j];
}

}  // namespace ng::cpu
