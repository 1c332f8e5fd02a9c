// Whether an update would store a moment above the largest value of its format, or a weight that is
// not finite. The bits of `ref`.
#include "backend/cuda/kernels/stored.h"
#include "backend/cuda/kernels/update_element.h"

namespace ng::cuda {
namespace {

/// The first value, in order, of which a state would overflow: its index · 8 and which state.
struct FindOverflow {
  OptimizerRule rule;
  OptimizerNumbers numbers;
  StoredSource weight, moment1, moment2, grad;
  bool has_first, has_second, has_master;
  RowBlocks blocks;
  MomentLimits most;
  const StepControl* control;
  int64_t cols;
  unsigned long long* first;  ///< ~0: none

  static constexpr unsigned long long kStates = 8;

  __device__ void operator()(int64_t row, int64_t col) const {
    if (control->overflowing != StoredState::none || control->skip != 0) return;
    if (surely_fits(rule, numbers, most, *control)) return;
    // A block's mean is at most its largest: as if each had one of its own.
    const bool is_mini = rule == OptimizerRule::adam_mini;
    const ElementRule element(is_mini ? OptimizerRule::adamw : rule, numbers);
    const float g = grad(row, col) * (rule == OptimizerRule::muon ? 1.0f : control->grad_scale);
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
    atomicMin(first, at * kStates + static_cast<uint32_t>(state));
  }
};

struct ForgetOverflow {
  unsigned long long* first;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { *first = ~0ull; }
};

struct ReportOverflow {
  const unsigned long long* first;
  StepControl* control;
  uint32_t parameter;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    if (*first == ~0ull) return;
    control->overflowing = static_cast<StoredState>(*first % FindOverflow::kStates);
    control->overflowing_parameter = parameter;
    control->skip = 1;
  }
};

}  // namespace

void perform(Stream stream, const CheckUpdate& op, const Scratch& scratch) {
  const Update& update = op.update;
  update.check_shapes();
  const UpdatedWeight& weight = update.weight;
  auto* first = scratch.take<unsigned long long>(CheckUpdate::kName, 1);
  const FindOverflow find{
      .rule = update.optimizer,
      .numbers = update.numbers,
      .weight = stored_source(weight.master ? weight.master.view : weight.value.view),
      .moment1 = stored_source(update.moment1.view),
      .moment2 = stored_source(update.moment2.view),
      .grad = stored_source(update.grad),
      .has_first = static_cast<bool>(update.moment1),
      .has_second = static_cast<bool>(update.moment2),
      .has_master = static_cast<bool>(weight.master),
      .blocks = update.blocks,
      .most = MomentLimits(update),
      .control = op.control,
      .cols = update.grad.cols,
      .first = first};
  for_each_place(stream, 1, 1, ForgetOverflow{first});
  for_each_place(stream, update.grad.rows, update.grad.cols, find);
  for_each_place(stream, 1, 1, ReportOverflow{first, op.control, op.parameter});
}

}  // namespace ng::cuda
