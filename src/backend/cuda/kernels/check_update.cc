// Whether an update would store a moment above the largest value of its format, or a weight that is
// not finite. The bits of `ref`.
#include <algorithm>

#include "backend/cuda/kernels/coded.h"
#include "backend/cuda/kernels/update_element.h"

namespace ng::cuda {
namespace {

/// What a check keeps in the scratch.
struct Check {
  unsigned long long first = ~0ull;  ///< what FindOverflow finds; ~0: nothing
  StepControl control;               ///< skips where nobody need look
};

struct BeginCheck {
  OptimizerRule rule;
  CardOptimizerNumbers numbers;
  MomentLimits most;
  const StepControl* control;
  Check* check;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    check->first = ~0ull;
    check->control = *control;
    if (control->overflowing != StoredState::none ||
        surely_fits(rule, numbers.now(), most, *control))
      check->control.skip = 1;
  }
};

/// The first value, in order, of which a state would overflow: its index · 8 and which state.
struct FindOverflow {
  OptimizerRule rule;
  CardOptimizerNumbers numbers;
  StoredSource weight, grad;
  RowValues moment1, moment2;
  bool has_first, has_second, has_master;
  RowBlocks blocks;
  MomentLimits most;
  int64_t cols;
  Check* check;
  int64_t first_row = 0;

  static constexpr unsigned long long kStates = 8;

  __device__ void operator()(int64_t i, int64_t col) const {
    if (skips(&check->control)) return;
    const int64_t row = first_row + i;
    // A block's mean is at most its largest: as if each had one of its own.
    const bool is_mini = rule == OptimizerRule::adam_mini;
    const ElementRule element(is_mini ? OptimizerRule::adamw : rule, numbers.now());
    const float g =
        grad(row, col) * (rule == OptimizerRule::muon ? 1.0f : check->control.grad_scale);
    float m = has_first ? moment1(row, col) : 0.0f;
    float v = !has_second ? 0.0f : is_mini ? moment2(block_of(blocks, row), 0) : moment2(row, col);
    element.move(g, m, v);
    StoredState state = StoredState::none;
    if (!std::isfinite(element.new_weight(weight(row, col), m, v, g)))
      state = has_master ? StoredState::master : StoredState::weight;
    if (!(std::fabs(v) <= most.second)) state = StoredState::moment2;
    if (!(std::fabs(m) <= most.first)) state = StoredState::moment1;
    if (state == StoredState::none) return;
    const auto at = static_cast<unsigned long long>(row * cols + col);
    atomicMin(&check->first, at * kStates + static_cast<uint32_t>(state));
  }
};

struct ReportOverflow {
  const Check* check;
  StepControl* control;
  uint32_t parameter;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    if (check->first == ~0ull) return;
    control->overflowing = static_cast<StoredState>(check->first % FindOverflow::kStates);
    control->overflowing_parameter = parameter;
    control->skip = 1;
  }
};

RowValues values_of(const ConstView& moment) {
  return {.source = is_coded(moment) ? StoredSource{} : stored_source(moment)};
}

/// Some rows at a time where moments are coded.
void find_overflow(Stream stream, const Update& update, FindOverflow find, const Scratch& scratch) {
  const int64_t all = update.grad.rows, cols = update.grad.cols;
  const ConstView first = update.moment1.view, second = update.moment2.view;
  if (!is_coded(first) && !is_coded(second)) return for_each_place(stream, all, cols, find);
  const int64_t count = rows_in(scratch, 2 * cols, all);
  auto* strip = scratch.take<float>(CheckUpdate::kName, 2 * count * cols);
  for (; find.first_row < all; find.first_row += count) {
    const RowRange rows{find.first_row, std::min(count, all - find.first_row)};
    const auto decode = [&](RowValues& values, const ConstView& moment, float* to) {
      if (!is_coded(moment)) return;
      read_coded(stream, moment, rows, to, &find.check->control);
      values = {.strip = to, .strip_row = rows.first, .cols = cols};
    };
    decode(find.moment1, first, strip);
    decode(find.moment2, second, strip + count * cols);
    for_each_place(stream, rows.count, cols, find);
  }
}

}  // namespace

void perform(Stream stream, const CheckUpdate& op, const Scratch& scratch) {
  const Update& update = op.update;
  update.check_shapes();
  const UpdatedWeight& weight = update.weight;
  auto* check = scratch.take<Check>(CheckUpdate::kName, 1);
  const MomentLimits most(update);
  const FindOverflow find{
      .rule = update.optimizer,
      .numbers = {update.numbers, live_numbers(stream)},
      .weight = stored_source(weight.master ? weight.master.view : weight.value.view),
      .grad = stored_source(update.grad),
      .moment1 = values_of(update.moment1.view),
      .moment2 = values_of(update.moment2.view),
      .has_first = static_cast<bool>(update.moment1),
      .has_second = static_cast<bool>(update.moment2),
      .has_master = static_cast<bool>(weight.master),
      .blocks = update.blocks,
      .most = most,
      .cols = update.grad.cols,
      .check = check};
  for_each_place(stream, 1, 1, BeginCheck{update.optimizer, find.numbers, most, op.control, check});
  find_overflow(stream, update, find, scratch.behind<Check>(1));
  for_each_place(stream, 1, 1, ReportOverflow{check, op.control, op.parameter});
}

}  // namespace ng::cuda
