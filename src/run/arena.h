// Step memory without allocation: a dry run of the same code records every tensor's lifetime, the
// lifetimes give offsets into one block, and each step replays them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "run/memory_kind.h"
#include "tensor/view.h"

namespace ng {

/// The recorded lifetimes of one program (a training step, an evaluation batch, ...) and where each
/// tensor lies in the arena.
struct Program {
  struct Slot {
    size_t bytes = 0;   ///< rounded up to 64
    size_t offset = 0;  ///< into the arena
    int64_t begin = 0;  ///< event count at allocation
    int64_t end = 0;    ///< event count at the last release
    MemoryKind kind = MemoryKind::activations;
  };
  std::vector<Slot> slots;
  size_t bytes = 0;        ///< of arena this program needs
  MemoryByKind at_peak{};  ///< live bytes by kind at the moment when most are live
  MemoryByKind most{};     ///< most bytes of each kind that are ever live
  size_t most_saved = 0;   ///< longest the stack of saved tensors gets
};

/// Gives every slot the lowest offset free during its lifetime, largest slots first. Fills offset,
/// bytes, at_peak and most.
void place_slots(Program& program);

class Arena;

/// Counted reference to a tensor of the running program; the last one to go ends its lifetime.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor other) noexcept;
  ~Tensor();

  [[nodiscard]] explicit operator bool() const { return arena_ != nullptr; }
  [[nodiscard]] View view() const { return view_; }
  // NOLINTNEXTLINE(google-explicit-constructor): a tensor is used like its view
  operator View() const { return view_; }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator ConstView() const { return view_; }
  /// The memory as bytes, for packed operands.
  [[nodiscard]] std::byte* bytes() const { return memory_; }

 private:
  friend class Arena;
  Tensor(Arena* arena, size_t slot, std::byte* memory)
      : arena_(arena), slot_(slot), memory_(memory) {}

  Arena* arena_ = nullptr;
  size_t slot_ = 0;
  std::byte* memory_ = nullptr;
  View view_;  // no rows: untyped memory
};

/// Hands out the memory of one program at a time.
class Arena {
 public:
  /// From now on allocations are recorded; their views must not be dereferenced.
  void start_recording();
  /// The recorded program with offsets. All tensors must be gone.
  [[nodiscard]] Program finish_recording();

  /// From now on allocations come from `base`, in the recorded order. `base` holds program.bytes.
  void start_replay(const Program& program, std::byte* base);
  void finish_replay();
  /// Ends a replay before its program does. All tensors must be gone.
  void abandon_replay() { program_ = nullptr; }
  /// Where the next tensor comes, among those of the program.
  [[nodiscard]] size_t mark() const { return next_; }
  /// All tensors since a mark must be gone; a replay allocates them again.
  void return_to(size_t mark);
  /// Room for programs of up to `slots` tensors, so that replays never allocate.
  void reserve(size_t slots) { references_.reserve(slots); }

  [[nodiscard]] bool recording() const { return recording_; }

  /// (rows, cols) elements, contents undefined, 64-byte aligned.
  [[nodiscard]] Tensor allocate(int64_t rows, int64_t cols, const ElementFormat& element,
                                MemoryKind kind);
  /// `bytes` of untyped memory.
  [[nodiscard]] Tensor allocate_bytes(size_t bytes, MemoryKind kind);

 private:
  friend class Tensor;
  void retain(size_t slot) { ++references_[slot]; }
  void release(size_t slot);

  bool recording_ = false;
  Program recorded_;
  const Program* program_ = nullptr;
  std::byte* base_ = nullptr;
  std::vector<int32_t> references_;
  size_t next_ = 0;
  int64_t clock_ = 0;
};

}  // namespace ng
