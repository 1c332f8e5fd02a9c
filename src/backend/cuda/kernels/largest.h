// The largest magnitude of values that threads go over, and of what an operation stores. The same
// bits in every order, for the largest of bit patterns has none.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/values.h"

namespace ng::cuda {

/// The largest of a warp, or of each `lanes` of it, a power of two; in each lane.
__device__ inline uint32_t largest_bits_of_warp(uint32_t x, int lanes = kWarp) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(~0u, x, distance);
    x = x < other ? other : x;
  }
  return x;
}

/// Largest magnitude of some values, and whether one is NaN.
struct Largest {
  uint32_t bits = 0;
  bool has_nan = false;
  __device__ void take(float x) {
    const uint32_t magnitude = float_bits(x) & 0x7FFFFFFFu;
    if (magnitude > kFloatInf)
      has_nan = true;
    else if (magnitude > bits)
      bits = magnitude;
  }
};

/// Where what an operation stores leaves its largest magnitude; null: nowhere.
struct AmaxPlace {
  StoredAmax* amax = nullptr;
  bool is_bf16 = false;  ///< stored so: rounded, as the largest of what is not rounded is

  /// That of the values of a warp's lanes.
  __device__ void put(const Largest& of_lane, int lane) const {
    if (amax == nullptr) return;
    uint32_t bits = largest_bits_of_warp(of_lane.bits);
    const bool has_nan = __any_sync(~0u, of_lane.has_nan);
    if (lane != 0) return;
    if (is_bf16) bits = float_bits(round_to_bf16(float_of_bits(bits)));
    raise(amax->value, bits);
    raise(amax->or_infinite, has_nan ? kFloatInf : bits);
  }

 private:
  // Most warps find that a larger one was there: they need no turn at the one address.
  __device__ static void raise(float& largest, uint32_t bits) {
    if (bits > float_bits(largest)) atomicMax(reinterpret_cast<uint32_t*>(&largest), bits);
  }
};

struct ClearAmax {
  StoredAmax* amax;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { *amax = {}; }
};

/// Of the values that go to `y`, which forgets what was there.
[[nodiscard]] inline AmaxPlace amax_place(Stream stream, const Target& y, StoredAmax* amax) {
  if (amax != nullptr) for_each_place(stream, 1, 1, ClearAmax{amax});
  return {amax, y.is_bf16};
}

// ---------------------------------------------------------------- a thread for several values

/// What is written at a place of one or two outputs, before it is rounded.
template <int kOutputs>
struct Written {
  float values[kOutputs];
};
template <int kOutputs>
struct AmaxPlaces {
  AmaxPlace of[kOutputs];
  [[nodiscard]] bool are_wanted() const {
    for (const AmaxPlace& place : of)
      if (place.amax != nullptr) return true;
    return false;
  }
};

inline constexpr int kNotedPerThread = 8;

template <int kOutputs, class F>
__global__ void __launch_bounds__(kEachThreads)
    each_noted(F f, int64_t size, Divisor cols, AmaxPlaces<kOutputs> places) {
  Largest largest[kOutputs];
  const int64_t first = int64_t{blockIdx.x} * kEachThreads * kNotedPerThread + threadIdx.x;
  for (int n = 0; n < kNotedPerThread; ++n) {
    const int64_t i = first + n * kEachThreads;
    if (i >= size) break;
    const auto [row, col] = cols.split(i);
    const Written<kOutputs> written = f(row, col);
    for (int j = 0; j < kOutputs; ++j) largest[j].take(written.values[j]);
  }
  for (int j = 0; j < kOutputs; ++j)
    places.of[j].put(largest[j], static_cast<int>(threadIdx.x) % kWarp);
}

/// f(row, col) of each place, in any order, and the largest of what it says was written there.
template <int kOutputs, class F>
void for_each_noted(Stream stream, int64_t rows, int64_t cols, const F& f,
                    const AmaxPlaces<kOutputs>& places) {
  if (!places.are_wanted()) return for_each_place(stream, rows, cols, f);
  if (rows * cols == 0) return;
  launch<each_noted<kOutputs, F>>(
      stream,
      {.grid = {blocks_of(rows * cols, kEachThreads * kNotedPerThread)}, .block = {kEachThreads}},
      f, rows * cols, Divisor(cols), places);
}

}  // namespace ng::cuda
