#include "run/arena.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace ng {
namespace {

// Three tensors of which two live at a time, then one as large as both.
void sample_program(Arena& arena, std::vector<float*>* where) {
  const auto note = [&](const Tensor& tensor) {
    if (where != nullptr) where->push_back(tensor.view().data);
  };
  Tensor a = arena.allocate(4, 16, MemoryKind::activations);
  note(a);
  Tensor b = arena.allocate(4, 16, MemoryKind::gradients);
  note(b);
  a = {};
  Tensor c = arena.allocate(2, 16, MemoryKind::activations);
  note(c);
  b = {};
  c = {};
  const Tensor d = arena.allocate(8, 16, MemoryKind::logits);
  note(d);
}

TEST(Arena, OneProgramNeedsItsPeak) {
  Arena arena;
  arena.start_recording();
  sample_program(arena, nullptr);
  const Program program = arena.finish_recording();
  EXPECT_EQ(program.bytes, 512u);
  EXPECT_EQ(program.slots.size(), 4u);
}

TEST(Arena, LiveTensorsNeverOverlapAndReplayTheirPlaces) {
  Arena arena;
  arena.start_recording();
  sample_program(arena, nullptr);
  const Program program = arena.finish_recording();
  for (const auto& a : program.slots)
    for (const auto& b : program.slots)
      if (&a != &b && a.begin < b.end && b.begin < a.end) {
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
  std::vector<std::byte> memory(program.bytes);
  std::vector<float*> first, second;
  for (std::vector<float*>* where : {&first, &second}) {
    arena.start_replay(program, memory.data());
    sample_program(arena, where);
    arena.finish_replay();
  }
  EXPECT_EQ(first, second);
  EXPECT_EQ(reinterpret_cast<std::byte*>(first[0]), memory.data() + program.slots[0].offset);
}

TEST(Arena, ADifferentProgramIsRefused) {
  Arena arena;
  arena.start_recording();
  sample_program(arena, nullptr);
  const Program program = arena.finish_recording();
  std::vector<std::byte> memory(program.bytes);
  arena.start_replay(program, memory.data());
  EXPECT_THROW(static_cast<void>(arena.allocate(5, 16, MemoryKind::activations)), InternalError);
}

TEST(Arena, CopiesKeepATensorAlive) {
  Arena arena;
  arena.start_recording();
  {
    const Tensor a = arena.allocate(1, 16, MemoryKind::activations);
    Tensor copy = a;
    const Tensor moved = std::move(copy);
    EXPECT_FALSE(copy);  // NOLINT(bugprone-use-after-move): a moved-from tensor is empty
    EXPECT_TRUE(moved);
  }
  EXPECT_EQ(arena.finish_recording().slots[0].end, 1);
}

}  // namespace
}  // namespace ng
