#include "backend/cpu/ops/stored_amax.h"

#include <atomic>

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/quantize/panel.h"

namespace ng::cpu {
namespace {

void raise_to(float& largest, float to) {
  const std::atomic_ref<float> shared(largest);
  float now = shared.load(std::memory_order_relaxed);
  while (to > now && !shared.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

TileValues values_of(const ConstView& x) {
  if (x.is(bf16_format())) return {x.as<Bf16>().data, x.stride};
  return {x.as<float>().data, x.stride};
}

}  // namespace

void AmaxOfBlocks::note_values(const ConstView& block) const {
  if (block.rows > 1 && block.contiguous()) return note_values(flattened(block));
  QuantizeTotals found;
  note_amax(values_of(block), block.rows, block.cols, found);
  raise_to(amax_->value, float_of_bits(found.amax));
  raise_to(amax_->or_infinite, float_of_bits(found.nonfinite ? kFloatInf : found.amax));
}

}  // namespace ng::cpu
