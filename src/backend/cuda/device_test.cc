// The emulated device does what the language says.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "backend/cuda/words.h"

namespace ng::cuda {
namespace {

using emulated::Device;

constexpr uint32_t kEveryLane = ~0u;

__global__ void indices(int* y) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  y[block * (blockDim.x * blockDim.y * blockDim.z) + thread] +=
      static_cast<int>(block * 1000 + thread);
}

TEST(CudaDevice, RunsEachThreadOfEachBlockOnce) {
  for (const uint64_t order : {0, 1, 2}) {
    Device device(card_of(80), order);
    std::vector<int> y(24 * 30);
    launch<indices>(&device, {.grid = {2, 3, 4}, .block = {5, 3, 2}}, y.data());
    for (int i = 0; i < 24 * 30; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], i / 30 * 1000 + i % 30);
  }
}

struct Lanes {
  int from, by_xor, up, down;
  unsigned ballot, partial;
  bool any, all;
  double wide;
};

__global__ void warp_words(Lanes* y) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Lanes& mine = y[threadIdx.x];
  const int value = static_cast<int>(threadIdx.x) * 10;
  mine.from = __shfl_sync(kEveryLane, value, lane * 7);
  mine.by_xor = __shfl_xor_sync(kEveryLane, value, 5);
  mine.up = __shfl_up_sync(kEveryLane, value, 3);
  mine.down = __shfl_down_sync(kEveryLane, value, 3);
  mine.ballot = __ballot_sync(kEveryLane, lane % 3 == 0);
  mine.any = __any_sync(kEveryLane, lane == 31 && threadIdx.x > 32);
  mine.all = __all_sync(kEveryLane, lane < 32);
  mine.wide = __shfl_xor_sync(kEveryLane, value * 0x1p-40, 16);
  mine.partial = 0;
  if (lane % 2 == 1) mine.partial = __ballot_sync(0xAAAAAAAAu, lane > 15);
}

TEST(CudaDevice, ShufflesAndVotes) {
  for (const uint64_t order : {0, 1, 2, 3}) {
    Device device(card_of(90), order);
    std::vector<Lanes> y(64);
    launch<warp_words>(&device, {.block = {64}}, y.data());
    for (int t = 0; t < 64; ++t) {
      const Lanes& got = y[static_cast<size_t>(t)];
      const int lane = t % 32, first = t - lane;
      EXPECT_EQ(got.from, (first + lane * 7 % 32) * 10);
      EXPECT_EQ(got.by_xor, (first + (lane ^ 5)) * 10);
      EXPECT_EQ(got.up, (lane < 3 ? t : t - 3) * 10);
      EXPECT_EQ(got.down, (lane > 28 ? t : t + 3) * 10);
      EXPECT_EQ(got.ballot, 0x49249249u);
      EXPECT_EQ(got.any, t >= 32);
      EXPECT_TRUE(got.all);
      EXPECT_EQ(got.wide, (t ^ 16) * 10 * 0x1p-40);
      EXPECT_EQ(got.partial, lane % 2 == 1 ? 0xAAAA0000u : 0u);
    }
  }
}

/// Inclusive sums of a block by doubling; shared memory of the launch.
__global__ void prefix_sums(const int* x, int* y) {
  NG_SHARED_DYNAMIC(int, sums);
  const int i = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  const int at = static_cast<int>(blockIdx.x) * n + i;
  sums[i] = x[at];
  for (int step = 1; step < n; step *= 2) {
    __syncthreads();
    const int other = i >= step ? sums[i - step] : 0;
    __syncthreads();
    sums[i] += other;
  }
  y[at] = sums[i];
}

TEST(CudaDevice, BarriersPutWritesBeforeReads) {
  constexpr int kBlock = 100, kBlocks = 7;
  std::vector<int> x(kBlock * kBlocks), y(x.size());
  std::iota(x.begin(), x.end(), 1);
  for (const uint64_t order : {0, 1, 2, 3, 4}) {
    Device device(card_of(90), order);
    launch<prefix_sums>(&device,
                        {.grid = {kBlocks}, .block = {kBlock}, .shared = kBlock * sizeof(int)},
                        x.data(), y.data());
    for (int b = 0; b < kBlocks; ++b)
      for (int i = 0, sum = 0; i < kBlock; ++i)
        EXPECT_EQ(y[static_cast<size_t>(b * kBlock + i)], sum += b * kBlock + i + 1);
  }
}

__global__ void take_tickets(unsigned* next, unsigned* ticket) {
  ticket[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(next, 1u);
}

std::vector<unsigned> tickets(uint64_t order) {
  std::vector<unsigned> ticket(4 * 64);
  unsigned next = 0;
  Device device(card_of(90), order);
  launch<take_tickets>(&device, {.grid = {4}, .block = {64}}, &next, ticket.data());
  EXPECT_EQ(std::set<unsigned>(ticket.begin(), ticket.end()).size(), ticket.size());
  return ticket;
}

TEST(CudaDevice, TheSeedDrawsTheOrderOfBlocksAndThreads) {
  std::vector<unsigned> in_turn(4 * 64);
  std::iota(in_turn.begin(), in_turn.end(), 0u);
  EXPECT_EQ(tickets(0), in_turn);
  EXPECT_EQ(tickets(1), tickets(1));
  const std::vector<unsigned> drawn = tickets(1);
  for (size_t warp = 0; warp < drawn.size(); warp += 32)  // the lanes of each too
    EXPECT_FALSE(std::is_sorted(&drawn[warp], &drawn[warp] + 32)) << warp;
  std::set<std::vector<unsigned>> orders;
  for (uint64_t order = 0; order < 8; ++order) orders.insert(tickets(order));
  EXPECT_EQ(orders.size(), 8u);
}

__global__ void atomics(unsigned* u, int* i, unsigned long long* wide) {
  const unsigned t = threadIdx.x;
  atomicMax(&u[0], t);
  atomicMin(&u[1], t);
  atomicOr(&u[2], 1u << t);
  atomicAnd(&u[3], ~(1u << t));
  atomicMin(i, -static_cast<int>(t));
  atomicAdd(wide, 1ull << 33);
  atomicExch(&u[4], t);
  while (true) {  // u[5] counts by compare and swap
    const unsigned seen = u[5];
    if (atomicCAS(&u[5], seen, seen + 2) == seen) break;
  }
}

TEST(CudaDevice, AtomicsOfIntegers) {
  for (const uint64_t order : {0, 5}) {
    std::vector<unsigned> u{0, 99, 0, ~0u, 77, 0};
    int i = 0;
    unsigned long long wide = 0;
    Device device(card_of(90), order);
    launch<atomics>(&device, {.block = {32}}, u.data(), &i, &wide);
    EXPECT_LT(u[4], 32u);
    u[4] = 0;
    EXPECT_EQ(u, (std::vector<unsigned>{31, 0, ~0u, 0, 0, 64}));
    EXPECT_EQ(i, -31);
    EXPECT_EQ(wide, 32ull << 33);
  }
}

}  // namespace
}  // namespace ng::cuda
