// What GGUF says of each token. [llama.cpp include/llama.h: enum llama_token_type]
#pragma once

#include <cstdint>

namespace ng {

enum GgufTokenType : int32_t {
  kNormalToken = 1,
  kUnknownToken,
  kControlToken,      ///< a special token
  kUserDefinedToken,  ///< added, but not special
  kUnusedToken,       ///< an id without a token
  kByteToken          ///< "<0x0A>"
};

}  // namespace ng
