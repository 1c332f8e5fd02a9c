// Stretches of states that are not stored as element · scale: 256 values, a power of the values, or
// two parts. Bits are those of ref/update/coded.cc. [linear.md 9]
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/operand.h"

namespace ng::cpu {

/// Values side by side in whole blocks, the last one short.
struct CodedStretch {
  Coding coding = Coding::elements;  ///< elements: in two parts
  std::byte* codes = nullptr;
  std::byte* low = nullptr;
  float *scales = nullptr, *powers = nullptr, *centers = nullptr;  ///< of these blocks
  int64_t count = 0;
  int64_t block = 0;
  bool saturates = false;  ///< in two parts: to BF16's largest, not to infinity
};

/// Makes a cast that of values stored so.
void set_coding(Operand& cast, Coding coding);

void read_coded(const CodedStretch& from, float* values);
void write_coded(const CodedStretch& to, const float* values);

}  // namespace ng::cpu
