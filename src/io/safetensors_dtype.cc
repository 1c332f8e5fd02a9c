#include "io/safetensors_dtype.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "base/json.h"

namespace ng::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::array kDtypes = {
    Dtype{"F64", 64, DtypeKind::floating},
    Dtype{"F32", 32, DtypeKind::floating},
    Dtype{"F16", 16, DtypeKind::floating},
    Dtype{"BF16", 16, DtypeKind::floating},
    Dtype{"I64", 64, DtypeKind::signed_integer},
    Dtype{"I32", 32, DtypeKind::signed_integer},
    Dtype{"I16", 16, DtypeKind::signed_integer},
    Dtype{"I8", 8, DtypeKind::signed_integer},
    Dtype{"U64", 64, DtypeKind::unsigned_integer},
    Dtype{"U32", 32, DtypeKind::unsigned_integer},
    Dtype{"U16", 16, DtypeKind::unsigned_integer},
    Dtype{"U8", 8, DtypeKind::unsigned_integer},
    Dtype{"BOOL", 8, DtypeKind::other},
    Dtype{"F8_E5M2", 8, DtypeKind::floating},
    Dtype{"F8_E4M3", 8, DtypeKind::floating},
    Dtype{"F8_E8M0", 8, DtypeKind::floating},
    Dtype{"F8_E4M3FNUZ", 8, DtypeKind::floating},
    Dtype{"F8_E5M2FNUZ", 8, DtypeKind::floating},
    Dtype{"F6_E2M3", 6, DtypeKind::floating},
    Dtype{"F6_E3M2", 6, DtypeKind::floating},
    Dtype{"F4", 4, DtypeKind::floating},
    Dtype{"C64", 64, DtypeKind::other},
};

}  // namespace

const Dtype& find_dtype(const std::string& name, const std::string& place, const std::string& key) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const Dtype& dtype) { return dtype.name == name; });
  if (found != kDtypes.end()) return *found;
  std::string known;
  for (const Dtype& dtype : kDtypes) known += fmt::format(" {}", dtype.name);
  throw Error({.place = place,
               .key = key,
               .problem = "unknown dtype " + brief(Json(name)),
               .remedy = known.substr(1)});
}

int64_t bytes_of(const Dtype& dtype, std::span<const int64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t bits = dtype.bits;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bits, size, &bits)) return -1;
  }
  return bits % 8 == 0 ? bits / 8 : -1;
}

}  // namespace ng::io
