#include "nn/narrow_output.h"

namespace ng {

NarrowOutput::NarrowOutput(Run& run, const Operand& cast, const Gemm& target, const RandomKey& key)
    : y_(target.y),
      into_(target.into),
      round_(target.round),
      key_(key),
      made_(run.tensor(y_.rows, y_.cols, fp32_format())),
      narrow_(cast_tensor(run, y_.rows, y_.cols,
                          run.evaluating() ? cast.rounded_by(Rounding::nearest) : cast,
                          MemoryKind::activations)) {}

Gemm NarrowOutput::into_made(Gemm target) const {
  target.y = made_;
  target.into = Into::overwrite;
  target.round = Compute::fp32;
  return target;
}

void NarrowOutput::finish(Run& run) const {
  run.execute(Store{{narrow_.view, narrow_.cast}, made_.view(), key_});
  const Tensor rounded =
      run.tensor(y_.rows, y_.cols, round_ == Compute::bf16 ? bf16_format() : fp32_format());
  run.execute(last_into(rounded));
  if (into_ == Into::overwrite) return run.execute(Copy{.y = y_, .x = rounded.view()});
  run.execute(Add{.y = y_, .a = y_, .b = rounded.view()});
}

}  // namespace ng
