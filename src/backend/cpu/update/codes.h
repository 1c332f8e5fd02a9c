// Elements as numbers to their codes, a row at a time: the way back of quantize/dequantize.h.
#pragma once

#include <cstdint>

#include "format/table.h"

namespace ng::cpu {

/// codes[i] of elements[i], which are values of the format: the code in the lowest bits. Formats of
/// at most 16 bits; same bits on every instruction set, payloads of NaN aside.
void codes_of(const ElementFormat& format, const float* elements, int64_t count, uint16_t* codes);

}  // namespace ng::cpu
