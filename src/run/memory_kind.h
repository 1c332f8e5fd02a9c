// What memory is for: the rows of the memory table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ng {

enum class MemoryKind : uint8_t {
  weights,  ///< carries included
  master,
  moments,
  reference,  ///< weights of a model that is only evaluated, beside the one that is trained
  gradients,
  activations,
  operands,
  logits,
  cache,
  state,
  scratch,
};
constexpr size_t kMemoryKinds = 11;

[[nodiscard]] constexpr std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, kMemoryKinds> kNames = {
      "weights",  "master", "moments", "reference", "gradients", "activations",
      "operands", "logits", "cache",   "state",     "scratch"};
  return kNames[static_cast<size_t>(kind)];
}

/// Bytes per kind.
using MemoryByKind = std::array<size_t, kMemoryKinds>;

}  // namespace ng
