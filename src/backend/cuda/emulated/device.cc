#include "backend/cuda/emulated/device.h"

#include <fmt/format.h>

#include <bit>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/block.h"
#include "backend/cuda/emulated/fibers.h"
#include "base/error.h"

namespace ng::cuda::emulated {
namespace {

/// Who comes next, from a seed; without one, in turn.
class Order {
 public:
  explicit Order(uint64_t seed) : in_turn_(seed == 0), random_(seed) {}
  template <class T>
  void shuffle(std::vector<T>& all) {
    for (size_t i = in_turn_ ? 0 : all.size(); i > 1; --i) std::swap(all[i - 1], all[below(i)]);
  }
  /// 0 without a seed.
  size_t below(size_t count) { return in_turn_ ? 0 : random_() % count; }

 private:
  bool in_turn_;
  std::mt19937_64 random_;
};

void check_within(std::string_view kernel, const char* what, const Dim3& size, const Dim3& most,
                  const Card& card) {
  if (size.count() == 0 || size.x > most.x || size.y > most.y || size.z > most.z)
    throw Fault(fmt::format("{}: launched with a {} of {} x {} x {}, {} takes 1 to {} x {} x {}",
                            kernel, what, size.x, size.y, size.z, card.name, most.x, most.y,
                            most.z));
}

void check_launch(std::string_view kernel, const LaunchShape& shape, const Card& card) {
  check_within(kernel, "block", shape.block, kLargestBlock, card);
  check_within(kernel, "grid", shape.grid, kLargestGrid, card);
  if (shape.block.count() > kThreadsPerBlock)
    throw Fault(fmt::format("{}: launched with {} threads a block, {} takes {}", kernel,
                            shape.block.count(), card.name, kThreadsPerBlock));
  if (shape.shared > card.shared_per_block)
    throw Fault(fmt::format("{}: launched with {} bytes of shared memory, {} has {} for a block",
                            kernel, shape.shared, card.name, card.shared_per_block));
}

/// Sets `running` while a block runs; what ran before goes on after it.
class Runs {
 public:
  explicit Runs(Block& block) : before_(std::exchange(running, {&block, nullptr})) {}
  ~Runs() { running = before_; }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

 private:
  Running before_;
};

/// Resumes each ready lane of a warp once.
void run_lanes(Block& block, int warp, Fibers& fibers, Order& order) {
  std::vector<int> lanes;
  for (uint32_t ready = block.ready(warp); ready != 0; ready &= ready - 1)
    lanes.push_back(std::countr_zero(ready));
  order.shuffle(lanes);
  for (const int lane : lanes) {
    const int rank = warp * kWarp + lane;
    running.thread = &block.thread(rank);
    fibers.resume(static_cast<size_t>(rank));
  }
}

void run_block(Block& block, Fibers& fibers, Order& order) {
  const Runs runs(block);
  std::vector<int> warps(static_cast<size_t>(block.warps()));
  std::iota(warps.begin(), warps.end(), 0);
  // How long a warp goes on alone: one turn, some, or as far as it can.
  const size_t patience = order.below(3);
  while (!block.all_ended()) {
    order.shuffle(warps);
    bool moved = false;
    for (const int warp : warps) {
      while (block.ready(warp) != 0) {
        run_lanes(block, warp, fibers, order);
        moved = true;
        if (patience == 0 || (patience == 1 && order.below(2) == 0)) break;
      }
    }
    if (!moved) throw block.stuck();
  }
}

}  // namespace

Device::Device(const Card& card, uint64_t thread_order, const Memory* memory)
    : card_(card),
      thread_order_(thread_order),
      memory_(memory),
      fibers_(std::make_unique<Fibers>()) {}

Device::~Device() = default;

void Device::launch(std::string_view kernel, const LaunchShape& shape,
                    const std::function<void()>& body) {
  check_launch(kernel, shape, card_);
  call([this, kernel, shape, body] { run(kernel, shape, body); });
}

void Device::call(const std::function<void()>& work) {
  if (captured_ == nullptr) return work();
  captured_->push_back(work);
}

void Device::begin_capture() {
  NG_CHECK(captured_ == nullptr);
  captured_ = std::make_unique<std::vector<std::function<void()>>>();
}

std::vector<std::function<void()>> Device::end_capture() {
  NG_CHECK(captured_ != nullptr);
  return std::move(*std::exchange(captured_, nullptr));
}

void Device::run(std::string_view kernel, const LaunchShape& shape,
                 const std::function<void()>& body) {
  const uint64_t launch = launches_++;
  Order order(thread_order_ == 0 ? 0 : thread_order_ + (launch << 32));
  Block block(kernel, shape, card_, [this] { fibers_->suspend(); });
  const std::function<void()> thread = [&] {
    body();
    running.block->end_thread();
  };
  std::vector<int64_t> blocks(static_cast<size_t>(shape.grid.count()));
  std::iota(blocks.begin(), blocks.end(), 0);
  order.shuffle(blocks);
  const Dim3 grid = shape.grid;
  const Memory::Reach reach(memory_);
  try {
    for (const int64_t b : blocks) {
      block.begin({static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                   static_cast<unsigned>(b / grid.x / grid.y)});
      fibers_->start(static_cast<size_t>(shape.block.count()), thread);
      run_block(block, *fibers_, order);
    }
  } catch (...) {
    fibers_->drop();
    throw;
  }
}

}  // namespace ng::cuda::emulated
