// A warp's matrix units and ldmatrix on the emulated device: which lane holds what, and what it
// refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/words.h"
#include "math/bf16.h"

namespace ng::cuda {
namespace {

using emulated::Device;
using emulated::Fault;

constexpr int kRows = 16, kQuads = 2;  // of a tile of 16 × 16 values

/// By the rules of PTX: y (16 × 8, FP32) = y + a (16 × 16) · b (16 × 8), of which b lies turned
/// where it is read without .trans.
template <bool kTurned>
__global__ void product(const Quad* a, const Quad* b, float* y) {
  NG_SHARED(Quad, tiles, 2 * kRows * kQuads);
  const int lane = static_cast<int>(threadIdx.x);
  tiles[lane] = a[lane];
  tiles[32 + lane] = b[lane];
  __syncwarp();
  uint32_t rows[4], cols[4];
  float sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = y[(lane / 4 + i / 2 * 8) * 8 + 2 * (lane % 4) + i % 2];
  ldmatrix(rows, &tiles[lane % 16 * kQuads + lane / 16]);
  if constexpr (kTurned)
    ldmatrix(cols, &tiles[32 + (lane / 16 * 8 + lane % 8) * kQuads + lane / 8 % 2]);
  else
    ldmatrix_trans(cols, &tiles[32 + lane % 16 * kQuads + lane / 16]);
  mma_bf16(sums, rows, cols[0], cols[1]);
  for (int i = 0; i < 4; ++i) y[(lane / 4 + i / 2 * 8) * 8 + 2 * (lane % 4) + i % 2] = sums[i];
}

/// 16 × 16 small integers, each another in its row and column.
std::vector<Bf16> integers(int seed) {
  std::vector<Bf16> x(16 * 16);
  for (int i = 0; i < 256; ++i)
    x[static_cast<size_t>(i)] =
        to_bf16(static_cast<float>((i * 37 + i / 16 * 11 + seed) % 61 - 30));
  return x;
}

template <bool kTurned>
void expect_product() {
  const std::vector<Bf16> a = integers(1), b = integers(2);
  const auto at = [](const std::vector<Bf16>& x, int r, int c) {
    return widened(x[static_cast<size_t>(r * 16 + c)]);
  };
  for (const uint64_t order : {0, 1, 2}) {
    std::vector<float> y(16 * 8);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i);
    Device device(card_of(80), order);
    launch<product<kTurned>>(&device, {.block = {kWarp}}, reinterpret_cast<const Quad*>(a.data()),
                             reinterpret_cast<const Quad*>(b.data()), y.data());
    for (int r = 0; r < 16; ++r)
      for (int c = 0; c < 8; ++c) {
        float want = static_cast<float>(r * 8 + c);
        for (int k = 0; k < 16; ++k) want += at(a, r, k) * (kTurned ? at(b, c, k) : at(b, k, c));
        EXPECT_EQ(y[static_cast<size_t>(r * 8 + c)], want) << r << ' ' << c;
      }
  }
}

TEST(CudaMatrixWords, MultiplyRowsOfTilesAndTurnedOnes) {
  expect_product<true>();
  expect_product<false>();
}

TEST(CudaMatrixWords, PowersOfTwoAreThoseToTheLastBit) {
  for (const float x : {-140.0f, -3.25f, 0.0f, 0.5f, 100.0f})
    EXPECT_EQ(exp2_approx(x), static_cast<float>(std::exp2(double{x}))) << x;
}

__global__ void by_half_a_warp(float* y) {
  uint32_t a[4] = {};
  float c[4] = {};
  if (threadIdx.x < 16) mma_bf16(c, a, 0, 0);
  y[threadIdx.x] = c[0];
}
__global__ void from_beyond(uint32_t* y) {
  NG_SHARED(Quad, tile, 32);
  tile[static_cast<int>(threadIdx.x)] = {};
  __syncwarp();
  uint32_t r[4];
  ldmatrix(r, &tile[static_cast<int>(threadIdx.x) + 1]);
  y[threadIdx.x] = r[0];
}
__global__ void before_a_barrier(uint32_t* y) {
  NG_SHARED(Quad, tile, 32);
  tile[static_cast<int>(threadIdx.x)] = {};
  uint32_t r[4];
  ldmatrix(r, &tile[static_cast<int>(threadIdx.x)]);
  y[threadIdx.x] = r[0];
}

template <auto kKernel, class T>
std::string fault_of() {
  std::vector<T> y(kWarp);
  Device device(card_of(90), 1);
  try {
    launch<kKernel>(&device, {.block = {kWarp}}, y.data());
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}
void expect_fault_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" lacks \"" << part << "\"";
}

TEST(CudaMatrixWords, WantAllLanesOfAWarp) {
  expect_fault_says(fault_of<by_half_a_warp, float>(),
                    "matrix units without all lanes of the warp");
}

TEST(CudaMatrixWords, ReadSharedMemoryUnderItsRules) {
  expect_fault_says(fault_of<from_beyond, uint32_t>(), "tile[32]");
  expect_fault_says(fault_of<before_a_barrier, uint32_t>(), "no barrier between");
}

}  // namespace
}  // namespace ng::cuda
