// An optimizer's update: new weights and moments into what is stored. The bits of `ref`.
#include "backend/cuda/kernels/block_operand.h"
#include "backend/cuda/kernels/moment_strips.h"
#include "backend/cuda/kernels/step_norm.h"
#include "backend/cuda/kernels/update_scales.h"

namespace ng::cuda {
namespace {

[[noreturn]] void refuse_update(const char* what) {
  throw Unsupported("cuda: update " + std::string(what));
}

/// Of threads that a multiprocessor has: with more in view ptxas puts registers into memory.
constexpr int kUpdateBlocks = 2;

/// A row by a warp, whose sums go into `rows` where anybody asks.
template <UpdateWay kWay>
struct UpdateRow {
  UpdateEach<kWay> update;
  int64_t first_row;
  UpdateReport* rows;
  __device__ void operator()(int64_t i, int lane) const {
    const int64_t row = first_row + i;
    UpdateReport sums;
    const int together = update.t.together();
    for (int64_t unit = lane; unit * together < update.t.value.cols; unit += kWarp)
      for (int64_t col = unit * together;
           col < unit * together + together && col < update.t.value.cols; ++col) {
        const auto of = update.change(row, col);
        const double changed = static_cast<double>(of.after) - of.before;
        const double wanted = static_cast<double>(update.t.numbers.lr) * of.u;
        sums.update_squares += changed * changed;
        sums.target_squares += wanted * wanted;
        sums.product += changed * wanted;
        sums.changed += of.after != of.before ? 1 : 0;
      }
    if (rows == nullptr) return;
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
  const float* alpha;  ///< null: lr
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
    sums.alpha = alpha != nullptr ? *alpha : lr;
    *report = sums;
  }
};

bool goes_direct(const UpdatedWeight& weight) {
  return weight.master || weight.value.cast.is_fp32();
}

UpdateWay way_of(const UpdatedWeight& weight) {
  if (goes_direct(weight)) return UpdateWay::direct;
  if (weight.momentum_feedback) return UpdateWay::feedback;
  if (weight.rule == UpdateRule::kahan) return UpdateWay::kahan;
  return weight.rule == UpdateRule::residual ? UpdateWay::residual : UpdateWay::rounded;
}

/// f.operator()<way>()
template <class F>
void with_way(UpdateWay way, const F& f) {
  switch (way) {
    case UpdateWay::direct:
      return f.template operator()<UpdateWay::direct>();
    case UpdateWay::rounded:
      return f.template operator()<UpdateWay::rounded>();
    case UpdateWay::feedback:
      return f.template operator()<UpdateWay::feedback>();
    case UpdateWay::kahan:
      return f.template operator()<UpdateWay::kahan>();
    case UpdateWay::residual:
      return f.template operator()<UpdateWay::residual>();
  }
}

/// A moment; one whose values wait for scales or codes does so in a strip.
StoredTensor moment(const Update& op, const Stored& y, Purpose purpose, const CardScale* scale) {
  RandomKey key = op.key;
  key.micro = 0;
  if (!waits_in_strip(y)) return stored_tensor(Update::kName, y, key, purpose, scale);
  StoredTensor tensor;
  tensor.is_decoded = is_coded(y.view);
  if (!tensor.is_decoded) tensor.before = stored_source(y.view);
  tensor.cols = y.view.cols;
  return tensor;
}

UpdateTensors tensors_of(const Update& op, UpdateScratch* scratch) {
  op.check_shapes();
  const UpdatedWeight& weight = op.weight;
  const UpdateWay way = way_of(weight);
  if (way == UpdateWay::residual && weight.value.cast.element->kind != ElementKind::floating)
    refuse_update("of integers with a residual");
  if (way == UpdateWay::feedback && has_shared_scale(op.moment1))
    refuse_update("with feedback into a momentum of one scale");
  const bool draws = way != UpdateWay::direct && weight.rule == UpdateRule::stochastic;
  RandomKey key = op.key;
  key.micro = 0;
  key.purpose = Purpose::weight_update;
  UpdateTensors t{.rule = op.optimizer,
                  .numbers = op.numbers,
                  .master = stored_tensor(Update::kName, weight.master, {}, {}, &scratch->master),
                  .value = {},
                  .moment1 = moment(op, op.moment1, Purpose::moment1, &scratch->moment1),
                  .moment2 = moment(op, op.moment2, Purpose::moment2, &scratch->moment2),
                  .carry = plain_tensor(Update::kName, weight.carry),
                  .blocks = op.blocks,
                  .grad = stored_source(op.grad),
                  .key = key,
                  .alpha = nullptr,
                  .control = op.control};
  const Stored value = weight.value.rounded_by(draws ? Rounding::stochastic : Rounding::nearest);
  t.value = stored_tensor(Update::kName, value, key, Purpose::weight_update, &scratch->value);
  return t;
}

void decide(Stream stream, const Stored& y, CardScale* scale, bool is_kept, const float* shared) {
  if (has_shared_scale(y))
    decide_shared_scale(stream, scale, shared_scale_rule(y, is_kept, shared));
}

/// Finds what weights and moments become, without storing any.
void find_new_largest(Stream stream, UpdateWay way, const Update& op, const UpdateTensors& t,
                      const Scratch& strips, UpdateScratch* to, bool is_of_master) {
  const auto find = [&](const UpdateTensors& of, const RowRange& rows) {
    with_way(way, [&]<UpdateWay kWay>() {
      for_each_row(stream, rows.count, FindNewLargest<kWay>{{of}, to, is_of_master, rows.first});
    });
  };
  if (has_coded_moment(op)) return for_strips(stream, op, t, strips, find);
  find(t, {0, op.grad.rows});
}

void decide_level(Stream stream, const Stored& y, CardScale* level, const float* amax) {
  if (has_levels(y)) decide_levels(stream, {.data = level}, y.cast, amax);
}

void decide_scales(Stream stream, const Update& op, const UpdateTensors& t, const Scratch& strips,
                   UpdateScratch* to) {
  if (!op.has_shared_scales() && !has_levels(op.moment1) && !has_levels(op.moment2)) return;
  const UpdatedWeight& weight = op.weight;
  const UpdateWay way = way_of(weight);
  const UpdateMaxima* all = op.maxima;
  const auto shared = [&](const float UpdateMaxima::*which) {
    return all != nullptr ? &(all->*which) : nullptr;
  };
  // What the carry of a weight adds is no part of what all ranks look for.
  const bool is_shared = way == UpdateWay::direct || way == UpdateWay::rounded;
  const float* of_weight = is_shared ? shared(&UpdateMaxima::weight) : nullptr;
  find_new_largest(stream, way, op, t, strips, to, false);
  decide_level(stream, op.moment1, &to->moment1, shared(&UpdateMaxima::moment1));
  decide_level(stream, op.moment2, &to->moment2, shared(&UpdateMaxima::moment2));
  decide(stream, weight.master, &to->master, false, of_weight);
  decide(stream, op.moment1, &to->moment1, false, shared(&UpdateMaxima::moment1));
  decide(stream, op.moment2, &to->moment2, false, shared(&UpdateMaxima::moment2));
  if (!weight.master) return decide(stream, weight.value, &to->value, true, of_weight);
  if (!has_shared_scale(weight.value)) return;
  find_new_largest(stream, way, op, t, strips, to, true);
  if (all != nullptr) for_each_place(stream, 1, 1, RoundLargest{t.master, all, to});
  decide(stream, weight.value, &to->value, weight.keeps_scale,
         all != nullptr ? &to->of_value : nullptr);
}

void put_scales(Stream stream, const Update& op, const UpdateTensors& t, UpdateScratch* scratch) {
  const auto put = [&](const Stored& y, const CardScale* scale, const float* alpha) {
    if (has_shared_scale(y)) put_shared_scale(stream, y, scale, op.control, alpha);
  };
  put(op.weight.master, &scratch->master, nullptr);
  put(op.weight.value, &scratch->value, t.alpha);
  put(op.moment1, &scratch->moment1, nullptr);
  put(op.moment2, &scratch->moment2, nullptr);
  if (has_levels(op.moment1)) put_level(stream, op.moment1, &scratch->moment1, op.control);
  if (has_levels(op.moment2)) put_level(stream, op.moment2, &scratch->moment2, op.control);
}

void update_rows(Stream stream, const Update& op, const UpdateTensors& t, const RowRange& rows,
                 UpdateReport* reports) {
  with_way(way_of(op.weight), [&]<UpdateWay kWay>() {
    for_each_row<kUpdateBlocks>(stream, rows.count, UpdateRow<kWay>{{t}, rows.first, reports});
  });
}

/// Some rows at a time where a moment waits in a strip, else all at once.
void update_all(Stream stream, const Update& op, const UpdateTensors& t, UpdateReport* reports,
                UpdateScratch* own, const Scratch& strips) {
  if (!waits_in_strip(op.moment1) && !waits_in_strip(op.moment2))
    return update_rows(stream, op, t, {0, op.grad.rows}, reports);
  for_strips(stream, op, t, strips, [&](const UpdateTensors& of, const RowRange& rows) {
    update_rows(stream, op, of, rows, reports);
    store_moments(stream, op, of, rows, own);
  });
}

/// One block of threads goes over all of a tensor again and again: moments are decoded but once.
void find_step_of(Stream stream, const Update& op, const UpdateTensors& t, float* alpha,
                  const Scratch& strips) {
  if (!has_coded_moment(op)) return find_step(stream, op, t, alpha);
  find_step(stream, op, in_strip(stream, op, t, strips, {0, op.grad.rows}), alpha);
}

}  // namespace

void perform(Stream stream, const Update& op, const Scratch& scratch) {
  auto* own = scratch.take<UpdateScratch>(Update::kName, 1);
  const Scratch behind = scratch.behind<UpdateScratch>(1);
  UpdateTensors t = tensors_of(op, own);
  if (op.grad.size() == 0) return;
  const int64_t reported = op.report != nullptr ? op.grad.rows : 0;
  auto* rows = op.report != nullptr ? behind.take<UpdateReport>(Update::kName, reported) : nullptr;
  const Scratch strips = behind.behind<UpdateReport>(reported);
  for_each_place(stream, 1, 1, ForgetNewScales{own});
  decide_scales(stream, op, t, strips, own);
  if (way_of(op.weight) == UpdateWay::rounded && op.weight.rule == UpdateRule::precision_aware) {
    find_step_of(stream, op, t, &own->alpha, strips);
    t.alpha = &own->alpha;
  }
  update_all(stream, op, t, rows, own, strips);
  put_scales(stream, op, t, own);
  if (rows != nullptr)
    for_each_place(stream, 1, 1,
                   ReportRows{rows, reported, op.report, op.numbers.lr, t.alpha, op.control});
}

void perform(Stream stream, const FindUpdateMaxima& op, const Scratch& scratch) {
  const Update& update = op.update;
  auto* found = scratch.take<UpdateScratch>(FindUpdateMaxima::kName, 1);
  const UpdateTensors t = tensors_of(update, found);
  for_each_place(stream, 1, 1, ForgetNewScales{found});
  const bool is_direct = goes_direct(update.weight);
  if (update.has_shared_scales())
    find_new_largest(stream, is_direct ? UpdateWay::direct : UpdateWay::rounded, update, t,
                     scratch.behind<UpdateScratch>(1), found, false);
  for_each_place(
      stream, 1, 1,
      PutMaxima{found, static_cast<bool>(update.weight.master), update.control, op.maxima});
}

}  // namespace ng::cuda
