#include "nn/head.h"

#include <algorithm>

namespace ng {
namespace {

// Large enough to keep the GEMMs efficient, small beside the activations of any real model.
constexpr int64_t kPieceBytes = int64_t{64} << 20;
constexpr int64_t kPieceMultiple = 128;

// No scale spans more tokens than divide a piece.
bool is_divisible(const Operand& cast) {
  if (cast.is_unscaled()) return true;
  const bool two_levels = cast.scale == ScaleKind::e4m3 && cast.tensor_scale != ScaleKind::none;
  return cast.block.kind == Block::Kind::tile && kPieceMultiple % cast.block.rows == 0 &&
         kPieceMultiple % cast.block.cols == 0 && !two_levels;
}

// One FP32 chain of plain numbers along all tokens, which is carried from piece to piece.
bool is_chain(const GemmRecipe& gemm) {
  const auto is_plain = [](const Operand& cast) {
    return cast.is_unscaled() && cast.rounding == Rounding::nearest && cast.prescale == 1.0f;
  };
  return is_plain(gemm.left) && is_plain(gemm.right) && gemm.hadamard == 0;
}

Batch part_of(const Batch& batch, int64_t first, int64_t count) {
  Batch part = batch;
  part.targets = batch.targets.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  if (batch.mask != nullptr) part.mask = batch.mask + first;
  return part;
}

}  // namespace

int64_t Head::piece(int64_t tokens, const Run& run) const {
  const LinearRecipe& recipe = linear_.recipe();
  const bool divides =
      is_divisible(recipe.fprop.left) &&
      (run.evaluating() || (is_divisible(recipe.dgrad.left) && is_divisible(recipe.wgrad.left) &&
                            is_divisible(recipe.wgrad.right)));
  if (!divides) return tokens;
  const auto row = static_cast<int64_t>(sizeof(float)) * linear_.outputs();
  const int64_t rows = std::max(kPieceBytes / row / kPieceMultiple, int64_t{1}) * kPieceMultiple;
  return std::min(rows, tokens);
}

Tensor Head::loss_and_gradient(Run& run, Source& x, const Batch& batch, double* loss) {
  const TimedBackend::InHead timed = run.time_as_head();
  const int64_t tokens = x.values().rows;
  const int64_t piece_rows = piece(tokens, run);
  const Tensor dx = run.tensor(tokens, linear_.inputs());
  const Tensor losses = run.tensor(1, tokens);
  const auto scale = static_cast<float>(1.0 / batch.target_count);

  // A carrier must start from nothing, so where the gradient already holds earlier contributions a
  // product of its own is carried and added.
  const GradientTarget target = gradient_target(run, linear_.weight());
  const bool whole = piece_rows == tokens;
  const bool carries = is_chain(linear_.recipe().wgrad);
  Tensor product;
  if (!whole && carries && target.into == Into::add)
    product = run.tensor(target.view.rows, target.view.cols, MemoryKind::gradients);

  linear_.keep_weights(run, !whole);
  for (int64_t first = 0; first < tokens; first += piece_rows) {
    const int64_t count = std::min(piece_rows, tokens - first);
    const Batch part = part_of(batch, first, count);
    Source rows = x.part(first, count);
    const Tensor logits = run.tensor(count, linear_.outputs(), MemoryKind::logits);
    linear_.fprop(run, logits, rows);
    run.ops().cross_entropy(logits, losses.view().data + first, part.targets, part.mask, scale,
                            compute_);
    Source dlogits(logits, logits.view(), linear_.output(), first);
    linear_.make_gradient_operands(run, dlogits);
    linear_.dgrad(run, dx.view().slice(first, count), Into::overwrite, dlogits);
    GradientTarget to = target;
    if (product) to = {product, Into::overwrite};
    if (first > 0) to.into = carries ? Into::carry : Into::add;
    linear_.wgrad(run, to, rows, dlogits);
  }
  if (!whole) linear_.keep_weights(run, false);
  if (product) run.ops().add(target.view, target.view, product, Compute::fp32);
  run.ops().add_sum(loss, losses);
  return dx;
}

void Head::loss(Run& run, Source& x, const Batch& batch, double* loss) {
  const TimedBackend::InHead timed = run.time_as_head();
  const int64_t tokens = x.values().rows;
  const int64_t piece_rows = piece(tokens, run);
  const Tensor losses = run.tensor(1, tokens);
  linear_.keep_weights(run, piece_rows < tokens);
  for (int64_t first = 0; first < tokens; first += piece_rows) {
    const int64_t count = std::min(piece_rows, tokens - first);
    const Batch part = part_of(batch, first, count);
    Source rows = x.part(first, count);
    const Tensor logits = run.tensor(count, linear_.outputs(), MemoryKind::logits);
    linear_.fprop(run, logits, rows);
    run.ops().cross_entropy_loss(logits, losses.view().data + first, part.targets, part.mask,
                                 compute_);
  }
  if (piece_rows < tokens) linear_.keep_weights(run, false);
  run.ops().add_sum(loss, losses);
}

}  // namespace ng
