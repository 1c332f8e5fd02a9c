#include "nn/amax_slot.h"

#include "nn/tensor_group.h"

namespace ng {
namespace {

// What is delayed remembers the largest number, and NaN does not drop scales in E4M3.
bool leaves_nan_aside(const Operand& cast) {
  return cast.scaling == Scaling::delayed || cast.scale == ScaleKind::e4m3;
}

}  // namespace

bool is_scaled_by_source(const OperandSpec& spec) {
  return has_scale_of_all(spec.cast) && spec.hadamard.size == 0;
}

AmaxSlot::AmaxSlot(Run& run, bool is_read) {
  if (is_read) memory_ = run.tensor(1, 2, fp32_format(), MemoryKind::operands);
}

float* AmaxSlot::number_for(const OperandSpec& spec) const {
  if (place() == nullptr) return nullptr;  // not wanted, or of a dry run
  return leaves_nan_aside(spec.cast) ? &place()->value : &place()->or_infinite;
}

const float* AmaxSlot::of(const OperandSpec& spec) const {
  return is_scaled_by_source(spec) ? number_for(spec) : nullptr;
}

void AmaxSlot::find(Run& run, const OperandSpec& spec, const ConstView& values) const {
  run.execute(FindOperandAmax{.amax = number_for(spec), .spec = spec, .source = values});
}

AmaxSlot amax_of_both(Run& run, const OperandSpec& a, const OperandSpec& b,
                      const ConstView& values) {
  const bool read_it = is_scaled_by_source(a) && is_scaled_by_source(b) &&
                       leaves_nan_aside(a.cast) == leaves_nan_aside(b.cast);
  if (!read_it || run.tensor_group().ranks() > 1) return {};
  AmaxSlot slot(run, true);
  slot.find(run, a, values);
  return slot;
}

}  // namespace ng
