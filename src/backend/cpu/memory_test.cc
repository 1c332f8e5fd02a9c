#include "backend/cpu/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace ng::cpu {
namespace {

TEST(Memory, IsZeroedAlignedAndReusable) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, (size_t{1} << 20) - 1,
                             size_t{1} << 20, (size_t{3} << 20) + 5}) {
    for (int again = 0; again < 3; ++again) {
      std::byte* memory = allocate(bytes);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
      EXPECT_TRUE(
          std::all_of(memory, memory + bytes, [](std::byte b) { return b == std::byte{0}; }));
      std::fill_n(memory, bytes, std::byte{0xA5});
      release(memory, bytes);
    }
  }
  release(nullptr, 0);
}

TEST(Memory, SaysWhenThereIsNotEnough) {
  EXPECT_THROW(static_cast<void>(allocate(size_t{1} << 60)), Error);
  EXPECT_THROW(static_cast<void>(allocate(SIZE_MAX)), Error);
}

}  // namespace
}  // namespace ng::cpu
