// What cards allow of a launch: limits that a kernel meets on a card and nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ng::cuda {

/// Sizes of a grid in blocks or of a block in threads.
struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  [[nodiscard]] int64_t count() const { return int64_t{x} * y * z; }
};

/// How a kernel is launched.
struct LaunchShape {
  Dim3 grid{}, block{};
  size_t shared = 0;  ///< bytes of shared memory beside what the kernel declares
};

/// A kind of card, by its compute capability. [CUDA C++ Programming Guide 13.0, "Technical
/// Specifications per Compute Capability"]
struct Card {
  std::string_view name;
  int sm = 0;
  size_t shared_per_block = 0;  ///< bytes, declared and of the launch, where a kernel opts in
};

inline constexpr int kEmulatedSm = 90;  ///< of an emulated card that nothing more is said of
inline constexpr int64_t kThreadsPerBlock = 1024;
inline constexpr Dim3 kLargestBlock = {1024, 1024, 64};
inline constexpr Dim3 kLargestGrid = {2147483647, 65535, 65535};
inline constexpr size_t kDeclaredShared = 48 * 1024;  ///< bytes that a kernel may declare
inline constexpr int kWarp = 32;

/// Eight values of BF16 side by side: a row of what ldmatrix reads, and what a thread moves at
/// once.
struct alignas(16) Quad {
  uint32_t words[4];
};

/// All of them, oldest first.
[[nodiscard]] std::span<const Card> cards();
/// One of them: 80, 89, 90, 100 or 120.
[[nodiscard]] const Card& card_of(int sm);
/// The newest that is no newer: whose rules hold for 86 or 103 too; 80 or later.
[[nodiscard]] const Card& card_like(int sm);

}  // namespace ng::cuda
