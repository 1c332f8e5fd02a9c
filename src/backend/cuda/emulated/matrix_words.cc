#include "backend/cuda/emulated/matrix_words.h"

#include "math/round.h"

namespace ng::cuda::emulated {
namespace {

/// The value of BF16 in a half of a word.
float half_of(uint32_t word, int half) {
  return float_of_bits(half == 0 ? word << 16 : word & 0xFFFF0000u);
}

}  // namespace

void MatrixProduct::multiply(const std::array<WarpWork*, kWarp>& lanes) {
  const auto part = [&](int lane) -> MatrixProduct& {
    return *static_cast<MatrixProduct*>(lanes[static_cast<size_t>(lane)]);
  };
  float a[16][16], b[8][16];  // rows of A and columns of B
  for (int lane = 0; lane < kWarp; ++lane)
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4, k = 2 * (lane % 4) + half;
      const MatrixProduct& of = part(lane);
      a[row][k] = half_of(of.a[0], half);
      a[row + 8][k] = half_of(of.a[1], half);
      a[row][k + 8] = half_of(of.a[2], half);
      a[row + 8][k + 8] = half_of(of.a[3], half);
      b[row][k] = half_of(of.b[0], half);
      b[row][k + 8] = half_of(of.b[1], half);
    }
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, col = 2 * (lane % 4) + i % 2;
      float& sum = part(lane).c[i];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[col][k];  // exact products
    }
}

void MatrixRows::tell(const std::array<WarpWork*, kWarp>& lanes) {
  std::array<int64_t, kWarp> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<MatrixRows*>(lanes[i])->own;
  for (WarpWork* lane : lanes) static_cast<MatrixRows*>(lane)->all = all;
}

void meet_for(WarpWork& work, const Place& place) {
  running.block->meet({.what = Together::matrices, .mask = ~0u, .place = place, .work = &work});
}

}  // namespace ng::cuda::emulated
