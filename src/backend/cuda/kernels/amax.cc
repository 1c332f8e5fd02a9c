#include "backend/cuda/kernels/amax.h"

#include "math/round.h"

namespace ng::cuda {
namespace {

constexpr int kAmaxThreads = 256;
constexpr int kPerThread = 8;
constexpr uint32_t kQuietNan = 0x7FC00000u;  ///< above all finite magnitudes, as bits

__global__ void set_to_zero(uint32_t* bits) { *bits = 0; }

__global__ void __launch_bounds__(kAmaxThreads)
    find_largest(const float* x, int64_t count, uint32_t* amax) {
  NG_SHARED(uint32_t, of_warps, kAmaxThreads / kWarp);
  uint32_t largest = 0;
  const int64_t first = int64_t{blockIdx.x} * kAmaxThreads * kPerThread + threadIdx.x;
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t at = first + i * kAmaxThreads;
    uint32_t bits = at < count ? float_bits(x[at]) & 0x7FFFFFFFu : 0;
    if (bits >= kFloatInf) bits = kQuietNan;
    largest = bits > largest ? bits : largest;
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(~0u, largest, distance);
    largest = other > largest ? other : largest;
  }
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kAmaxThreads / kWarp; ++warp) {
    const uint32_t other = of_warps[warp];
    largest = other > largest ? other : largest;
  }
  atomicMax(amax, largest);
}

}  // namespace

void find_amax(Stream stream, const float* x, int64_t count, float* amax) {
  auto* bits = reinterpret_cast<uint32_t*>(amax);
  launch<set_to_zero>(stream, {}, bits);
  const int64_t blocks = (count + kAmaxThreads * kPerThread - 1) / (kAmaxThreads * kPerThread);
  if (blocks == 0) return;
  launch<find_largest>(stream, {.grid = {static_cast<unsigned>(blocks)}, .block = {kAmaxThreads}},
                       x, count, bits);
}

}  // namespace ng::cuda
