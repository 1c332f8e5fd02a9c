// A block of an emulated kernel: where its threads wait for each other, and which may go on.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/card.h"
#include "backend/cuda/emulated/shared_array.h"
#include "base/error.h"

namespace ng::cuda::emulated {

/// What a kernel or a launch did that a card does not allow, or leaves undefined.
class Fault : public InternalError {
  using InternalError::InternalError;
};

/// A line of a kernel.
struct Place {
  int line = 0;
  const char* file = "";
  friend bool operator==(const Place& a, const Place& b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
  }
};

/// What the lanes of a warp do together.
enum class Together : uint8_t { sync, shuffle, ballot, matrices };

/// What a warp does by its matrix units, of which each lane holds a part.
struct WarpWork {
  /// Of lanes 0 ... 31.
  void (*done_by)(const std::array<WarpWork*, kWarp>& lanes) = nullptr;
};

/// A lane's part in it. Lanes meet where mask, place and what they do are the same.
struct Meeting {
  Together what = Together::sync;
  uint32_t mask = 0;
  Place place;
  uint64_t value = 0;        ///< shuffle: given to others; ballot: 0 or 1
  int source = 0;            ///< shuffle: the lane whose value is taken
  WarpWork* work = nullptr;  ///< matrices: its lane's
};

/// A CUDA thread.
struct Thread {
  int rank = 0;  ///< in its block, x fastest
  Dim3 index;
  bool ended = false;
  bool waits = false;  ///< at a barrier of the block
  Meeting meeting;
  uint64_t result = 0;  ///< of the meeting
  /// How often it has met others by __syncwarp, and which of those times of other lanes lie before
  /// what it does now: what orders accesses within a warp.
  uint32_t time = 1;
  std::array<uint32_t, kWarp> known{};

  [[nodiscard]] int warp() const { return rank / kWarp; }
  [[nodiscard]] int lane() const { return rank % kWarp; }
};

class Block {
 public:
  /// `suspend` gives the processor to another thread, and returns when this one goes on.
  Block(std::string_view kernel, const LaunchShape& shape, const Card& card,
        std::function<void()> suspend);

  /// Before another block of the same launch.
  void begin(Dim3 index);

  [[nodiscard]] const Dim3& index() const { return index_; }
  [[nodiscard]] const LaunchShape& shape() const { return shape_; }
  [[nodiscard]] Thread& thread(int rank) { return threads_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int warps() const { return static_cast<int>(ready_.size()); }
  /// Lanes of a warp that do not wait.
  [[nodiscard]] uint32_t ready(int warp) const { return ready_[static_cast<size_t>(warp)]; }
  [[nodiscard]] bool all_ended() const { return ended_ == threads_.size(); }
  [[nodiscard]] uint32_t barriers() const { return barriers_; }

  // What the running thread does.
  void sync_threads(const Place& place);
  /// What the meeting gave this lane: the value shuffled, or the mask of votes.
  uint64_t meet(const Meeting& meeting);
  void end_thread();
  /// Shared memory that the kernel declares, told apart by `key`.
  SharedArray& declared(const void* key, const char* name, size_t count, size_t element);
  /// That of the launch, as elements of `element` bytes.
  SharedArray& dynamic(const char* name, size_t element);

  /// No thread is ready and not all have ended: says where they wait.
  [[nodiscard]] Fault stuck() const;
  /// Of the running thread, named with kernel, block and thread.
  [[nodiscard]] Fault fault(std::string_view what) const;

 private:
  [[nodiscard]] Thread& at_lane(int warp, int lane) { return thread(warp * kWarp + lane); }
  [[nodiscard]] std::string where(const Thread& thread) const;
  void check_meeting(const Thread& me, const Meeting& meeting);
  void release(int warp, const Meeting& meeting);
  void do_work(int warp, const Meeting& meeting);
  void order_by_sync(int warp, uint32_t lanes);

  std::string kernel_;
  LaunchShape shape_;
  const Card& card_;
  std::function<void()> suspend_;
  Dim3 index_;
  std::vector<Thread> threads_;
  std::vector<uint32_t> ready_, alive_;  ///< lanes, by warp
  std::vector<uint32_t> meeting_;        ///< those that wait for others of their warp
  size_t ended_ = 0, waiting_ = 0;
  Thread* first_waiting_ = nullptr;
  Place barrier_;  ///< at which `waiting_` threads wait
  uint32_t barriers_ = 0;
  std::vector<std::unique_ptr<SharedArray>> arrays_;
};

/// Of the thread that runs on this thread of the machine; null: none.
struct Running {
  Block* block = nullptr;
  Thread* thread = nullptr;
};
inline thread_local constinit Running running;

}  // namespace ng::cuda::emulated
