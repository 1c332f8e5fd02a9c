#include "format/scale.h"

#include "format/codec.h"

namespace ng {

ElementRange range_of(const ElementFormat& format) {
  return {.max = max_value(format), .emax = emax(format), .mantissa_bits = format.mantissa_bits};
}

}  // namespace ng
