#include "nn/head.h"

#include <algorithm>

namespace ng {
namespace {

// Large enough to keep the GEMMs efficient, small beside the activations of any real model.
constexpr int64_t kPieceBytes = int64_t{64} << 20;
constexpr int64_t kPieceMultiple = 128;

bool is_plain(const Operand& cast) {
  return cast.is_unscaled() && cast.rounding == Rounding::nearest && cast.prescale == 1.0f;
}

bool is_plain(const GemmRecipe& gemm) {
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
  const bool trains = !run.evaluating();
  if (!is_plain(recipe.fprop) || (trains && !(is_plain(recipe.dgrad) && is_plain(recipe.wgrad))))
    return tokens;
  const auto row = static_cast<int64_t>(sizeof(float)) * linear_.outputs();
  const int64_t rows = std::max(kPieceBytes / row / kPieceMultiple, int64_t{1}) * kPieceMultiple;
  return std::min(rows, tokens);
}

Tensor Head::loss_and_gradient(Run& run, Source& x, const Batch& batch, double* loss) {
  const int64_t tokens = x.values().rows;
  const int64_t piece_rows = piece(tokens, run);
  const Tensor dx = run.tensor(tokens, linear_.inputs());
  const Tensor losses = run.tensor(1, tokens);
  const auto scale = static_cast<float>(1.0 / batch.target_count);

  // The wgrad chain runs over all tokens. Its carrier must start from nothing, so where the
  // gradient already holds earlier contributions a product of its own is carried and added.
  const GradientTarget target = gradient_target(run, linear_.weight());
  const bool whole = piece_rows == tokens;
  Tensor product;
  if (!whole && target.into == Into::add)
    product = run.tensor(target.view.rows, target.view.cols, MemoryKind::gradients);

  for (int64_t first = 0; first < tokens; first += piece_rows) {
    const int64_t count = std::min(piece_rows, tokens - first);
    const Batch part = part_of(batch, first, count);
    Source rows(x.owner(), x.values().slice(first, count), x.tensor());
    const Tensor logits = run.tensor(count, linear_.outputs(), MemoryKind::logits);
    linear_.fprop(run, logits, rows);
    run.ops().cross_entropy(logits, losses.view().data + first, part.targets, part.mask, scale,
                            compute_);
    Source dlogits(logits, linear_.output());
    linear_.dgrad(run, dx.view().slice(first, count), Into::overwrite, dlogits);
    GradientTarget to = target;
    if (product) to = {product, Into::overwrite};
    if (first > 0) to.into = Into::carry;
    linear_.wgrad(run, to, rows, dlogits);
  }
  if (product) run.ops().add(target.view, target.view, product, Compute::fp32);
  run.ops().add_sum(loss, losses);
  return dx;
}

void Head::loss(Run& run, Source& x, const Batch& batch, double* loss) {
  const int64_t tokens = x.values().rows;
  const int64_t piece_rows = piece(tokens, run);
  const Tensor losses = run.tensor(1, tokens);
  for (int64_t first = 0; first < tokens; first += piece_rows) {
    const int64_t count = std::min(piece_rows, tokens - first);
    const Batch part = part_of(batch, first, count);
    Source rows(x.owner(), x.values().slice(first, count), x.tensor());
    const Tensor logits = run.tensor(count, linear_.outputs(), MemoryKind::logits);
    linear_.fprop(run, logits, rows);
    run.ops().cross_entropy_loss(logits, losses.view().data + first, part.targets, part.mask,
                                 compute_);
  }
  run.ops().add_sum(loss, losses);
}

}  // namespace ng
