#include "backend/cuda/kernels/stored.h"

#include "backend/cuda/kernels/block_operand.h"
#include "backend/cuda/kernels/coded.h"

namespace ng::cuda {
namespace {

struct DecideShared {
  CardScale* scale;
  SharedScaleRule rule;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { rule.decide(*scale); }
};

struct PutShared {
  const CardScale* scale;
  float* to;
  const StepControl* control;
  const float* alpha;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    if (!skips(control) && (alpha == nullptr || *alpha > 0)) *to = scale->decode;
  }
};

}  // namespace

bool has_shared_scale(const Stored& y) {
  return y && y.cast.block.kind == Block::Kind::tensor && y.cast.scale_of == ScaleOf::amax &&
         (y.cast.scale == ScaleKind::fp32 || y.cast.scale == ScaleKind::pow2) &&
         y.cast.element->kind == ElementKind::floating;
}

StoredTensor stored_tensor(std::string_view operation, const Stored& y, const StepKey& key,
                           Purpose purpose, const CardScale* scale) {
  if (!y) return {};
  const Operand& cast = y.cast;
  const bool has_one = has_shared_scale(y);
  if (!cast.element->is_signed || cast.element->kind == ElementKind::power ||
      cast.rounding == Rounding::eden || cast.prescale != 1.0f || (!cast.is_unscaled() && !has_one))
    refuse(operation, *cast.element, y.view.has_scales());
  StoredTensor tensor;
  tensor.before = stored_source(y.view);
  tensor.cast = element_cast(cast, key.with(purpose));
  tensor.cols = y.view.cols;
  tensor.next = has_one ? scale : nullptr;
  return tensor;
}

StoredTensor plain_tensor(std::string_view operation, const View& y) {
  Stored plain = stored_plainly(y);
  if (y.rows == 0) return {};
  if (y.has_scales()) refuse(operation, *y.element, true);
  plain.cast.overflow = Overflow::special;
  return stored_tensor(operation, plain, {}, {});
}

__device__ void SharedScaleRule::decide(CardScale& scale) const {
  float largest = float_of_bits(scale.amax);
  bool is_finite = scale.has_nan == 0 && scale.amax < kFloatInf;
  if (shared != nullptr) {
    largest = *shared > largest ? *shared : largest;
    is_finite = is_finite && (float_bits(*shared) & 0x7FFFFFFFu) < kFloatInf;
  }
  scale.multiplier = kept != nullptr ? sticky_encode_scale(1.0f / *kept, largest, max)
                                     : encode_scale_of(is_finite ? largest : 0.0f, fit, is_power);
  scale.decode = 1.0f / scale.multiplier;
}

SharedScaleRule shared_scale_rule(const Stored& y, bool is_kept, const float* shared) {
  const float max = range_of(*y.cast.element).max;
  const bool is_sticky = is_kept && y.cast.has_one_power_of_two();
  return {.fit = first_fit(y.cast, max),
          .max = max,
          .is_power = y.cast.scale == ScaleKind::pow2,
          .kept = is_sticky ? reinterpret_cast<const float*>(y.view.scales.data) : nullptr,
          .shared = shared};
}

void decide_shared_scale(Stream stream, CardScale* scale, const SharedScaleRule& rule) {
  for_each_place(stream, 1, 1, DecideShared{scale, rule});
}

bool has_levels(const Stored& y) { return y && y.cast.scale == ScaleKind::e4m3; }

void put_level(Stream stream, const Stored& y, const CardScale* level, const StepControl* control) {
  if (y.view.scales.tensor != nullptr)
    for_each_place(stream, 1, 1, PutShared{level, y.view.scales.tensor, control, nullptr});
}

void put_shared_scale(Stream stream, const Stored& y, const CardScale* scale,
                      const StepControl* control, const float* alpha) {
  for_each_place(stream, 1, 1,
                 PutShared{scale, reinterpret_cast<float*>(y.view.scales.data), control, alpha});
}

BlockJob stored_job(const BlockStore& store, CardScale* second) {
  const Stored& y = store.y;
  const Operand& cast = y.cast;
  const bool has_second = has_levels(y);
  if (cast.rounding == Rounding::eden || cast.prescale != 1.0f || (has_second && second == nullptr))
    refuse(store.operation, *cast.element, true);
  const StoredSource before = stored_source(y.view);
  CardOperand to;
  to.element = element_cast(cast, store.key);
  to.codes = before.codes;
  to.scales = before.scales;
  to.scales.kind = cast.scale;
  to.second = {.data = has_second ? second : nullptr};
  to.stored = true;
  to.blocked = cast.block.kind == Block::Kind::tile;
  to.rows = y.view.rows;
  to.k = to.k_padded = y.view.cols;
  OperandGroups from;
  from.source = store.source;
  from.rows = to.rows;
  from.k = from.k_padded = from.whole_cols = to.k;
  return {.values = {from, store.strip, store.strip_row},
          .y = to,
          .rule = {.cast = cast,
                   .range = range_of(*cast.element),
                   .element = to.element,
                   .statistic = statistic_rule(cast),
                   .second = to.second},
          .amax = store.amax,
          .stats = nullptr,
          .control = store.control};
}

void store_blocks(Stream stream, const BlockStore& store, CardScale* second) {
  if (is_coded(store.y.view)) return store_coded(stream, store);
  const BlockJob job = stored_job(store, second);
  if (store.strip != nullptr) return round_rows(stream, job, store.strip_row, store.strip_rows);
  prepare_blocks(stream, job, {});
  put_level(stream, store.y, second, store.control);
}

}  // namespace ng::cuda
