// The dtypes of the safetensors format. [safetensors: enum Dtype]
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ng::io {

enum class DtypeKind : uint8_t { floating, unsigned_integer, signed_integer, other };

struct Dtype {
  std::string_view name;
  int64_t bits;
  DtypeKind kind;
};

/// Throws Error at `place`, `key` for a name that the format doesn't have.
[[nodiscard]] const Dtype& find_dtype(const std::string& name, const std::string& place,
                                      const std::string& key);

/// Bytes of a tensor; -1 where they are not whole or don't fit 63 bits. Sizes are not negative.
[[nodiscard]] int64_t bytes_of(const Dtype& dtype, std::span<const int64_t> shape);

}  // namespace ng::io
