#include "run/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/error.h"

namespace ng {
namespace {

// Three tensors of which two live at a time, then one as large as both.
void sample_program(Arena& arena, std::vector<std::byte*>* where) {
  const auto note = [&](const Tensor& tensor) {
    if (where != nullptr) where->push_back(tensor.view().data);
  };
  Tensor a = arena.allocate(4, 16, fp32_format(), MemoryKind::activations);
  note(a);
  Tensor b = arena.allocate(4, 16, fp32_format(), MemoryKind::gradients);
  note(b);
  a = {};
  Tensor c = arena.allocate(2, 16, fp32_format(), MemoryKind::activations);
  note(c);
  b = {};
  c = {};
  const Tensor d = arena.allocate(8, 16, fp32_format(), MemoryKind::logits);
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
  std::vector<std::byte*> first, second;
  for (std::vector<std::byte*>* where : {&first, &second}) {
    arena.start_replay(program, memory.data());
    sample_program(arena, where);
    arena.finish_replay();
  }
  EXPECT_EQ(first, second);
  EXPECT_EQ(first[0], memory.data() + program.slots[0].offset);
}

// Lowest free offset of each slot, the largest first, by comparing all with all.
size_t bytes_by_definition(std::vector<Program::Slot>& slots) {
  std::vector<Program::Slot*> order;
  for (Program::Slot& slot : slots) order.push_back(&slot);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  size_t bytes = 0;
  for (auto slot = order.begin(); slot != order.end(); ++slot) {
    const auto clash = [&](const Program::Slot* other) {
      return (*slot)->begin < other->end && other->begin < (*slot)->end &&
             (*slot)->offset < other->offset + other->bytes &&
             other->offset < (*slot)->offset + (*slot)->bytes;
    };
    (*slot)->offset = 0;
    while (std::any_of(order.begin(), slot, clash)) (*slot)->offset += 64;
    bytes = std::max(bytes, (*slot)->offset + (*slot)->bytes);
  }
  return bytes;
}

TEST(Arena, EverySlotLiesAsLowAsItCan) {
  std::mt19937 draw(1);
  for (int round = 0; round < 200; ++round) {
    Program program;
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t begin = 3 * i;
      program.slots.push_back({.bytes = 64 * (draw() % 6),
                               .begin = begin,
                               .end = begin + 1 + static_cast<int64_t>(draw() % 40)});
    }
    std::vector<Program::Slot> want = program.slots;
    const size_t bytes = bytes_by_definition(want);
    place_slots(program);
    EXPECT_EQ(program.bytes, bytes);
    for (size_t i = 0; i < want.size(); ++i) {
      const size_t offset = want[i].bytes == 0 ? 0 : program.slots[i].offset;
      ASSERT_EQ(offset, want[i].offset) << i;
    }
  }
}

TEST(Arena, ManyMicroBatchesArePlacedAtOnce) {
  constexpr int64_t kMicros = 300'000;  // by comparing all with all: for minutes
  Program program;
  program.slots.push_back({.bytes = 64, .begin = 0, .end = 4 * kMicros});
  for (int64_t i = 0; i < kMicros; ++i) {
    program.slots.push_back({.bytes = 128, .begin = 4 * i + 1, .end = 4 * i + 3});
    program.slots.push_back({.bytes = 64, .begin = 4 * i + 2, .end = 4 * i + 4});
  }
  place_slots(program);
  EXPECT_EQ(program.bytes, 256u);
}

TEST(Arena, ADifferentProgramIsRefused) {
  Arena arena;
  arena.start_recording();
  sample_program(arena, nullptr);
  const Program program = arena.finish_recording();
  std::vector<std::byte> memory(program.bytes);
  arena.start_replay(program, memory.data());
  EXPECT_THROW(static_cast<void>(arena.allocate(5, 16, fp32_format(), MemoryKind::activations)),
               InternalError);
}

TEST(Arena, CopiesKeepATensorAlive) {
  Arena arena;
  arena.start_recording();
  {
    const Tensor a = arena.allocate(1, 16, fp32_format(), MemoryKind::activations);
    Tensor copy = a;
    const Tensor moved = std::move(copy);
    EXPECT_FALSE(copy);  // NOLINT(bugprone-use-after-move): a moved-from tensor is empty
    EXPECT_TRUE(moved);
  }
  EXPECT_EQ(arena.finish_recording().slots[0].end, 1);
}

}  // namespace
}  // namespace ng
