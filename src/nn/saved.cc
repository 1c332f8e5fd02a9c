#include "nn/saved.h"

#include "nn/tensor_group.h"

namespace ng {

bool is_kept_as_made(const Operand& cast, const ElementFormat& element) {
  return cast.is_unscaled() && (cast.is_fp32() || *cast.element == element);
}

void save(Run& run, const Tensor& x, const Operand& cast) {
  if (!run.saving()) return;
  const View values = x;
  if (is_kept_as_made(cast, *values.element)) return run.save(x);
  const CastTensor kept = cast_tensor(run, values.rows, values.cols, cast, MemoryKind::activations);
  store_by_group(run, {kept.view, cast}, values, {});
  for (const Tensor& part : {kept.elements, kept.scales, kept.level})
    if (part) run.save(part);
}

Saved::Saved(Run& run, const Operand& cast, const ElementFormat& element) : element_(&element) {
  if (is_kept_as_made(cast, element)) {
    whole_ = run.restore();
    return;
  }
  Tensor scales, level;  // in the order in which a stack gives them back
  if (!cast.is_unscaled() && cast.tensor_scale != ScaleKind::none) level = run.restore();
  if (!cast.is_unscaled()) scales = run.restore();
  cast_ = cast_tensor_of(cast, run.restore(), scales, level);
}

Tensor Saved::values(Run& run) const {
  if (!cast_) return whole_;
  Tensor wide = run.tensor(cast_.view.rows, cast_.view.cols, *element_);
  run.execute(Store{stored_plainly(wide), cast_.view, {}});
  return wide;
}

}  // namespace ng
