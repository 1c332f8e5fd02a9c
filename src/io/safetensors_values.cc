// The values of a tensor as numbers.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "format/codec.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"

namespace ng::io {
namespace {

constexpr size_t kPieceValues = size_t{1} << 16;

/// Elements [first, first + out.size()), each through `convert`.
template <class Stored, class Value, class Convert>
void convert_all(const SafetensorsEntry& entry, int64_t first, std::span<Value> out,
                 const Convert& convert) {
  std::vector<Stored> stored(std::min(out.size(), kPieceValues));
  size_t offset = static_cast<size_t>(first) * sizeof(Stored);
  while (!out.empty()) {
    const std::span<Stored> piece = std::span(stored).first(std::min(out.size(), stored.size()));
    entry.read(offset, std::as_writable_bytes(piece));
    std::transform(piece.begin(), piece.end(), out.begin(), convert);
    offset += piece.size_bytes();
    out = out.subspan(piece.size());
  }
}

template <class Stored, class Value>
void cast_all(const SafetensorsEntry& entry, int64_t first, std::span<Value> out) {
  convert_all<Stored>(entry, first, out, [](Stored stored) { return static_cast<Value>(stored); });
}

template <class Value>
void read_integers(const SafetensorsEntry& entry, int64_t first, std::span<Value> out) {
  const Dtype& dtype = find_dtype(entry.dtype, "", entry.name);
  const bool is_signed = dtype.kind == DtypeKind::signed_integer;
  switch (dtype.bits) {
    case 8:
      return is_signed ? cast_all<int8_t>(entry, first, out) : cast_all<uint8_t>(entry, first, out);
    case 16:
      return is_signed ? cast_all<int16_t>(entry, first, out)
                       : cast_all<uint16_t>(entry, first, out);
    case 32:
      return is_signed ? cast_all<int32_t>(entry, first, out)
                       : cast_all<uint32_t>(entry, first, out);
    default:
      return is_signed ? cast_all<int64_t>(entry, first, out)
                       : cast_all<uint64_t>(entry, first, out);
  }
}

bool is_integer(const Dtype& dtype) {
  return dtype.kind == DtypeKind::signed_integer || dtype.kind == DtypeKind::unsigned_integer;
}

[[noreturn]] void refuse_dtype(const SafetensorsEntry& entry, const std::string& remedy) {
  throw Error({.place = entry.file,
               .key = brief(Json(entry.name)),
               .problem = "dtype " + entry.dtype,
               .remedy = remedy});
}

/// Values of the codes of a stored float of 8 or 16 bits; empty where the dtype is none.
std::vector<float> codes_of(const Dtype& dtype) {
  if (dtype.bits != 8 && dtype.bits != 16) return {};  // packed codes, or complex numbers
  for (const ElementFormat& format : element_formats()) {
    if (format.safetensors == dtype.name) return decode_table(format);
  }
  return {};
}

}  // namespace

FloatReader::FloatReader(const SafetensorsEntry& entry) : entry_(&entry) {
  const Dtype& dtype = find_dtype(entry.dtype, "", entry.name);
  if (is_integer(dtype) || dtype.name == "F32" || dtype.name == "F64") return;
  table_ = codes_of(dtype);
  if (table_.empty()) refuse_dtype(entry, "an integer or a float of 8 to 64 bits");
}

void FloatReader::read(int64_t first, std::span<float> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  NG_CHECK(first >= 0 && count <= entry_->elements() - first, first, count, entry_->name);
  if (entry_->dtype == "F32")
    return entry_->read(static_cast<size_t>(first) * sizeof(float), std::as_writable_bytes(out));
  if (entry_->dtype == "F64") return cast_all<double>(*entry_, first, out);
  if (table_.empty()) return read_integers(*entry_, first, out);
  const auto value_of = [&](auto code) { return table_[code]; };
  if (table_.size() > 256) return convert_all<uint16_t>(*entry_, first, out, value_of);
  convert_all<uint8_t>(*entry_, first, out, value_of);
}

std::vector<float> to_floats(const SafetensorsEntry& entry) {
  std::vector<float> values(static_cast<size_t>(entry.elements()));
  FloatReader(entry).read(0, values);
  return values;
}

std::vector<int64_t> to_integers(const SafetensorsEntry& entry) {
  const Dtype& dtype = find_dtype(entry.dtype, "", entry.name);
  if (!is_integer(dtype) || dtype.name == "U64")
    refuse_dtype(entry, "U8 I8 U16 I16 U32 I32 or I64");
  std::vector<int64_t> values(static_cast<size_t>(entry.elements()));
  read_integers<int64_t>(entry, 0, values);
  return values;
}

}  // namespace ng::io
