// What tests leave out under sanitizers, which take ten times as long.
#pragma once

#include <cstdint>
#include <vector>

#include "base/isa.h"

namespace ng {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NG_ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define NG_ADDRESS_SANITIZER
#endif

#ifdef NG_ADDRESS_SANITIZER
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// The step through values of which all are tried: sanitizers look for accesses out of bounds, not
/// for values. Odd, so that the lowest bits take every value.
inline constexpr uint32_t kValueStep = kSanitized ? 31 : 1;

/// Whether the next case of a grid is left out: under sanitizers seven of eight are, drawn by their
/// number, so that no inner loop of eight keeps always the same.
inline bool is_left_out() {
  static uint32_t number = 0;
  constexpr uint32_t kGolden = 0x9E3779B9u;
  return kSanitized && ++number * kGolden >> 29 != 0;
}

/// The instruction sets that kernels which do not multiply are tried on: the strongest of each kind
/// of vectors, for the others have the same such kernels.
inline std::vector<Isa> tested_isas() {
  const auto vectors_of = [](Isa isa) {
    return (isa >= Isa::avx2 ? 1 : 0) + (isa >= Isa::avx512 ? 1 : 0);
  };
  std::vector<Isa> strongest;
  for (const Isa isa : supported_isas()) {
    if (!strongest.empty() && vectors_of(strongest.back()) == vectors_of(isa))
      strongest.back() = isa;
    else
      strongest.push_back(isa);
  }
  return strongest;
}

}  // namespace ng
