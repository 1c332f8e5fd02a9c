// What ends a step: its decision, values into what is stored, the optimizer's update. The bits of
// `ref`.
#include <cmath>

#include "backend/cuda/kernels/element_cast.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/values.h"
#include "backend/host_step.h"
#include "format/codec.h"

namespace ng::cuda {
namespace {

/// A tensor of unscaled elements of 8, 16 or 32 bits that is read and stored by a cast.
struct StoredValues {
  void* data = nullptr;  ///< null: there is none
  int64_t cols = 0, stride = 0;
  int bits = 0;  ///< 32: FP32
  ElementCast cast{};

  [[nodiscard]] __device__ float operator()(int64_t row, int64_t col) const {
    const int64_t at = row * stride + col;
    if (bits == 32) return static_cast<const float*>(data)[at];
    return decode_float(cast.grid, bits == 16 ? static_cast<const uint16_t*>(data)[at]
                                              : static_cast<const uint8_t*>(data)[at]);
  }
  __device__ void put(int64_t row, int64_t col, float value) const {
    const int64_t at = row * stride + col;
    if (bits == 32) {
      static_cast<float*>(data)[at] = value;
      return;
    }
    const uint32_t code = code_of(cast, value, row, col, cols);
    if (bits == 16)
      static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(code);
    else
      static_cast<uint8_t*>(data)[at] = static_cast<uint8_t>(code);
  }
};

StoredValues stored_values(std::string_view operation, const Stored& y, RandomKey key,
                           Purpose purpose) {
  if (!y) return {};
  const Operand& cast = y.cast;
  const bool is_plain = cast.is_unscaled() && cast.element->kind == ElementKind::floating &&
                        cast.rounding != Rounding::eden && cast.prescale == 1.0f &&
                        cast.subnormals == Subnormals::keep;
  const int bits = cast.element->bits;
  if (!is_plain || (bits != 8 && bits != 16 && !cast.is_fp32()))
    refuse(operation, *cast.element, y.view.has_scales());
  key.purpose = purpose;
  const bool draws = cast.rounding == Rounding::stochastic;
  return {.data = y.view.data,
          .cols = y.view.cols,
          .stride = y.view.stride,
          .bits = bits,
          .cast = {.grid = cast.is_fp32() ? FloatGrid{} : grid_of(*cast.element),
                   .overflow = overflow_rule(cast.overflow),
                   .mode = draws ? RoundMode::sr : RoundMode::rne,
                   .sr_bits = cast.sr_bits,
                   .key = key}};
}

/// Of a step whose decision lies in the card's memory; null: never skipped, scale 1.
__device__ inline bool skips(const StepControl* control) {
  return control != nullptr && control->skip != 0;
}
__device__ inline float scale_of(OptimizerRule rule, const StepControl* control) {
  return rule == OptimizerRule::muon || control == nullptr ? 1.0f : control->grad_scale;
}

struct StoreEach {
  StoredValues y;
  Source x;
  const StepControl* control;
  __device__ void operator()(int64_t row, int64_t col) const {
    if (!skips(control)) y.put(row, col, x(row, col));
  }
};

struct Decide {
  DecideStep op;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const { decide_step(op); }
};

struct UpdateEach {
  OptimizerRule rule;
  OptimizerNumbers numbers;
  StoredValues weight;  ///< the master, or where there is none the value
  StoredValues value;   ///< made of the master; none: there is no master
  bool is_direct;       ///< the new weight goes into `weight` as it is; else w + lr·u is rounded
  StoredValues moment1, moment2;
  Source grad;
  const StepControl* control;

  /// What became of a weight: of its value as it is stored, and as it was asked.
  struct Change {
    float before = 0, after = 0, u = 0;
  };

  __device__ void operator()(int64_t row, int64_t col) const { change(row, col); }

  __device__ Change change(int64_t row, int64_t col) const {
    if (skips(control)) return {};
    const StoredValues& shown = value.data != nullptr ? value : weight;
    const float before = shown(row, col);
    const ElementRule element(rule, numbers);
    const float g = grad(row, col) * scale_of(rule, control);
    const float w = weight(row, col);
    float m = moment1.data != nullptr ? moment1(row, col) : 0.0f;
    float v = moment2.data != nullptr ? moment2(row, col) : 0.0f;
    element.move(g, m, v);
    const float x =
        is_direct ? element.new_weight(w, m, v, g) : w + numbers.lr * element.direction(w, m, v, g);
    weight.put(row, col, x);
    if (value.data != nullptr) value.put(row, col, x);
    if (moment1.data != nullptr) moment1.put(row, col, m);
    if (moment2.data != nullptr) moment2.put(row, col, v);
    return {before, shown(row, col), element.direction(w, m, v, g)};
  }
};

/// A row by a warp, whose sums go into `rows`.
struct UpdateRow {
  UpdateEach update;
  UpdateReport* rows;
  __device__ void operator()(int64_t row, int lane) const {
    UpdateReport sums;
    for (int64_t col = lane; col < update.grad.cols; col += kWarp) {
      const UpdateEach::Change of = update.change(row, col);
      const double changed = static_cast<double>(of.after) - of.before;
      const double wanted = static_cast<double>(update.numbers.lr) * of.u;
      sums.update_squares += changed * changed;
      sums.target_squares += wanted * wanted;
      sums.product += changed * wanted;
      sums.changed += of.after != of.before ? 1 : 0;
    }
    sums.update_squares = sum_of_warp(sums.update_squares);
    sums.target_squares = sum_of_warp(sums.target_squares);
    sums.product = sum_of_warp(sums.product);
    sums.changed = sum_of_warp(sums.changed);
    if (lane == 0) rows[row] = sums;
  }
};

/// Rows in their order.
struct ReportRows {
  const UpdateReport* rows;
  int64_t count;
  UpdateReport* report;
  float lr;
  const StepControl* control;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    if (skips(control)) return;
    UpdateReport sums;
    for (int64_t row = 0; row < count; ++row) {
      sums.update_squares += rows[row].update_squares;
      sums.target_squares += rows[row].target_squares;
      sums.product += rows[row].product;
      sums.changed += rows[row].changed;
    }
    sums.alpha = lr;
    *report = sums;
  }
};

[[noreturn]] void refuse_update(const char* what) {
  throw Unsupported("cuda: update " + std::string(what));
}

UpdateEach update_each(const Update& op) {
  op.check_shapes();
  const UpdatedWeight& weight = op.weight;
  if (op.optimizer == OptimizerRule::adam_mini) refuse_update("by adam_mini");
  if (weight.momentum_feedback) refuse_update("with feedback into the momentum");
  if (weight.master && !weight.master.cast.is_fp32()) refuse_update("of narrow masters");
  const bool is_direct = weight.master || weight.value.cast.is_fp32();
  if (!is_direct && weight.rule != UpdateRule::nearest && weight.rule != UpdateRule::stochastic)
    refuse_update("by other rules than nearest and stochastic");
  RandomKey key = op.key;
  key.micro = 0;
  const auto stored = [&](const Stored& y, Purpose purpose) {
    return stored_values(Update::kName, y, key, purpose);
  };
  const bool draws = !is_direct && weight.rule == UpdateRule::stochastic;
  const Stored value = weight.value.rounded_by(draws ? Rounding::stochastic : Rounding::nearest);
  const StoredValues made = stored(value, Purpose::weight_update);
  const bool has_master = static_cast<bool>(weight.master);
  return {.rule = op.optimizer,
          .numbers = op.numbers,
          .weight = has_master ? stored(weight.master, Purpose::weight_update) : made,
          .value = has_master ? made : StoredValues{},
          .is_direct = is_direct,
          .moment1 = stored(op.moment1, Purpose::moment1),
          .moment2 = stored(op.moment2, Purpose::moment2),
          .grad = source_of(Update::kName, op.grad),
          .control = op.control};
}

/// The first value, in order, of which a state would overflow: its index · 4 and which state.
struct FindOverflow {
  UpdateEach update;
  MomentLimits most;
  unsigned long long* first;  ///< ~0: none

  __device__ void operator()(int64_t row, int64_t col) const {
    const StepControl& control = *update.control;
    if (control.overflowing != StoredState::none || control.skip != 0) return;
    if (surely_fits(update.rule, update.numbers, most, control)) return;
    const ElementRule element(update.rule, update.numbers);
    const float g = update.grad(row, col) * scale_of(update.rule, update.control);
    float m = update.moment1.data != nullptr ? update.moment1(row, col) : 0.0f;
    float v = update.moment2.data != nullptr ? update.moment2(row, col) : 0.0f;
    element.move(g, m, v);
    StoredState state = StoredState::none;
    if (!std::isfinite(element.new_weight(update.weight(row, col), m, v, g)))
      state = update.value.data != nullptr ? StoredState::master : StoredState::weight;
    if (!(std::fabs(v) <= most.second)) state = StoredState::moment2;
    if (!(std::fabs(m) <= most.first)) state = StoredState::moment1;
    if (state == StoredState::none) return;
    const auto at = static_cast<unsigned long long>(row * update.grad.cols + col);
    atomicMin(first, at * kStates + static_cast<uint32_t>(state));
  }

  static constexpr unsigned long long kStates = 8;
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

void perform(Stream stream, const DecideStep& op) { for_each_place(stream, 1, 1, Decide{op}); }

void perform(Stream stream, const Store& op) {
  NG_CHECK(same_shape(op.y.view, op.x), op.y.view.rows, op.y.view.cols, op.x.rows, op.x.cols);
  for_each_place(stream, op.x.rows, op.x.cols,
                 StoreEach{stored_values(Store::kName, op.y, op.key, op.key.purpose),
                           source_of(Store::kName, op.x), op.control});
}

void perform(Stream stream, const Update& op, const Scratch& scratch) {
  const UpdateEach update = update_each(op);
  if (op.report == nullptr) return for_each_place(stream, op.grad.rows, op.grad.cols, update);
  auto* rows = scratch.take<UpdateReport>(Update::kName, op.grad.rows);
  for_each_row(stream, op.grad.rows, UpdateRow{update, rows});
  for_each_place(stream, 1, 1,
                 ReportRows{rows, op.grad.rows, op.report, op.numbers.lr, op.control});
}

void perform(Stream stream, const FindUpdateMaxima& op) {
  if (op.update.has_shared_scales()) refuse_update("of tensors with scales");
  perform(stream, Clear{{reinterpret_cast<std::byte*>(op.maxima), sizeof *op.maxima}});
}

void perform(Stream stream, const CheckUpdate& op, const Scratch& scratch) {
  Update update = op.update;
  update.control = op.control;
  auto* first = scratch.take<unsigned long long>(CheckUpdate::kName, 1);
  const FindOverflow find{update_each(update), MomentLimits(update), first};
  for_each_place(stream, 1, 1, ForgetOverflow{first});
  for_each_place(stream, update.grad.rows, update.grad.cols, find);
  for_each_place(stream, 1, 1, ReportOverflow{first, op.control, op.parameter});
}

}  // namespace ng::cuda
