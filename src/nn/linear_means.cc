// Means over tokens, which the GEMMs of a recipe with `center` do not narrow with the rest.
// [linear.md 8]
#include "nn/linear.h"

namespace ng {
namespace {

// wgrad's identity needs both means as they are.
Compute mean_of(const GemmRecipe& gemm, OperandRole role) {
  const bool is_rounded = role == OperandRole::fprop_input || role == OperandRole::dgrad_grad;
  return gemm.center == Center::wide && is_rounded ? Compute::bf16 : Compute::fp32;
}

// Like the operand that the mean was taken off, to nearest.
Operand cast_of_mean(const GemmRecipe& gemm, const Operand& operand) {
  if (gemm.center == Center::wide) return operand_of("fp32");
  Operand cast = operand.rounded_by(Rounding::nearest);
  scale_by_itself(cast);
  return cast;
}

OperandSpec column_of(const ConstView& row, Side side) {
  return {.cast = operand_of("fp32"),
          .contract = Contract::rows,
          .side = side,
          .rows = row.cols,
          .k = 1,
          .hadamard = {}};
}

}  // namespace

Source& Linear::centered(Run& run, OperandRole role, Source& source) const {
  return is_centered(role) ? source.centered(run, mean_of(gemm_of(recipe(), role), role)) : source;
}

Tensor Linear::product_of_mean(Run& run, OperandRole role, Source& source,
                               const Prepared& w) const {
  if (!is_centered(role)) return {};
  const GemmRecipe& gemm = gemm_of(recipe(), role);
  const Run::Place place = run.in(name_, "mean");
  const Tensor& mean = source.centered(run, mean_of(gemm, role)).mean();
  OperandRequest by{spec(role, 1, run), {}};
  by.spec.cast = cast_of_mean(gemm, by.spec.cast);
  Tensor amax;
  share_amax(run, role, mean.view(), by, amax);
  const Prepared row = prepare_operand(run, mean, mean.view(), by.spec, by.context);
  Tensor product = run.tensor(1, w.packed.spec.rows, fp32_format());
  const bool is_forward = role == OperandRole::fprop_input;
  run.execute(Gemm{.y = product,
                   .a = &row.packed,
                   .b = &w.packed,
                   .bias = {},
                   .time = time_of(is_forward ? TimeKind::gemm_fprop : TimeKind::gemm_dgrad)});
  return product;
}

void Linear::add_means(Run& run, const View& dw, Source& x, Source& dy) const {
  if (!is_centered(OperandRole::wgrad_grad)) return;
  const GemmRecipe& gemm = recipe().wgrad;
  const Tensor& of_dy = dy.centered(run, mean_of(gemm, OperandRole::wgrad_grad)).mean();
  const Tensor& of_x = x.centered(run, mean_of(gemm, OperandRole::wgrad_input)).mean();
  const Tensor scaled = run.tensor(1, of_dy.view().cols, fp32_format());
  run.execute(Combine{.y = scaled, .x = of_dy.view(), .a = static_cast<float>(dy.rows()), .b = 0});
  const Prepared a =
      prepare_operand(run, scaled, scaled.view(), column_of(scaled.view(), Side::left), {});
  const Prepared b =
      prepare_operand(run, of_x, of_x.view(), column_of(of_x.view(), Side::right), {});
  run.execute(Gemm{.y = dw,
                   .a = &a.packed,
                   .b = &b.packed,
                   .into = Into::add,
                   .bias = {},
                   .time = time_of(TimeKind::gemm_wgrad)});
}

}  // namespace ng
