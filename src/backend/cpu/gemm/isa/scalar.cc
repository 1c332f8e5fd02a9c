// 8 x 8 tile for any CPU: the definition of the kernels.
#include <algorithm>
#include <bit>
#include <cmath>

#include "backend/cpu/gemm/isa/tile32.h"
#include "base/flush.h"

namespace ng::cpu {
namespace {

constexpr int kRows = 8;
constexpr int kCols = 8;

void accumulate(int64_t count, const float* a, const float* b, float (&acc)[kRows][kCols]) {
  for (; count > 0; --count, a += kRows, b += kCols)
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) acc[i][j] = std::fma(a[i], b[j], acc[i][j]);
}

uint32_t product_of_words(float a, float b) {
  const auto left = std::bit_cast<uint32_t>(a), right = std::bit_cast<uint32_t>(b);
  uint32_t sum = 0;
  for (int shift = 0; shift < 32; shift += 8)
    sum += static_cast<uint32_t>(static_cast<int8_t>(left >> shift) *
                                 static_cast<uint8_t>(right >> shift));
  return sum;
}

// Unsigned: they wrap.
void accumulate(int64_t count, const float* a, const float* b, uint32_t (&acc)[kRows][kCols]) {
  for (; count > 0; --count, a += kRows, b += kCols)
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) acc[i][j] += product_of_words(a[i], b[j]);
}

float to_float(float sum) { return sum; }
float to_float(uint32_t sum) { return static_cast<float>(static_cast<int32_t>(sum)); }

// The sums of one segment.
template <class T>
struct Sums {
  T at[kRows][kCols] = {};

  Sums(const SegmentRun& run, int64_t s) {
    if (run.starts != nullptr)
      for (int i = 0; i < kRows; ++i)
        std::fill_n(at[i], kCols, static_cast<T>(run.starts[s * run.stride * kRows + i]));
    accumulate(run.count, run.a + s * run.count * kRows, run.b + s * run.count * kCols, at);
  }
};

template <class T>
void add_scaled(const SegmentRun& run, TileIn from, TileOut to) {
  chain_scalar(0, nullptr, nullptr, from, to);
  for (int64_t s = 0; s < run.segments; ++s) {
    const Sums<T> sums(run, s);
    const float* left = run.scales.left + s * run.stride * kRows;
    const float* right = run.scales.right + s * run.stride * kCols;
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) {
        float& acc = to.data[i * to.stride + j];
        const float sum = to_float(sums.at[i][j]), scale = left[i] * right[j];
        acc = run.rounds_products ? acc + sum * scale : std::fma(sum, scale, acc);
      }
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kCols; ++j) to.data[i * to.stride + j] *= run.factor;
}

// The sum of 32 products, k-major panels from those of row i and column j on. [ref/gemm.h]
float tile_step(const float* a, const float* b) {
  float sums[2] = {};  // of even and of odd k
  for (int k = 0; k < 32; ++k, a += kRows, b += kCols)
    sums[k % 2] = flushed_fma(flushed(*a), flushed(*b), sums[k % 2]);
  return flushed(sums[0] + sums[1]);
}

}  // namespace

void tile32_scalar(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  chain_scalar(0, nullptr, nullptr, from, to);
  for (; count > 0; count -= 32, a += 32 * kRows, b += 32 * kCols)
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) {
        float& acc = to.data[i * to.stride + j];
        acc = flushed(flushed(acc) + tile_step(a + i, b + j)) + 0.0f;
      }
}

void chain_scalar(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  float acc[kRows][kCols] = {};
  for (int i = 0; i < kRows && from.data != nullptr; ++i)
    std::copy_n(from.data + i * from.stride, kCols, acc[i]);
  accumulate(count, a, b, acc);
  for (int i = 0; i < kRows; ++i) std::copy_n(acc[i], kCols, to.data + i * to.stride);
}

void scaled_scalar(const SegmentRun& run, TileIn from, TileOut to) {
  add_scaled<float>(run, from, to);
}

void dot_scaled_scalar(const SegmentRun& run, TileIn from, TileOut to) {
  add_scaled<uint32_t>(run, from, to);
}

void dot_scalar(const SegmentRun& run, int32_t* sums) {
  for (int64_t s = 0; s < run.segments; ++s) {
    const Sums<uint32_t> segment(run, s);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) {
        int32_t& to = sums[i * kCols + j];
        to = static_cast<int32_t>(static_cast<uint32_t>(to) + segment.at[i][j]);
      }
  }
}

}  // namespace ng::cpu
