// Threads and scratch that the operations of the cpu backend share. Taken once, never grown.
#pragma once

#include <cstddef>
#include <span>

#include "base/threads.h"

namespace ng::cpu {

constexpr size_t kWorkerScratchBytes = size_t{4} << 20;   ///< panels and tiles of one worker
constexpr size_t kSharedScratchBytes = size_t{14} << 20;  ///< panels all workers read

class Workspace {
 public:
  explicit Workspace(Threads threads);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  [[nodiscard]] Threads threads() const { return threads_; }
  /// Scratch of one worker of parallel_for, 64-byte aligned.
  [[nodiscard]] std::span<std::byte> worker(int index) const {
    return {memory_ + kSharedScratchBytes + static_cast<size_t>(index) * kWorkerScratchBytes,
            kWorkerScratchBytes};
  }
  /// Scratch shared by all workers of one operation, 64-byte aligned.
  [[nodiscard]] std::span<std::byte> shared() const { return {memory_, kSharedScratchBytes}; }
  [[nodiscard]] size_t bytes() const;

 private:
  Threads threads_;
  std::byte* memory_;
};

}  // namespace ng::cpu
