#include "nn/kept_input.h"

#include <algorithm>

#include "nn/saved.h"

namespace ng {

bool KeptInput::is_kept(const Run& run, const ConstView& like) const {
  if (run.tensor_group().ranks() > 1) return false;  // each has a part of x, perhaps in few bits
  if (!is_kept_as_made(from_, *like.element)) return false;
  const Linear& front = layers_.front();
  const OperandSpec first = front.wgrad_input(run, like.rows, tensor_).spec;
  return std::all_of(layers_.begin(), layers_.end(), [&](const Linear& layer) {
    return layer.reads_kept_input(run, like.rows, *like.element) &&
           layer.is_centered(OperandRole::wgrad_input) ==
               front.is_centered(OperandRole::wgrad_input) &&
           layer.wgrad_input(run, like.rows, tensor_).spec == first;
  });
}

AmaxSlot KeptInput::slot(Run& run, const ConstView& like, bool is_backward) const {
  const bool makes_both = !is_backward && run.saving() && is_kept(run, like);
  return {run, std::any_of(layers_.begin(), layers_.end(), [&](const Linear& layer) {
            return layer.reads_amax_of_input(run, is_backward) ||
                   (makes_both && layer.reads_amax_of_input(run, true));
          })};
}

void KeptInput::keep(Run& run, Source& x) const {
  if (!run.saving() || !is_kept(run, x.values())) return;
  layers_.front().make_input_operands(run, x);
  for (const Linear& layer : layers_) layer.show_kept_input(run, x);
  const Source& kept = layers_.front().kept_input(run, x);
  run.save(kept.newest().storage);
  if (kept.mean()) run.save(kept.mean());
}

std::optional<Source> KeptInput::take(Run& run, const ConstView& like) const {
  if (!is_kept(run, like)) return {};
  const OperandRequest by = layers_.front().wgrad_input(run, like.rows, tensor_);
  const Tensor mean =
      layers_.front().is_centered(OperandRole::wgrad_input) ? run.restore() : Tensor();
  Prepared kept;
  kept.packed.spec = by.spec;
  kept.packed.bytes = run.operand_bytes(by.spec);
  kept.key = by.context.key;
  kept.storage = run.restore();
  kept.packed.storage = kept.storage.bytes();
  return Source(std::move(kept), like.rows, tensor_, mean);
}

}  // namespace ng
