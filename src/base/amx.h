// Whether matrix tiles (AMX) are here, allowed and what we take them for.
#pragma once

#include <cstdint>
#include <string_view>

namespace ng {

enum class AmxState : uint8_t {
  absent,   ///< the CPU lacks tiles, or their products of BF16 or int8
  refused,  ///< the system does not let this process use them
  differs,  ///< they sum otherwise than tiles.h defines
  works,
};

/// Asked and tried once in a process, which has the permission to use them afterwards.
[[nodiscard]] AmxState amx_state();

/// "not on this CPU", ...
[[nodiscard]] std::string_view text_of(AmxState state);

}  // namespace ng
