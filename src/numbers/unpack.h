// What the cpu backend has packed, as codes and scales in the order of the source matrix.
#pragma once

#include <optional>
#include <vector>

#include "backend/cpu/quantize/byte_codes.h"
#include "format/codec.h"
#include "numbers/narrow_bytes.h"
#include "numbers/narrow_matrix.h"

namespace ng {

/// Codes of decoded elements: a table over BF16 patterns where the backend stores these, else by
/// the encoder, of which decoded codes are fixed points.
class CodeTable {
 public:
  explicit CodeTable(const ElementFormat& element);
  CodeTable(const CodeTable&) = delete;  // by_fields_ looks into of_pattern_
  CodeTable& operator=(const CodeTable&) = delete;
  [[nodiscard]] uint16_t of_pattern(uint16_t pattern) const { return of_pattern_[pattern]; }
  [[nodiscard]] uint16_t of_value(float value) const;
  /// For elements of at most 8 bits; null where patterns are only looked up.
  [[nodiscard]] const cpu::PatternCodes* by_fields() const {
    return by_fields_ ? &*by_fields_ : nullptr;
  }

 private:
  ElementCodec codec_;
  std::vector<uint16_t> of_pattern_;
  std::optional<cpu::PatternCodes> by_fields_;
};

/// The table of an element, made when it is first asked for and kept.
[[nodiscard]] const CodeTable& code_table(const ElementFormat& element);

/// Code of an E8M0 or E4M3 scale: its decode multiplier, NaN for E8M0's 0xFF.
[[nodiscard]] uint8_t scale_code(ScaleKind kind, float scale);

/// Whether a scale of this kind can be: a power of two from 2^-127 to 2^127, a value of E4M3 from 0
/// on, NaN, or of the other kinds anything.
[[nodiscard]] bool is_scale(ScaleKind kind, float scale);

/// Fills codes, scales, scale_codes and tensor_scale of `out`, whose other fields are set: its rows
/// and cols may be fewer than the operand's. `packed`, of no list of elements, was prepared by
/// ng::cpu. Codes of elements of at most 8 bits go to `bytes` instead, where there is one.
void unpack_operand(const PackedOperand& packed, const CodeTable& table, NarrowMatrix& out,
                    Threads threads, const ByteCodes& bytes = {});

}  // namespace ng
