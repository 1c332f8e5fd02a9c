#include "backend/cuda/emulated/messages.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/block.h"
#include "base/error.h"

namespace ng::cuda::emulated {
namespace {

using Bytes = std::vector<std::byte>;

/// What is under way between the ranks of a group.
struct Wires {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<Bytes>> from_to;
  std::set<int> ended;
};

/// The wires of a group by their number, for as long as a rank has them.
std::shared_ptr<Wires> wires_of(uint64_t number) {
  static std::mutex mutex;
  static std::map<uint64_t, std::weak_ptr<Wires>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Wires> wires = all[number].lock();
  if (!wires) all[number] = wires = std::make_shared<Wires>();
  return wires;
}

class Messages final : public DeviceMessages {
 public:
  Messages(const Memory& memory, int rank, std::shared_ptr<Wires> wires)
      : memory_(memory), rank_(rank), wires_(std::move(wires)) {}
  ~Messages() override {
    const std::lock_guard lock(wires_->mutex);
    wires_->ended.insert(rank_);
    wires_->changed.notify_all();
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void exchange(std::span<const DeviceMessage> out, std::span<const DeviceMessage> in) override {
    {
      const Memory::Reach reach(&memory_);
      const std::lock_guard lock(wires_->mutex);
      for (const DeviceMessage& m : out)
        wires_->from_to[{rank_, m.rank}].emplace_back(m.bytes, m.bytes + m.size);
    }
    wires_->changed.notify_all();
    for (const DeviceMessage& m : in) {
      const Bytes bytes = taken(m.rank);
      NG_CHECK(bytes.size() == m.size, bytes.size(), m.size);
      if (bytes.empty()) continue;
      const Memory::Reach reach(&memory_);
      std::memcpy(m.bytes, bytes.data(), bytes.size());
    }
  }

 private:
  Bytes taken(int from) {
    std::unique_lock lock(wires_->mutex);
    std::deque<Bytes>& wire = wires_->from_to[{from, rank_}];
    wires_->changed.wait(lock, [&] { return !wire.empty() || wires_->ended.contains(from); });
    if (wire.empty()) throw Fault(fmt::format("messages of rank {}, which has ended", from));
    Bytes bytes = std::move(wire.front());
    wire.pop_front();
    return bytes;
  }

  const Memory& memory_;
  int rank_;
  std::shared_ptr<Wires> wires_;
};

uint64_t new_number() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

std::string new_address() { return fmt::format("emulated {}", new_number()); }

std::unique_ptr<DeviceMessages> make_messages(const Memory& memory, int rank,
                                              const FromFirst& share) {
  uint64_t number = rank == 0 ? new_number() : 0;
  std::shared_ptr<Wires> wires;
  if (rank == 0) wires = wires_of(number);
  share(std::as_writable_bytes(std::span(&number, 1)));
  return std::make_unique<Messages>(memory, rank, wires ? wires : wires_of(number));
}

}  // namespace ng::cuda::emulated
