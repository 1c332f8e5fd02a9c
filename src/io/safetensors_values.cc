// The values of a tensor as numbers.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "format/codec.h"
#include "format/packing.h"
#include "io/gguf/blocks.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "math/round_to_odd.h"

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

/// Values of the codes of a stored float of at most 16 bits; empty where the dtype is none.
std::vector<float> codes_of(const Dtype& dtype) {
  if (dtype.kind != DtypeKind::floating || dtype.bits > 16) return {};
  for (const ElementFormat& format : element_formats()) {
    if (format.safetensors == dtype.name) return decode_table(format);
  }
  return {};
}

/// Null where values are stored one by one.
const GgufTensorType* find_block_type(const std::string& dtype) {
  const GgufTensorType* type = find_gguf_type(dtype);
  return type != nullptr && type->block > 1 ? type : nullptr;
}

}  // namespace

FloatReader::FloatReader(const SafetensorsEntry& entry, FromF64 rounding)
    : entry_(&entry), rounding_(rounding) {
  if (entry.open_values) {
    values_ = entry.open_values();
    return;
  }
  blocks_ = find_block_type(entry.dtype);
  if (blocks_ != nullptr) return;
  const Dtype& dtype = find_dtype(entry.dtype, "", entry.name);
  if (is_integer(dtype) || dtype.name == "F32" || dtype.name == "F64") return;
  table_ = codes_of(dtype);
  code_bits_ = static_cast<int>(dtype.bits);
  if (table_.empty()) refuse_dtype(entry, "an integer or a float of 4 to 64 bits");
}

void FloatReader::read(int64_t first, std::span<float> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  NG_CHECK(first >= 0 && count <= entry_->elements() - first, first, count, entry_->name);
  if (values_) return values_(first, out);
  if (blocks_ != nullptr) return read_blocks(first, out);
  if (entry_->dtype == "F32")
    return entry_->read(static_cast<size_t>(first) * sizeof(float), std::as_writable_bytes(out));
  if (entry_->dtype == "F64" && rounding_ == FromF64::odd)
    return convert_all<double>(*entry_, first, out, rounded_to_odd);
  if (entry_->dtype == "F64") return cast_all<double>(*entry_, first, out);
  if (table_.empty()) return read_integers(*entry_, first, out);
  if (code_bits_ < 8) return read_packed(first, out);
  const auto value_of = [&](auto code) { return table_[code]; };
  if (table_.size() > 256) return convert_all<uint16_t>(*entry_, first, out, value_of);
  convert_all<uint8_t>(*entry_, first, out, value_of);
}

/// Codes of less than a byte are one bit string.
void FloatReader::read_packed(int64_t first, std::span<float> out) const {
  constexpr int64_t kGroup = 8;  // codes of whole bytes
  std::vector<uint8_t> bytes;
  std::vector<uint16_t> codes;
  while (!out.empty()) {
    const int64_t begin = first / kGroup * kGroup;
    const auto skipped = static_cast<size_t>(first - begin);
    const size_t count = std::min(out.size(), kPieceValues);
    codes.resize(skipped + count);
    bytes.resize(packed_bytes(static_cast<int64_t>(codes.size()), code_bits_));
    entry_->read(static_cast<size_t>(begin / kGroup * code_bits_),
                 std::as_writable_bytes(std::span(bytes)));
    unpack_codes(bytes, code_bits_, codes);
    for (size_t i = 0; i < count; ++i) out[i] = table_[codes[skipped + i]];
    first += static_cast<int64_t>(count);
    out = out.subspan(count);
  }
}

/// Whole blocks around what is asked for.
void FloatReader::read_blocks(int64_t first, std::span<float> out) const {
  const int64_t block = blocks_->block;
  std::vector<std::byte> bytes;
  std::vector<float> values;
  while (!out.empty()) {
    const int64_t begin = first / block, skipped = first % block;
    const auto count = std::min(out.size(), kPieceValues);
    const int64_t blocks = (skipped + static_cast<int64_t>(count) + block - 1) / block;
    bytes.resize(static_cast<size_t>(blocks * blocks_->bytes));
    values.resize(static_cast<size_t>(blocks * block));
    entry_->read(static_cast<size_t>(begin * blocks_->bytes), bytes);
    decode_gguf_blocks(*blocks_, bytes, values);
    std::copy_n(values.begin() + skipped, count, out.begin());
    scale_blocks(first, out.first(count));
    first += static_cast<int64_t>(count);
    out = out.subspan(count);
  }
}

/// Elements from `first` on, times the factor of the matrix that each is of.
void FloatReader::scale_blocks(int64_t first, std::span<float> values) const {
  const std::vector<float>& factors = entry_->factors;
  if (factors.empty()) return;
  const int64_t each = entry_->elements() / std::ssize(factors);
  for (float& value : values) value *= factors[static_cast<size_t>(first++ / each)];
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

bool are_same(const SafetensorsEntry& a, const SafetensorsEntry& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  constexpr size_t kPieceBytes = size_t{1} << 20;
  std::vector<std::byte> left, right;
  for (size_t at = 0; at < a.bytes; at += kPieceBytes) {
    left.resize(std::min(kPieceBytes, a.bytes - at));
    right.resize(left.size());
    a.read(at, left);
    b.read(at, right);
    if (left != right) return false;
  }
  return true;
}

}  // namespace ng::io
