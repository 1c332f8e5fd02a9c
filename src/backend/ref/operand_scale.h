// How the values of an operand that share a scale get it and are rounded by it. Internal to
// operand.cc.
#pragma once

#include "backend/ref/operand.h"
#include "format/codec.h"
#include "format/element_list.h"
#include "format/scale.h"

namespace ng::ref {

/// Everything one call of prepare needs to know.
struct Job {
  const OperandSpec& spec;
  ConstView source;
  const PrepareContext& context;
  OperandParts parts;
  ElementRange range;
  ElementCodec codec;
  OtherElement other = other_element(spec.cast);
  float amax = 0;      ///< of what the whole operand is a part of
  bool rounds = true;  ///< else values become what the encoder is given of them

  [[nodiscard]] bool floating() const { return spec.cast.element->kind == ElementKind::floating; }
  [[nodiscard]] float* row(int64_t r) const { return parts.elements + r * spec.k_padded(); }
  [[nodiscard]] OverflowRule overflow() const { return overflow_rule(spec.cast.overflow); }
};

/// Values that share a scale: operand rows [row, row_end) × [k, k_end) along the reduction.
struct Region {
  int64_t row, row_end, k, k_end;
};

/// How the values of a region become codes: `multiplier` is applied after the prescale, or
/// `divisor` where it is not 0.
struct RegionCast {
  float multiplier = 1;
  float divisor = 0;
  bool clamp = false;  ///< to ± the largest element before rounding [formats.md §4.1, step 5]
  bool other = false;  ///< elements are those of the second of a list
  bool zero = false;   ///< the scale is zero: codes are signed zeros
  bool nan = false;    ///< the scale is NaN: codes are zero
};

/// The draw of one element, of its place in the source.
[[nodiscard]] uint32_t random_of(const Job& job, int64_t row, int64_t k);

struct Amax {
  float value = 0;  ///< NaN skipped
  bool finite = true;
};

[[nodiscard]] Amax amax_of(const Job& job, const Region& region);
/// The scale of one region: the number stored and how its values are rounded with it.
[[nodiscard]] RegionCast scale_region(const Job& job, const Region& region,
                                      const TwoLevelScale& two_level, float& stored);
/// The decoded codes in the values' place; counts what happened to them.
void round_region(const Job& job, const RegionCast& cast, const Region& region);

}  // namespace ng::ref
