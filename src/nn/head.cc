#include "nn/head.h"

#include <algorithm>

namespace ng {
namespace {

constexpr int64_t kPieceMultiple = 128;

// No scale spans more tokens than divide a piece.
bool is_divisible(const Operand& cast) {
  if (cast.is_unscaled()) return true;
  const auto divides = [](const Block& block) {
    return block.kind == Block::Kind::tile && kPieceMultiple % block.rows == 0 &&
           kPieceMultiple % block.cols == 0;
  };
  const bool two_levels = cast.scale == ScaleKind::e4m3 && cast.tensor_scale != ScaleKind::none;
  return divides(cast.block) && (!two_levels || divides(cast.tensor_block));
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
  if (batch.mask.rows != 0) part.mask = batch.mask.columns(first, count);
  return part;
}

// The finished gradient of all pieces goes where it is kept, rounded once.
void add_product(Run& run, const GradientTarget& target, const View& product) {
  const bool is_fp32 = target.view.is(fp32_format());
  if (target.into == Into::add)
    run.execute(Add{.y = is_fp32 ? target.view : product, .a = target.view, .b = product});
  if (!is_fp32) run.execute(Copy{.y = target.view, .x = product});
}

}  // namespace

int64_t Head::piece(int64_t tokens, const Run& run) const {
  const LinearRecipe& recipe = linear_.recipe();
  const bool divides =
      is_divisible(recipe.fprop.left) &&
      (run.evaluating() || (is_divisible(recipe.dgrad.left) && is_divisible(recipe.wgrad.left) &&
                            is_divisible(recipe.wgrad.right)));
  if (!divides) return tokens;
  // Of FP32, whatever logits are stored as, for where pieces end is seen in a narrow head's bits.
  const auto row = static_cast<int64_t>(sizeof(float)) * linear_.outputs();
  const int64_t most = run.backend().logits_bytes() / row;
  const int64_t rows = std::max(most / kPieceMultiple, int64_t{1}) * kPieceMultiple;
  return std::min(rows, tokens);
}

template <class F>
void Head::each_piece(Run& run, Source& x, const Batch& batch, const F& f) {
  const int64_t tokens = x.values().rows, most = piece(tokens, run);
  linear_.keep_weights(run, most < tokens);
  for (int64_t first = 0; first < tokens; first += most) {
    const int64_t count = std::min(most, tokens - first);
    Source rows = x.part(first, count);
    const Tensor logits =
        run.tensor(count, linear_.outputs(), *x.values().element, MemoryKind::logits);
    linear_.fprop(run, logits, rows);
    f(first, rows, part_of(batch, x.first_row() + first, count), logits);
  }
  if (most < tokens) linear_.keep_weights(run, false);
}

Tensor Head::loss_and_gradient(Run& run, Source& x, const Batch& batch, double* loss) {
  const Run::Place place = run.in(linear_.name());
  const int64_t tokens = x.values().rows;
  const Tensor dx = run.tensor_like(x.values());
  const Tensor losses = run.tensor(1, tokens, fp32_format());
  const float scale = batch.loss_scale();

  // A carrier must start from nothing and lies in FP32, so where the gradient already holds earlier
  // contributions or is BF16, a product of its own is made and added.
  const bool is_frozen = linear_.is_frozen();
  const GradientTarget target =
      is_frozen ? GradientTarget{} : gradient_target(run, linear_.weight());
  const bool whole = piece(tokens, run) == tokens;
  const bool carries = is_chain(linear_.recipe().wgrad);
  const bool is_fp32 = is_frozen || target.view.is(fp32_format());
  Tensor product;
  if (!is_frozen && !whole && (!is_fp32 || (carries && target.into == Into::add)))
    product = run.tensor(target.view.rows, target.view.cols, fp32_format(), MemoryKind::gradients);

  each_piece(run, x, batch,
             [&](int64_t first, Source& rows, const Batch& part, const Tensor& logits) {
               const int64_t count = rows.rows();
               run.execute(CrossEntropy{.logits = logits,
                                        .losses = losses.view().columns(first, count),
                                        .targets = part.targets,
                                        .mask = part.mask,
                                        .scale = scale});
               Source dlogits(logits, logits.view(), linear_.output(), x.first_row() + first);
               linear_.make_gradient_operands(run, dlogits);
               linear_.dgrad(run, dx.view().slice(first, count), Into::overwrite, rows, dlogits);
               if (is_frozen) return;
               GradientTarget to = target;
               if (product) to = {product, Into::overwrite};
               if (first > 0) to.into = carries ? Into::carry : Into::add;
               linear_.wgrad(run, to, rows, dlogits);
             });
  if (product) add_product(run, target, product);
  if (!is_frozen) linear_.show_gradient(run, target.view);
  if (loss != nullptr) run.execute(AddSum{.sum = loss, .x = losses});
  return dx;
}

void Head::loss(Run& run, Source& x, const Batch& batch, double* loss) {
  const Tensor losses = run.tensor(1, x.values().rows, fp32_format());
  token_losses(run, x, batch, losses);
  run.execute(AddSum{.sum = loss, .x = losses});
}

void Head::token_losses(Run& run, Source& x, const Batch& batch, const View& losses) {
  const Run::Place place = run.in(linear_.name());
  each_piece(run, x, batch,
             [&](int64_t first, Source& /*rows*/, const Batch& part, const Tensor& logits) {
               run.execute(CrossEntropyLoss{.logits = logits,
                                            .losses = losses.columns(first, logits.view().rows),
                                            .targets = part.targets,
                                            .mask = part.mask});
             });
}

}  // namespace ng
