// Kernels with a fault each, and what the emulated device says of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cuda/words.h"

namespace ng::cuda {
namespace {

using emulated::Device;
using emulated::Fault;

constexpr uint32_t kAll = ~0u;

/// What is said of a launch; empty where nothing is wrong.
template <auto kKernel, class... Args>
std::string said(const LaunchShape& shape, Args... args) {
  std::string first;
  for (const uint64_t order : {0, 1, 2, 3}) {  // caught whatever the order
    Device device(card_of(90), order);
    std::string text;
    try {
      launch<kKernel>(&device, shape, args...);
    } catch (const Fault& fault) {
      text = fault.what();
    }
    if (order == 0) first = text;
    EXPECT_EQ(text.empty(), first.empty()) << "in order " << order << ": " << text;
  }
  return first;
}

void expect_said(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" lacks \"" << part << "\"";
}

// ---------------------------------------------------------------- barriers

/// y = x, the elements of a block in reverse.
template <bool kBarrier>
__global__ void reverse(const int* x, int* y) {
  NG_SHARED(int, tile, 256);
  const int i = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  tile[i] = x[i];
  if constexpr (kBarrier) __syncthreads();
  y[i] = tile[n - 1 - i];
}

TEST(CudaFaults, AMissingBarrierIsNamedWithElementAndThread) {
  std::vector<int> x(256), y(256);
  EXPECT_EQ(said<reverse<true>>({.block = {256}}, x.data(), y.data()), "");
  const std::string text = said<reverse<false>>({.block = {256}}, x.data(), y.data());
  EXPECT_EQ(text.find("reverse"), 0u) << text;
  expect_said(text, ": block (0, 0, 0), thread (0, 0, 0): shared memory: tile[255]");
}

/// The second write of each row comes while others still read the first.
template <bool kBarrier>
__global__ void twice(int* y) {
  NG_SHARED(int, tile, 64);
  const int i = static_cast<int>(threadIdx.x);
  for (int round = 0; round < 2; ++round) {
    tile[i] = round;
    __syncthreads();
    y[i] += tile[63 - i];
    if constexpr (kBarrier) __syncthreads();
  }
}

TEST(CudaFaults, AMissingBarrierBetweenReadingAndWritingAgainIsCaught) {
  std::vector<int> y(64);
  EXPECT_EQ(said<twice<true>>({.block = {64}}, y.data()), "");
  expect_said(said<twice<false>>({.block = {64}}, y.data()), "no barrier between");
}

/// Neighbours of a warp exchange by shared memory; a shuffle orders no memory, __syncwarp does.
template <bool kSync>
__global__ void swap_neighbours(int* y) {
  NG_SHARED(int, tile, 32);
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = i;
  if constexpr (kSync)
    __syncwarp();
  else
    __shfl_xor_sync(kAll, i, 1);
  y[i] = tile[i ^ 1];
}

TEST(CudaFaults, AShuffleIsNoBarrierOfMemory) {
  std::vector<int> y(32);
  EXPECT_EQ(said<swap_neighbours<true>>({.block = {32}}, y.data()), "");
  expect_said(said<swap_neighbours<false>>({.block = {32}}, y.data()), "tile[");
}

/// __syncwarp orders a warp, not the block.
__global__ void across_warps(int* y) {
  NG_SHARED(int, tile, 64);
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = i;
  __syncwarp();
  y[i] = tile[i ^ 32];
}

TEST(CudaFaults, ABarrierOfWarpsIsNoneOfTheBlock) {
  std::vector<int> y(64);
  EXPECT_NE(said<across_warps>({.block = {64}}, y.data()), "");
}

/// The exchange goes through memory of the card, which is not watched: seeds tell.
__global__ void reverse_in_place(int* x) {
  const int i = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  const int value = x[n - 1 - i];
  x[i] = value;
}

TEST(CudaFaults, AMissingBarrierOfCardMemoryDependsOnTheOrder) {
  const auto reversed = [](uint64_t order) {
    std::vector<int> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int>(i);
    Device device(card_of(90), order);
    launch<reverse_in_place>(&device, {.block = {256}}, x.data());
    return x;
  };
  EXPECT_EQ(reversed(1), reversed(1));
  EXPECT_NE(reversed(1), reversed(2));
}

__global__ void barrier_of_some() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void barrier_of_others() {
  if (threadIdx.x >= 40) __syncthreads();
}
__global__ void barriers_of_two_lines() {
  if (threadIdx.x < 40) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void barrier_and_shuffle() {
  if (threadIdx.x % 32 == 0) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

TEST(CudaFaults, ABarrierThatNotAllReachIsCaught) {
  expect_said(said<barrier_of_some>({.block = {64}}),
              "ends, and thread 0 waits at faults_test.cc:");
  expect_said(said<barrier_of_others>({.block = {64}}), ", which 40 threads ended without");
  expect_said(said<barriers_of_two_lines>({.block = {64}}), "waits at faults_test.cc:");
  expect_said(said<barrier_and_shuffle>({.block = {64}}), "no thread can go on, thread 0 waits at");
}

// ---------------------------------------------------------------- shared memory

__global__ void write_at(int index, int* y) {
  NG_SHARED(int, row, 100);
  row[index] = 1;
  y[0] = row[index];
}
__global__ void write_launched_at(int index) {
  NG_SHARED_DYNAMIC(float, row);
  row[index] = 1;
}
__global__ void read_unwritten(int* y) {
  NG_SHARED(int, row, 100);
  y[0] = row[3];
}
template <int kInts>
__global__ void declare() {
  NG_SHARED(int, row, kInts);
  row[0] = 1;
}

TEST(CudaFaults, AnIndexOutsideSharedMemoryIsCaught) {
  int y = 0;
  EXPECT_EQ(said<write_at>({}, 99, &y), "");
  expect_said(said<write_at>({}, 100, &y), "shared memory: row[100] of 100 elements");
  expect_said(said<write_at>({}, -1, &y), "shared memory: row[-1] of 100 elements");
  EXPECT_EQ(said<write_launched_at>({.shared = 128}, 31), "");
  expect_said(said<write_launched_at>({.shared = 128}, 32), "row[32] of 32 elements");
  expect_said(said<read_unwritten>({}, &y), "row[3] is read before it was written");
}

TEST(CudaFaults, SharedMemoryBeyondTheCardsIsRefused) {
  EXPECT_EQ(said<declare<12 * 1024>>({}), "");
  expect_said(said<declare<12 * 1024 + 1>>({}), "declares 49156 bytes");
  EXPECT_EQ(said<write_launched_at>({.shared = 227 * 1024}, 0), "");
  expect_said(said<write_launched_at>({.shared = 227 * 1024 + 4}, 0), "sm_90 has 232448");
  expect_said(said<declare<1024>>({.shared = 227 * 1024}), "236544 bytes of shared memory");
}

TEST(CudaFaults, EachCardHasItsOwnLimit) {
  for (const Card& card : cards()) {
    Device device(card);
    launch<write_launched_at>(&device, {.shared = card.shared_per_block}, 0);
    EXPECT_THROW(launch<write_launched_at>(&device, {.shared = card.shared_per_block + 4}, 0),
                 Fault)
        << card.name;
  }
}

// ---------------------------------------------------------------- shuffles

__global__ void shuffle_from(uint32_t mask, int source, int* y) {
  const uint32_t lane = threadIdx.x;
  if ((mask >> lane & 1u) != 0) y[lane] = __shfl_sync(mask, static_cast<int>(lane), source);
}
__global__ void shuffle_without_itself() {
  if (threadIdx.x < 8) __shfl_sync(0x7Fu, 1, 0);
}
__global__ void shuffle_with_two_masks() { __shfl_sync(threadIdx.x < 16 ? kAll : kAll >> 1, 1, 0); }
__global__ void shuffle_from_ended() {
  if (threadIdx.x != 5) __shfl_sync(kAll, 1, 5);
}
__global__ void shuffle_of_some() {
  if (threadIdx.x < 16) {
    __shfl_sync(kAll, 1, 0);
  } else {
    __syncthreads();
  }
}

TEST(CudaFaults, AShuffleOutsideItsMaskIsCaught) {
  std::vector<int> y(32);
  EXPECT_EQ(said<shuffle_from>({.block = {32}}, 0xFFu, 7, y.data()), "");
  EXPECT_EQ(y[3], 7);
  expect_said(said<shuffle_from>({.block = {32}}, 0xFFu, 8, y.data()),
              "takes the value of lane 8, which is not in mask 0xff");
  expect_said(said<shuffle_without_itself>({.block = {32}}), "mask 0x7f lacks lane 7 itself");
  expect_said(said<shuffle_with_two_masks>({.block = {32}}), "with mask 0x7fffffff");
  expect_said(said<shuffle_from_ended>({.block = {32}}), "the value of lane 5, which has ended");
  expect_said(said<shuffle_from_ended>({.block = {4}}), "the value of lane 5, which has ended");
  expect_said(said<shuffle_of_some>({.block = {32}}), "no thread can go on");
}

// ---------------------------------------------------------------- launches, atomics

__global__ void nothing() {}

TEST(CudaFaults, ALaunchBeyondTheCardsLimitsIsRefused) {
  EXPECT_EQ(said<nothing>({.block = {1024}}), "");
  expect_said(said<nothing>({.block = {32, 32, 2}}), "2048 threads a block, sm_90 takes 1024");
  expect_said(said<nothing>({.block = {2048}}), "block of 2048 x 1 x 1");
  expect_said(said<nothing>({.block = {1, 1, 65}}), "block of 1 x 1 x 65");
  expect_said(said<nothing>({.grid = {0}}), "grid of 0 x 1 x 1");
  expect_said(said<nothing>({.grid = {1, 65536}}), "grid of 1 x 65536 x 1");
}

template <class T>
concept HasAtomicAdd = requires(T* place, T value) {
  atomicAdd(place, value);
};
static_assert(HasAtomicAdd<int> && HasAtomicAdd<unsigned> && HasAtomicAdd<unsigned long long>);
static_assert(!HasAtomicAdd<float> && !HasAtomicAdd<double>, "sums need a fixed order");

/// An atomic and a plain write of the same element.
template <bool kPlain>
__global__ void count_in_shared(unsigned* y) {
  NG_SHARED(unsigned, count, 1);
  if (threadIdx.x == 0) count[0] = 0;
  __syncthreads();
  atomicAdd(&count[0], 1u);
  if constexpr (kPlain) count[0] += 1;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = count[0];
}

TEST(CudaFaults, APlainWriteBesideAtomicsIsCaught) {
  std::vector<unsigned> y(3);
  EXPECT_EQ(said<count_in_shared<false>>({.grid = {3}, .block = {96}}, y.data()), "");
  EXPECT_EQ(y, (std::vector<unsigned>{96, 96, 96}));
  expect_said(said<count_in_shared<true>>({.grid = {3}, .block = {96}}, y.data()), "count[0]");
}

__global__ void refuse(int thread) {
  if (static_cast<int>(threadIdx.x) == thread) throw std::bad_alloc();
  __syncthreads();
}

TEST(CudaFaults, ADeviceGoesOnAfterAFault) {
  Device device(card_of(90), 1);
  std::vector<int> x(256, 3), y(256);
  EXPECT_THROW(launch<refuse>(&device, {.block = {256}}, 77), std::bad_alloc);
  launch<reverse<true>>(&device, {.block = {256}}, x.data(), y.data());
  EXPECT_EQ(x, y);
}

}  // namespace
}  // namespace ng::cuda
