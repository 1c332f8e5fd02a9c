// 4 x 8 tile for any CPU: the definition of the integer kernels.
#include <cmath>

#include "backend/cpu/isa/microkernel.h"

namespace ng::cpu {
namespace {

constexpr int kRows = 4;
constexpr int kCols = 8;
using Sums = uint32_t[kRows][kCols];  // unsigned: they wrap

uint32_t product_of_words(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const auto left = static_cast<int8_t>(a >> (8 * byte));
    const auto right = static_cast<uint8_t>(b >> (8 * byte));
    sum += static_cast<uint32_t>(left * right);
  }
  return sum;
}

void sum_segment(const DotRun& run, int64_t s, Sums& acc) {
  const uint32_t* a = run.a + s * run.words * kRows;
  const uint32_t* b = run.b + s * run.words * kCols;
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j) {
      acc[i][j] = static_cast<uint32_t>(run.starts[s * run.stride * kRows + i]);
      for (int64_t w = 0; w < run.words; ++w)
        acc[i][j] += product_of_words(a[w * kRows + i], b[w * kCols + j]);
    }
}

}  // namespace

void dot_scaled_scalar(const DotRun& run, TileIn from, TileOut to) {
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j)
      to.data[i * to.stride + j] = from.data != nullptr ? from.data[i * from.stride + j] : 0.0f;
  for (int64_t s = 0; s < run.segments; ++s) {
    Sums acc;
    sum_segment(run, s, acc);
    const float* left = run.scales.left + s * run.stride * kRows;
    const float* right = run.scales.right + s * run.stride * kCols;
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) {
        float& sum = to.data[i * to.stride + j];
        const auto products = static_cast<float>(static_cast<int32_t>(acc[i][j]));
        sum = std::fma(products, left[i] * right[j], sum);
      }
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j) to.data[i * to.stride + j] *= run.factor;
}

void dot_scalar(const DotRun& run, int32_t* sums) {
  for (int64_t s = 0; s < run.segments; ++s) {
    Sums acc;
    sum_segment(run, s, acc);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) {
        int32_t& to = sums[i * kCols + j];
        to = static_cast<int32_t>(static_cast<uint32_t>(to) + acc[i][j]);
      }
  }
}

}  // namespace ng::cpu
