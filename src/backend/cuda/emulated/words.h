// The words of words.h on the emulated device.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "backend/cuda/emulated/block.h"
#include "backend/cuda/emulated/device.h"

#define __global__
#define __device__
#define __launch_bounds__(...)
#define NG_UNROLL
#define NG_ROLLED
#define threadIdx (::ng::cuda::emulated::running.thread->index)
#define blockIdx (::ng::cuda::emulated::running.block->index())
#define blockDim (::ng::cuda::emulated::running.block->shape().block)
#define gridDim (::ng::cuda::emulated::running.block->shape().grid)

// The address of `name_key` tells one array from another, also in the kernels of a template.
#define NG_SHARED(T, name, count)             \
  static const char name##_key = 0;           \
  const ::ng::cuda::emulated::Shared<T> name( \
      ::ng::cuda::emulated::running.block->declared(&name##_key, #name, count, sizeof(T)))
#define NG_SHARED_DYNAMIC(T, name)            \
  const ::ng::cuda::emulated::Shared<T> name( \
      ::ng::cuda::emulated::running.block->dynamic(#name, sizeof(T)))

namespace ng::cuda {

/// Null: operations look at what they are given and launch nothing.
using Stream = emulated::Device*;

namespace emulated {
/// "scale<4>" of what g++ calls "... [with auto kKernel = ng::cuda::{anonymous}::scale<4>; ..." and
/// clang "... [kKernel = &ng::cuda::(anonymous namespace)::scale, Args = ...".
constexpr std::string_view kernel_name(std::string_view function) {
  constexpr std::string_view kBefore = "kKernel = ";
  const size_t begin = function.find(kBefore);
  if (begin == std::string_view::npos) return "kernel";
  std::string_view name = function.substr(begin + kBefore.size());
  name = name.substr(0, std::min({name.find(';'), name.find(", Args"), name.find(']')}));
  const size_t scope = name.substr(0, name.find('<')).rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}
}  // namespace emulated

/// Of void(args...).
template <auto kKernel, class... Args>
void launch(Stream stream, const LaunchShape& shape, Args... args) {
  if (stream == nullptr) return;
  stream->launch(emulated::kernel_name(__PRETTY_FUNCTION__), shape,
                 [args...] { kKernel(args...); });
}

// ---------------------------------------------------------------- barriers, shuffles, votes

/// A card has these of numbers of 4 and 8 bytes.
template <class T>
concept Shuffled = std::is_arithmetic_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

#define NG_PLACE int line = __builtin_LINE(), const char *file = __builtin_FILE()

inline void __syncthreads(NG_PLACE) { emulated::running.block->sync_threads({line, file}); }

inline void __syncwarp(uint32_t mask = ~0u, NG_PLACE) {
  emulated::running.block->meet(
      {.what = emulated::Together::sync, .mask = mask, .place = {line, file}});
}

namespace emulated {
template <Shuffled T>
T shuffled(uint32_t mask, T value, int source, const Place& place) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = running.block->meet(
      {.what = Together::shuffle, .mask = mask, .place = place, .value = bits, .source = source});
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int this_lane() { return running.thread->lane(); }
}  // namespace emulated

template <Shuffled T>
T __shfl_sync(uint32_t mask, T value, int source, NG_PLACE) {
  return emulated::shuffled(mask, value, source % kWarp, {line, file});
}
template <Shuffled T>
T __shfl_xor_sync(uint32_t mask, T value, int distance, NG_PLACE) {
  return emulated::shuffled(mask, value, (emulated::this_lane() ^ distance) % kWarp, {line, file});
}
/// Lanes without one that far below keep their own value.
template <Shuffled T>
T __shfl_up_sync(uint32_t mask, T value, int distance, NG_PLACE) {
  const int lane = emulated::this_lane();
  return emulated::shuffled(mask, value, lane < distance ? lane : lane - distance, {line, file});
}
/// Lanes without one that far above keep their own value.
template <Shuffled T>
T __shfl_down_sync(uint32_t mask, T value, int distance, NG_PLACE) {
  const int lane = emulated::this_lane();
  const int source = lane + distance < kWarp ? lane + distance : lane;
  return emulated::shuffled(mask, value, source, {line, file});
}

inline uint32_t __ballot_sync(uint32_t mask, bool vote, NG_PLACE) {
  return static_cast<uint32_t>(emulated::running.block->meet({.what = emulated::Together::ballot,
                                                              .mask = mask,
                                                              .place = {line, file},
                                                              .value = vote ? 1u : 0u}));
}
inline bool __any_sync(uint32_t mask, bool vote, NG_PLACE) {
  return __ballot_sync(mask, vote, line, file) != 0;
}
inline bool __all_sync(uint32_t mask, bool vote, NG_PLACE) {
  return __ballot_sync(mask, !vote, line, file) == 0;
}

#undef NG_PLACE

// ---------------------------------------------------------------- atomics

/// What a card's atomics take. Those of float and double are not among them: their order, and with
/// it the sum, is another each time.
template <class T>
concept Atomic =
    std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;
template <class T>
using Same = std::type_identity_t<T>;
/// Of a T*, or of &tile[i] in shared memory.
template <class Place>
using WordAt = std::remove_reference_t<decltype(*std::declval<Place>())>;

template <class Place, Atomic T = WordAt<Place>>
T atomicExch(Place place, Same<T> value) {
  return std::exchange(*place, value);
}
template <class Place, Atomic T = WordAt<Place>>
T atomicCAS(Place place, Same<T> expected, Same<T> value) {
  T& word = *place;
  return std::exchange(word, word == expected ? value : word);
}
template <class Place, Atomic T = WordAt<Place>>
T atomicAdd(Place place, Same<T> value) {
  using Wraps = std::make_unsigned_t<T>;
  T& word = *place;
  return std::exchange(word, static_cast<T>(static_cast<Wraps>(word) + static_cast<Wraps>(value)));
}
template <class Place, Atomic T = WordAt<Place>>
T atomicMin(Place place, Same<T> value) {
  T& word = *place;
  return std::exchange(word, std::min(word, value));
}
template <class Place, Atomic T = WordAt<Place>>
T atomicMax(Place place, Same<T> value) {
  T& word = *place;
  return std::exchange(word, std::max(word, value));
}
template <class Place, Atomic T = WordAt<Place>>
T atomicAnd(Place place, Same<T> value) {
  T& word = *place;
  return std::exchange(word, word & value);
}
template <class Place, Atomic T = WordAt<Place>>
T atomicOr(Place place, Same<T> value) {
  T& word = *place;
  return std::exchange(word, word | value);
}

}  // namespace ng::cuda
