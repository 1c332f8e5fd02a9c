// Muon: the momentum of a matrix, with Nesterov's look ahead, made orthogonal by five steps of
// Newton and Schulz: w = w·(1 - lr·λ) - lr·0.2·√max(r, c)·X. Matrices of the blocks; what else
// there is takes AdamW. [Jordan et al. 2024; recipes.md §6; errata-2, 17]
#include <algorithm>
#include <cmath>

#include "nn/source.h"
#include "optim/muon.h"
#include "optim/optimizer.h"
#include "optim/row_blocks.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

bool is_orthogonalized(const ParameterSpec& spec) {
  const bool is_matrix = !spec.is_vector && spec.name.ends_with(".weight");
  return is_matrix && layers::place_of(spec.name).block >= 0;
}

/// An FP32 GEMM operand of a matrix, summed over its columns or its rows.
Prepared operand(Run& run, const Tensor& x, const ConstView& values, Contract contract, Side side) {
  const bool by_cols = contract == Contract::cols;
  return prepare_operand(run, x, values,
                         {.cast = operand_of("fp32"),
                          .contract = contract,
                          .side = side,
                          .rows = by_cols ? values.rows : values.cols,
                          .k = by_cols ? values.cols : values.rows,
                          .hadamard = {}},
                         {});
}

Tensor fp32_tensor(Run& run, int64_t rows, int64_t cols) {
  return run.tensor(rows, cols, fp32_format(), MemoryKind::operands);
}

void multiply(Run& run, const View& y, const Prepared& a, const Prepared& b) {
  run.execute(
      Gemm{.y = y, .a = &a.packed, .b = &b.packed, .bias = {}, .time = TimeKind::optimizer});
}

/// A = X·Xᵀ, or Xᵀ·X of a tall matrix: of the smaller side, which spares turning X.
Tensor gram(Run& run, const Tensor& owner, const View& x) {
  const bool tall = x.rows > x.cols;
  const Contract contract = tall ? Contract::rows : Contract::cols;
  const int64_t side = std::min(x.rows, x.cols);
  Tensor a = fp32_tensor(run, side, side);
  multiply(run, a, operand(run, owner, x, contract, Side::left),
           operand(run, owner, x, contract, Side::right));
  return a;
}

/// P = b·A + c·A²
Tensor polynomial(Run& run, const Tensor& a) {
  Tensor p = fp32_tensor(run, a.view().rows, a.view().cols);
  multiply(run, p, operand(run, a, a, Contract::cols, Side::left),
           operand(run, a, a, Contract::rows, Side::right));
  run.execute(Combine{.y = p, .x = a, .a = kMuon.b, .b = kMuon.c});
  return p;
}

/// X = a·X + P·X, or a·X + X·P of a tall matrix.
void iterate(Run& run, const Tensor& owner, const View& x) {
  const bool tall = x.rows > x.cols;
  const Tensor p = polynomial(run, gram(run, owner, x));
  const Tensor y = fp32_tensor(run, x.rows, x.cols);
  if (tall)
    multiply(run, y, operand(run, owner, x, Contract::cols, Side::left),
             operand(run, p, p, Contract::rows, Side::right));
  else
    multiply(run, y, operand(run, p, p, Contract::cols, Side::left),
             operand(run, owner, x, Contract::rows, Side::right));
  run.execute(Combine{.y = x, .x = y, .a = 1, .b = kMuon.a});
}

/// X of the matrix that lies in x, times 0.2·√max(r, c), in its place.
void orthogonalize(Run& run, const Tensor& owner, const View& x) {
  const Tensor sum = run.bytes(sizeof(double), MemoryKind::operands);
  auto* const squares = reinterpret_cast<double*>(sum.bytes());
  run.execute(Clear{{sum.bytes(), sizeof(double)}});
  run.execute(AddSumOfSquares{squares, x});
  run.execute(Normalize{.y = x, .x = x, .sum_of_squares = squares});
  for (int i = 0; i < kMuon.steps; ++i) iterate(run, owner, x);
  const auto larger = static_cast<float>(std::max(x.rows, x.cols));
  run.execute(Combine{.y = x, .x = x, .a = kMuon.update_size * std::sqrt(larger), .b = 0});
}

class Muon final : public Optimizer {
 public:
  using Optimizer::Optimizer;

  [[nodiscard]] std::vector<StoredSpec> states(const ParameterSpec& spec) const override {
    if (is_orthogonalized(spec)) return {state(spec, "momentum", recipe_.moment1)};
    return {state(spec, "moment1", recipe_.moment1), second_moment(spec)};
  }

  [[nodiscard]] OptimizerRule rule_of(const ParameterSpec& spec) const override {
    return is_orthogonalized(spec) ? OptimizerRule::muon : OptimizerRule::adamw;
  }

  // The momentum is SGD's; what is made of it is of norm 1.
  void check(Run& run, const Parameter& parameter, const OptimizerStep& step) const override {
    const bool has_momentum = is_orthogonalized(parameter.spec);
    Update update =
        update_by(has_momentum ? OptimizerRule::sgd : OptimizerRule::adamw, run, parameter, step);
    if (has_momentum) update.numbers.beta1 = kMuon.momentum;
    run.execute(CheckUpdate{.update = update, .control = step.control, .parameter = parameter.id});
  }

  void update(Run& run, Parameter& parameter, const OptimizerStep& step) const override {
    if (!is_orthogonalized(parameter.spec))
      return run.execute(update_by(OptimizerRule::adamw, run, parameter, step));
    Update by_direction = update_by(OptimizerRule::muon, run, parameter, step);
    const Tensor direction = look_ahead(run, parameter, by_direction, step);
    int64_t first = 0;
    for (const RowBlocks::Section& section :
         row_blocks(parameter.spec, settings_.heads, settings_.kv_heads).sections) {
      if (section.rows > 0)
        orthogonalize(run, direction, direction.view().slice(first, section.rows));
      first += section.rows;
    }
    by_direction.moment1 = {};
    by_direction.grad = direction;
    run.execute(by_direction);
  }

 private:
  /// Moves the momentum B; returns g + μB.
  static Tensor look_ahead(Run& run, const Parameter& parameter, const Update& update,
                           const OptimizerStep& step) {
    const Stored& momentum = parameter.moment1;
    const bool is_wide = momentum.cast.is_fp32();
    const int64_t rows = update.grad.rows, cols = update.grad.cols;
    Tensor ahead = fp32_tensor(run, rows, cols);
    const Tensor sum = is_wide ? Tensor() : fp32_tensor(run, rows, cols);
    run.execute(MoveMomentum{.sum = is_wide ? momentum.view : sum.view(),
                             .ahead = ahead,
                             .momentum = momentum.view,
                             .grad = update.grad,
                             .mu = kMuon.momentum,
                             .control = step.control});
    RandomKey key = update.key;
    key.purpose = Purpose::moment1;
    if (!is_wide) run.execute(Store{momentum, sum, key, step.control});
    return ahead;
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const OptimizerRecipe& recipe,
                                     const OptimizerSettings& settings) {
  return std::make_unique<Muon>(recipe, settings);
}

}  // namespace ng
