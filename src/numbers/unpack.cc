#include "numbers/unpack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <string>

#include "backend/cpu/packed.h"
#include "format/codec.h"
#include "format/scale.h"
#include "math/round.h"

namespace ng {
namespace {

constexpr int64_t kTile = 64;  // rows and columns turned together: both sides stay in the cache

/// Where a matrix element lies in the operand, which has its blocks along its columns.
struct Packed {
  const PackedOperand& operand;
  cpu::PackedLayout layout;

  [[nodiscard]] bool straight() const { return operand.spec.contract == Contract::cols; }
  [[nodiscard]] int64_t at(int64_t row, int64_t col) const {
    return (straight() ? row : col) * operand.spec.k_padded() + (straight() ? col : row);
  }
  /// The same where integers lie as kernels read them.
  [[nodiscard]] int64_t interleaved_at(int64_t row, int64_t col) const {
    return straight() ? layout.index(row, col) : layout.index(col, row);
  }
  [[nodiscard]] const int8_t* integers() const {
    return reinterpret_cast<const int8_t*>(operand.storage + layout.elements_at);
  }
  [[nodiscard]] const uint16_t* patterns() const {
    return reinterpret_cast<const uint16_t*>(operand.storage + layout.elements_at);
  }
  [[nodiscard]] const float* floats() const {
    return reinterpret_cast<const float*>(operand.storage + layout.elements_at);
  }
  [[nodiscard]] const float* scales() const {
    return reinterpret_cast<const float*>(operand.storage + layout.scales_at);
  }
};

/// Where the codes of a matrix go: those of row r from codes + r · stride on.
template <class Code>
struct Codes {
  Code* codes = nullptr;
  int64_t stride = 0;
};

/// Codes of rows [row, row_end) × columns [col, col_end) of a matrix of the size of `out`.
template <class Code, class CodeAt>
void copy_codes(const Packed& packed, const NarrowMatrix& out, const Codes<Code>& target,
                int64_t row, int64_t col, const CodeAt& code_at) {
  const int64_t row_end = std::min(row + kTile, out.rows);
  const int64_t col_end = packed.straight() ? out.cols : std::min(col + kTile, out.cols);
  const int64_t step = packed.straight() ? 1 : packed.operand.spec.k_padded();
  for (int64_t r = row; r < row_end; ++r) {
    Code* to = target.codes + r * target.stride;
    if (packed.layout.interleaved) {
      for (int64_t c = col; c < col_end; ++c)
        to[c] = static_cast<Code>(code_at(packed.interleaved_at(r, c)));
      continue;
    }
    int64_t from = packed.at(r, col);
    for (int64_t c = col; c < col_end; ++c, from += step) to[c] = static_cast<Code>(code_at(from));
  }
}

/// Codes of elements that are kept as multiples of `unit`, by those.
std::array<uint16_t, 256> codes_of_integers(const CodeTable& table, float unit) {
  std::array<uint16_t, 256> codes;
  for (int i = -128; i < 128; ++i) {
    const float value = static_cast<float>(i) * unit;  // exact in BF16
    codes[static_cast<uint8_t>(i)] =
        table.of_pattern(static_cast<uint16_t>(float_bits(value) >> 16));
  }
  return codes;
}

/// The same as a table for whole rows.
cpu::IntegerCodes integer_codes(const std::array<uint16_t, 256>& of_integer,
                                const ElementFormat& element, float unit) {
  cpu::IntegerCodes table;
  for (size_t i = 0; i < table.codes.size(); ++i)
    table.codes[i] = static_cast<uint8_t>(of_integer[i]);
  table.used = 0;
  for (uint32_t code = 0; code < code_count(element); ++code) {
    const auto integer = static_cast<int8_t>(decode(element, code) / unit);
    table.used |= static_cast<uint16_t>(1u << (static_cast<uint8_t>(integer) >> 4));
  }
  return table;
}

/// Codes of whole rows, where a kernel makes them.
bool unpack_rows(const Packed& packed, const CodeTable& table, const NarrowMatrix& out,
                 const Codes<uint8_t>& target, Threads threads) {
  if (!packed.straight() || packed.layout.interleaved) return false;
  if (packed.layout.form == cpu::ElementForm::int8) {
    const float unit = packed.layout.unit;
    const cpu::IntegerCodes codes =
        integer_codes(codes_of_integers(table, unit), *out.cast.element, unit);
    parallel_for(threads, out.rows, [&](int64_t row, int) {
      cpu::codes_of_integers(codes, packed.integers() + packed.at(row, 0), out.cols,
                             target.codes + row * target.stride);
    });
    return true;
  }
  if (packed.layout.form != cpu::ElementForm::bf16 || table.by_fields() == nullptr) return false;
  parallel_for(threads, out.rows, [&](int64_t row, int) {
    cpu::codes_of_patterns(*table.by_fields(), packed.patterns() + packed.at(row, 0), out.cols,
                           target.codes + row * target.stride);
  });
  return true;
}

template <class Code>
void unpack_codes(const Packed& packed, const CodeTable& table, const NarrowMatrix& out,
                  const Codes<Code>& target, Threads threads) {
  const int64_t row_tiles = (out.rows + kTile - 1) / kTile;
  const int64_t col_tiles = packed.straight() ? 1 : (out.cols + kTile - 1) / kTile;
  std::array<uint16_t, 256> of_integer{};
  if (packed.layout.form == cpu::ElementForm::int8)
    of_integer = codes_of_integers(table, packed.layout.unit);
  parallel_for(threads, row_tiles * col_tiles, [&](int64_t item, int) {
    const int64_t row = item / col_tiles * kTile, col = item % col_tiles * kTile;
    const auto copy = [&](const auto& code_at) {
      copy_codes(packed, out, target, row, col, code_at);
    };
    switch (packed.layout.form) {
      case cpu::ElementForm::int8:
        return copy([&, integers = packed.integers()](int64_t at) {
          return of_integer[static_cast<uint8_t>(integers[at])];
        });
      case cpu::ElementForm::bf16:
        return copy([&, patterns = packed.patterns()](int64_t at) {
          return table.of_pattern(patterns[at]);
        });
      case cpu::ElementForm::fp32:
        return copy([&](int64_t at) { return table.of_value(packed.floats()[at]); });
    }
  });
}

/// The plain cast to BF16 of `count` values. Returns whether one is NaN, whose code is not set.
bool plain_bf16_codes(const float* x, int64_t count, uint16_t* codes) {
  uint32_t has_nan = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = float_bits(x[i]);  // as to_bf16, without its branch for NaN
    codes[i] = static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
    has_nan |= (bits & 0x7FFFFFFFu) > kFloatInf ? 1u : 0u;
  }
  return has_nan != 0;
}

/// The driver rounds such values itself: here they are rounded by the definition.
void round_codes(const PackedOperand& packed, NarrowMatrix& out, Threads threads) {
  const OverflowRule rule = overflow_rule(out.cast.overflow);
  const ElementCodec codec(*out.cast.element);
  const bool is_plain = *out.cast.element == bf16_format() && rule == OverflowRule::special;
  const Rows<const float> source = packed.source.as<float>();
  parallel_for(threads, out.rows, [&](int64_t row, int) {
    const float* x = source.row(row);
    uint16_t* to = out.codes.data() + row * out.cols;
    if (is_plain && !plain_bf16_codes(x, out.cols, to)) return;
    for (int64_t c = 0; c < out.cols; ++c)
      to[c] = static_cast<uint16_t>(codec.encode(x[c], {}, rule));
  });
}

}  // namespace

uint8_t scale_code(ScaleKind kind, float scale) {
  if (kind == ScaleKind::e4m3)
    return static_cast<uint8_t>(encode_float(e4m3_grid(), scale, {}, OverflowRule::saturate));
  const uint32_t bits = float_bits(scale);  // a power of two from 2^-127 on, or NaN
  return static_cast<uint8_t>(bits > kFloatInf ? kE8m0NanCode : bits >> 23);
}

bool is_scale(ScaleKind kind, float scale) {
  if (std::isnan(scale)) return true;
  if (kind == ScaleKind::e8m0)
    return scale > 0 && scale <= kFloatMax && scale == pow2(floor_log2(scale));
  return kind != ScaleKind::e4m3 ||
         (scale >= 0 && scale == decode_float(e4m3_grid(), scale_code(kind, scale)));
}

CodeTable::CodeTable(const ElementFormat& element) : codec_(element) {
  NG_CHECK(element.bits <= 16, element.name);
  constexpr int kBf16MantissaBits = 7;
  if (element.mantissa_bits > kBf16MantissaBits) return;  // never kept as BF16
  of_pattern_.resize(size_t{1} << 16);
  const auto fill = [&](uint32_t pattern) {
    of_pattern_[pattern] = of_value(float_of_bits(pattern << 16));
  };
  for (const uint32_t special : {0x0000u, 0x8000u, 0x7F80u, 0xFF80u}) fill(special);
  const uint16_t nan = of_value(float_of_bits(0x7FC00000u));
  for (uint32_t mantissa = 1; mantissa < 0x80; ++mantissa)
    of_pattern_[0x7F80u | mantissa] = of_pattern_[0xFF80u | mantissa] = nan;
  const bool is_bf16 = element == bf16_format();
  for (uint32_t code = 0; code < code_count(element); ++code) {
    const uint32_t pattern = is_bf16 ? code : float_bits(codec_.decode(code)) >> 16;
    if (is_bf16 && (pattern & 0x7F80u) != 0x7F80u)
      of_pattern_[pattern] = static_cast<uint16_t>(pattern);
    else
      fill(pattern);
  }
  if (cpu::has_pattern_codes(element)) by_fields_ = cpu::pattern_codes(element, of_pattern_.data());
}

const CodeTable& code_table(const ElementFormat& element) {
  static std::mutex mutex;
  static std::map<std::string, CodeTable, std::less<>> tables;
  const std::lock_guard lock(mutex);
  const auto known = tables.find(element.name);
  return known != tables.end()
             ? known->second
             : tables.try_emplace(std::string(element.name), element).first->second;
}

uint16_t CodeTable::of_value(float value) const {
  return static_cast<uint16_t>(codec_.encode(value, {}, OverflowRule::special));
}

void unpack_operand(const PackedOperand& packed, const CodeTable& table, NarrowMatrix& out,
                    Threads threads, const ByteCodes& bytes) {
  NG_CHECK(packed.spec.cast.other == nullptr);
  out.codes.resize(bytes.codes != nullptr ? 0 : static_cast<size_t>(out.rows * out.cols));
  out.scales.assign(static_cast<size_t>(out.grid.size()), 1.0f);
  out.scale_codes.clear();
  out.zeros.clear();
  out.tensor_scale = 1;
  if (cpu::is_read_in_place(packed.spec)) return round_codes(packed, out, threads);
  const Packed parts{packed, cpu::packed_layout(packed.spec)};
  const Codes<uint8_t> to_bytes{bytes.codes, bytes.stride};
  if (bytes.codes == nullptr)
    unpack_codes<uint16_t>(parts, table, out, {out.codes.data(), out.cols}, threads);
  else if (!unpack_rows(parts, table, out, to_bytes, threads))
    unpack_codes<uint8_t>(parts, table, out, to_bytes, threads);
  if (out.grid.size() == 0) return;
  out.tensor_scale = *reinterpret_cast<const float*>(packed.storage + parts.layout.tensor_at);
  if (has_scale_codes(out.cast)) out.scale_codes.resize(out.scales.size());
  for (int64_t i = 0; i < out.grid.rows; ++i)
    for (int64_t j = 0; j < out.grid.cols; ++j) {
      const int64_t row = i * out.grid.block_rows, col = j * out.grid.block_cols;
      const int64_t operand_row = parts.straight() ? row : col;
      const int64_t block =
          (parts.straight() ? col : row) / std::max<int64_t>(parts.layout.block, 1);
      const auto at = static_cast<size_t>(i * out.grid.cols + j);
      out.scales[at] = parts.scales()[operand_row * parts.layout.blocks + block];
      if (has_scale_codes(out.cast))
        out.scale_codes[at] = scale_code(out.cast.scale, out.scales[at]);
    }
}

}  // namespace ng
