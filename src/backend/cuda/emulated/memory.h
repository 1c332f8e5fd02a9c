// Memory of the emulated card. As with a card's, the host's own code has no access: what reads or
// writes it outside of a launch or a copy ends with SIGSEGV.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace ng::cuda::emulated {

class Memory {
 public:
  /// `managed`: the host's code has access at any time, as to what cudaMallocManaged gives, and
  /// AddressSanitizer sees where an allocation ends.
  explicit Memory(bool managed = false);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] bool is_managed() const { return managed_; }

  /// Zeroed, aligned to 64 bytes; throws Error where there is not enough.
  std::byte* allocate(size_t bytes);
  void release(std::byte* memory);
  /// Written when somebody is next given reach, as late as a card may; managed memory at once. The
  /// number of this one, counted from 1.
  size_t write_later(std::byte* to, const std::byte* from, size_t bytes);
  [[nodiscard]] bool has_written(size_t number) const;

  /// While one of them lives, in any thread, all of it is within reach; null: there is none.
  class Reach {
   public:
    explicit Reach(const Memory* memory) : memory_(memory) {
      if (memory_ != nullptr) memory_->move_reaches(1);
    }
    ~Reach() {
      if (memory_ != nullptr) memory_->move_reaches(-1);
    }
    Reach(const Reach&) = delete;
    Reach& operator=(const Reach&) = delete;

   private:
    const Memory* memory_;
  };

 private:
  struct Write {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };

  void move_reaches(int by) const;
  /// Of all that was ever given out; mutex_ is held.
  void protect(bool in_reach) const;
  /// What waits; mutex_ is held, and all is in reach.
  void write() const;

  bool managed_;
  mutable std::mutex mutex_;
  mutable int reaches_ = 0;
  mutable std::vector<Write> writes_;  ///< that wait
  mutable size_t written_ = 0;

  /// Whole pages, one after another, with room behind the last.
  struct Region {
    size_t begin = 0;
    bool released = false;
  };
  std::byte* pages_ = nullptr;
  std::vector<Region> regions_;
  size_t used_ = 0, most_used_ = 0;
};

}  // namespace ng::cuda::emulated
