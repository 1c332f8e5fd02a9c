// An optimizer's update: new weights and moments into what is stored. The bits of `ref`.
#include <algorithm>

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

bool has_block_scales(const Stored& y) {
  return y && !y.cast.is_unscaled() && !has_shared_scale(y);
}

/// A moment; one whose blocks have scales waits for them in a strip.
StoredTensor moment(const Update& op, const Stored& y, Purpose purpose, const CardScale* scale) {
  RandomKey key = op.key;
  key.micro = 0;
  if (!has_block_scales(y)) return stored_tensor(Update::kName, y, key, purpose, scale);
  StoredTensor tensor;
  tensor.before = stored_source(y.view);
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
void find_new_largest(Stream stream, UpdateWay way, const UpdateTensors& t, int64_t rows,
                      UpdateScratch* to, bool is_of_master) {
  with_way(way, [&]<UpdateWay kWay>() {
    for_each_row(stream, rows, FindNewLargest<kWay>{{t}, to, is_of_master});
  });
}

void decide_scales(Stream stream, const Update& op, const UpdateTensors& t, UpdateScratch* to) {
  if (!op.has_shared_scales()) return;
  const UpdatedWeight& weight = op.weight;
  const UpdateWay way = way_of(weight);
  const UpdateMaxima* all = op.maxima;
  const auto shared = [&](const float UpdateMaxima::*which) {
    return all != nullptr ? &(all->*which) : nullptr;
  };
  // What the carry of a weight adds is no part of what all ranks look for.
  const bool is_shared = way == UpdateWay::direct || way == UpdateWay::rounded;
  const float* of_weight = is_shared ? shared(&UpdateMaxima::weight) : nullptr;
  find_new_largest(stream, way, t, op.grad.rows, to, false);
  decide(stream, weight.master, &to->master, false, of_weight);
  decide(stream, op.moment1, &to->moment1, false, shared(&UpdateMaxima::moment1));
  decide(stream, op.moment2, &to->moment2, false, shared(&UpdateMaxima::moment2));
  if (!weight.master) return decide(stream, weight.value, &to->value, true, of_weight);
  if (!has_shared_scale(weight.value)) return;
  find_new_largest(stream, way, t, op.grad.rows, to, true);
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
}

/// Rows that blocks of a moment end with.
int64_t strip_height(const Stored& y, int64_t rows) {
  if (!has_block_scales(y)) return 1;
  if (y.cast.block.kind == Block::Kind::tensor) return rows;
  return y.cast.block.kind == Block::Kind::tile ? y.cast.block.rows : 1;
}

void update_rows(Stream stream, const Update& op, const UpdateTensors& t, int64_t first,
                 int64_t count, UpdateReport* rows) {
  with_way(way_of(op.weight), [&]<UpdateWay kWay>() {
    for_each_row<kUpdateBlocks>(stream, count, UpdateRow<kWay>{{t}, first, rows});
  });
}

void store_strip(Stream stream, const Update& op, const Stored& y, Purpose purpose, int64_t first,
                 int64_t count, const float* values) {
  if (!has_block_scales(y)) return;
  RandomKey key = op.key;
  key.purpose = purpose;
  key.micro = 0;
  store_blocks(stream, {.operation = Update::kName,
                        .y = y,
                        .key = key,
                        .strip = values,
                        .strip_row = first,
                        .strip_rows = count,
                        .control = op.control});
}

/// Some rows at a time where a moment waits for its scales, else all at once.
void update_in_strips(Stream stream, const Update& op, UpdateTensors t, UpdateReport* rows,
                      const Scratch& scratch) {
  const int64_t all = op.grad.rows, cols = op.grad.cols;
  const bool waits1 = has_block_scales(op.moment1), waits2 = has_block_scales(op.moment2);
  if (!waits1 && !waits2) return update_rows(stream, op, t, 0, all, rows);
  const int64_t height = std::max(strip_height(op.moment1, all), strip_height(op.moment2, all));
  if (height % strip_height(op.moment1, all) != 0 || height % strip_height(op.moment2, all) != 0)
    refuse_update("of moments in blocks of such heights");
  const auto room = static_cast<int64_t>(scratch.bytes / (2 * sizeof(float)));
  const int64_t count = std::min(all, std::max<int64_t>(room / cols / height, 1) * height);
  auto* strips = scratch.take<float>(Update::kName, 2 * count * cols);
  if (waits1) t.moment1.strip = strips;
  if (waits2) t.moment2.strip = strips + count * cols;
  for (int64_t first = 0; first < all; first += count) {
    const int64_t some = std::min(count, all - first);
    t.moment1.strip_row = t.moment2.strip_row = first;
    update_rows(stream, op, t, first, some, rows);
    store_strip(stream, op, op.moment1, Purpose::moment1, first, some, t.moment1.strip);
    store_strip(stream, op, op.moment2, Purpose::moment2, first, some, t.moment2.strip);
  }
}

}  // namespace

void perform(Stream stream, const Update& op, const Scratch& scratch) {
  auto* own = scratch.take<UpdateScratch>(Update::kName, 1);
  const Scratch behind = scratch.behind<UpdateScratch>(1);
  UpdateTensors t = tensors_of(op, own);
  if (op.grad.size() == 0) return;
  for_each_place(stream, 1, 1, ForgetNewScales{own});
  decide_scales(stream, op, t, own);
  if (way_of(op.weight) == UpdateWay::rounded && op.weight.rule == UpdateRule::precision_aware) {
    find_step(stream, op, t, &own->alpha);
    t.alpha = &own->alpha;
  }
  const int64_t reported = op.report != nullptr ? op.grad.rows : 0;
  auto* rows = op.report != nullptr ? behind.take<UpdateReport>(Update::kName, reported) : nullptr;
  update_in_strips(stream, op, t, rows, behind.behind<UpdateReport>(reported));
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
    find_new_largest(stream, is_direct ? UpdateWay::direct : UpdateWay::rounded, t,
                     update.grad.rows, found, false);
  for_each_place(
      stream, 1, 1,
      PutMaxima{found, static_cast<bool>(update.weight.master), update.control, op.maxima});
}

}  // namespace ng::cuda
