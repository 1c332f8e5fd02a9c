// What bytes between ranks are, for counting.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ng {

enum class Traffic : uint8_t {
  gradients,    ///< elements of gradients, as they are sent
  weights,      ///< elements of weights that their owner has updated
  activations,  ///< of tensor and sequence parallel layers
  scales,       ///< of blocks and tensors of all of these
  control,      ///< amax, losses, norms, counters
  files,        ///< checkpoints, and what ranks tell one another at the start
};
inline constexpr size_t kTrafficKinds = 6;

[[nodiscard]] constexpr std::string_view name_of(Traffic kind) {
  constexpr std::string_view kNames[] = {"gradients", "weights", "activations",
                                         "scales",    "control", "files"};
  return kNames[static_cast<size_t>(kind)];
}

using BytesByTraffic = std::array<uint64_t, kTrafficKinds>;

constexpr void add(BytesByTraffic& sum, const BytesByTraffic& more) {
  for (size_t kind = 0; kind < kTrafficKinds; ++kind) sum[kind] += more[kind];
}
/// Of counters that only grow: what they have counted since they were `before`.
[[nodiscard]] constexpr BytesByTraffic since(const BytesByTraffic& before, BytesByTraffic now) {
  for (size_t kind = 0; kind < kTrafficKinds; ++kind) now[kind] -= before[kind];
  return now;
}

}  // namespace ng
