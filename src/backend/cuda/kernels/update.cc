// An optimizer's update: new weights and moments into what is stored. The bits of `ref`.
#include <algorithm>

#include "backend/cuda/kernels/block_operand.h"
#include "backend/cuda/kernels/step_norm.h"
#include "backend/cuda/kernels/update_scales.h"
#include "backend/cuda/kernels/update_strips.h"

namespace ng::cuda {
namespace {

/// Of threads that a multiprocessor has: with more in view ptxas puts registers into memory.
constexpr int kUpdateBlocks = 2;

__device__ inline UpdateReport sum_of_lanes(UpdateReport sums) {
  sums.update_squares = sum_of_warp(sums.update_squares);
  sums.target_squares = sum_of_warp(sums.target_squares);
  sums.product = sum_of_warp(sums.product);
  sums.changed = sum_of_warp(sums.changed);
  return sums;
}

/// Parts of rows that a warp updates each: rows, or where there are few of them, as a vector has,
/// so many columns of one that a card is busy.
struct RowParts {
  static constexpr int64_t kManyRows = 1024, kManyParts = 8192, kFewCols = 256;
  int64_t width = 0;
  Divisor per_row;

  RowParts(int64_t rows, int64_t cols)
      : width(rows < kManyRows ? width_of(rows * cols) : cols),
        per_row(std::max<int64_t>((cols + width - 1) / width, 1)) {}

 private:
  static int64_t width_of(int64_t size) {
    return (size / kManyParts + kFewCols) / kFewCols * kFewCols;
  }
};

/// A part of a row by a warp, whose sums go into `parts` where anybody asks.
template <UpdateWay kWay, bool kBlocks>
struct UpdatePart {
  UpdateEach<kWay, kBlocks> update;
  int64_t first_row;
  RowParts split;
  UpdateReport* parts;
  __device__ void operator()(int64_t i, int lane) const {
    const auto [at, part] = split.per_row.split(i);
    const int64_t row = first_row + at, first = part * split.width, cols = update.t.value.cols;
    const int64_t end = first + split.width < cols ? first + split.width : cols;
    UpdateReport sums;
    const int together = update.t.together();
    for (int64_t unit = first + lane * together; unit < end; unit += kWarp * together)
      for (int64_t col = unit; col < unit + together && col < end; ++col) {
        const auto of = update.change(row, col);
        const double changed = static_cast<double>(of.after) - of.before;
        const double wanted = static_cast<double>(update.t.numbers.now().lr) * of.u;
        sums.update_squares += changed * changed;
        sums.target_squares += wanted * wanted;
        sums.product += changed * wanted;
        sums.changed += of.after != of.before ? 1 : 0;
      }
    if (parts == nullptr) return;
    sums = sum_of_lanes(sums);
    if (lane == 0) parts[first_row * split.per_row.by() + i] = sums;
  }
};

/// Of all parts, by a warp.
struct ReportParts {
  const UpdateReport* parts;
  int64_t count;
  UpdateReport* report;
  CardOptimizerNumbers numbers;
  const float* alpha;  ///< null: the rate
  const StepControl* control;
  __device__ void operator()(int64_t /* row */, int lane) const {
    if (skips(control)) return;
    UpdateReport sums;
    for (int64_t i = lane; i < count; i += kWarp) {
      sums.update_squares += parts[i].update_squares;
      sums.target_squares += parts[i].target_squares;
      sums.product += parts[i].product;
      sums.changed += parts[i].changed;
    }
    sums = sum_of_lanes(sums);
    if (lane != 0) return;
    sums.alpha = alpha != nullptr ? *alpha : numbers.now().lr;
    *report = sums;
  }
};

/// A tensor; one whose values wait for scales or codes does so in a strip.
StoredTensor tensor_of(const Stored& y, const StepKey& key, Purpose purpose,
                       const CardScale* scale) {
  if (!waits_in_strip(y)) return stored_tensor(Update::kName, y, key, purpose, scale);
  StoredTensor tensor;
  tensor.is_decoded = is_coded(y.view);
  if (!tensor.is_decoded) tensor.before = stored_source(y.view);
  tensor.cols = y.view.cols;
  return tensor;
}

UpdateTensors tensors_of(Stream stream, const Update& op, UpdateScratch* scratch) {
  op.check_shapes();
  RandomKey of_weight = op.key;
  of_weight.micro = 0;
  of_weight.purpose = Purpose::weight_update;
  const StepKey key = step_key(stream, of_weight);
  return {
      .rule = op.optimizer,
      .numbers = {op.numbers, live_numbers(stream)},
      .master = stored_tensor(Update::kName, op.weight.master, {}, {}, &scratch->master),
      .value = tensor_of(rounded_value(op.weight), key, Purpose::weight_update, &scratch->value),
      .moment1 = tensor_of(op.moment1, key, Purpose::moment1, &scratch->moment1),
      .moment2 = tensor_of(op.moment2, key, Purpose::moment2, &scratch->moment2),
      .carry = plain_tensor(Update::kName, op.weight.carry),
      .blocks = op.blocks,
      .grad = stored_source(op.grad),
      .key = key,
      .alpha = nullptr,
      .control = op.control};
}

/// An update under way: what is decided of all of a tensor before any of it is stored, then its
/// rows. `strips` is where those lie that go by way of the scratch.
class Updater {
 public:
  Updater(Stream stream, const Update& op, const UpdateTensors& tensors, UpdateScratch* own,
          const Scratch& strips)
      : stream_(stream), op_(op), t_(tensors), own_(own), strips_(strips) {}

  /// Finds what weights and moments become, without storing any.
  void find_new_largest(UpdateWay way, bool is_of_master) const {
    const auto find = [&](const UpdateTensors& t, const RowRange& rows) {
      with_way(way, [&]<UpdateWay kWay>() {
        for_each_row<kUpdateBlocks>(stream_, rows.count,
                                    FindNewLargest<kWay>{{t}, own_, is_of_master, rows.first});
      });
    };
    if (!has_coded_moment(op_)) return find(t_, {0, op_.grad.rows});
    for_strips(stream_, op_, t_, strips_,
               [&](const UpdateStrip& strip) { find(strip.t, strip.at.rows); });
  }

  void decide_scales() const {
    const UpdatedWeight& weight = op_.weight;
    bool decides = op_.has_shared_scales();
    for (const Stored* y : {&weight.value, &weight.master, &op_.moment1, &op_.moment2})
      decides = decides || has_levels(*y);
    if (!decides) return;
    const UpdateWay way = way_of(weight);
    find_new_largest(way, false);
    decide(weight.master, &own_->master, false, largest_of_weight());
    decide(op_.moment2, &own_->moment2, false, shared(&UpdateMaxima::moment2));
    decide_value();
    if (way == UpdateWay::feedback) find_largest_fed();
    decide(op_.moment1, &own_->moment1, false, shared(&UpdateMaxima::moment1));
  }

  /// One block of threads goes over all of a tensor again and again: moments are decoded but once.
  void find_step_length() {
    NG_CHECK(!waits_in_strip(op_.weight.value), op_.weight.value.cast.element->name);
    UpdateTensors t = t_;
    if (has_coded_moment(op_)) t = begin_strip(stream_, op_, t_, strips_, {0, op_.grad.rows}).t;
    find_step(stream_, op_, t, &own_->alpha);
    t_.alpha = &own_->alpha;
  }

  /// Some rows at a time where a tensor waits in a strip, else all at once.
  void update(UpdateReport* reports) const {
    if (!has_waiting_moment(op_) && !waits_in_strip(op_.weight.value))
      return update_rows({.at = {.rows = {0, op_.grad.rows}}, .t = t_}, reports);
    for_strips(stream_, op_, t_, strips_, [&](UpdateStrip& strip) {
      choose_scales(strip);
      update_rows(strip, reports);
      end_strip(stream_, op_, strip, own_);
    });
  }

  void put_scales() const {
    const auto put = [&](const Stored& y, const CardScale* scale, const float* alpha) {
      if (has_shared_scale(y)) put_shared_scale(stream_, y, scale, op_.control, alpha);
      if (has_levels(y)) put_level(stream_, y, scale, op_.control);
    };
    put(op_.weight.master, &own_->master, nullptr);
    put(op_.weight.value, &own_->value, t_.alpha);
    put(op_.moment1, &own_->moment1, nullptr);
    put(op_.moment2, &own_->moment2, nullptr);
  }

  [[nodiscard]] const float* alpha() const { return t_.alpha; }

 private:
  [[nodiscard]] const float* shared(const float UpdateMaxima::*which) const {
    return op_.maxima != nullptr ? &(op_.maxima->*which) : nullptr;
  }
  /// What the carry of a weight adds is no part of what all ranks look for.
  [[nodiscard]] const float* largest_of_weight() const {
    const UpdateWay way = way_of(op_.weight);
    const bool is_shared = way == UpdateWay::direct || way == UpdateWay::rounded;
    return is_shared ? shared(&UpdateMaxima::weight) : nullptr;
  }
  /// The same of the value, which may be made of a master.
  [[nodiscard]] const float* largest_of_value() const {
    if (!op_.weight.master) return largest_of_weight();
    return op_.maxima != nullptr ? &own_->of_value : nullptr;
  }

  void decide(const Stored& y, CardScale* scale, bool is_kept, const float* largest) const {
    if (has_shared_scale(y))
      decide_shared_scale(stream_, scale, shared_scale_rule(y, is_kept, largest));
    if (has_levels(y)) decide_levels(stream_, {.data = scale}, y.cast, largest);
  }

  void decide_value() const {
    const UpdatedWeight& weight = op_.weight;
    if (weight.master && op_.maxima != nullptr)
      for_each_place(stream_, 1, 1, RoundLargest{t_.master, op_.maxima, own_});
    if (weight.master && (has_shared_scale(weight.value) || has_levels(weight.value)))
      find_new_largest(UpdateWay::direct, true);
    const bool is_kept = !weight.master || weight.keeps_scale;
    decide(weight.value, &own_->value, is_kept, largest_of_value());
  }

  /// Of the first moment with the errors of rounding.
  void find_largest_fed() const {
    if (!has_shared_scale(op_.moment1) && !has_levels(op_.moment1)) return;
    const auto find = [&]<bool kBlocks>(const UpdateEach<UpdateWay::feedback, kBlocks>& each,
                                        const RowRange& rows) {
      for_each_row<kUpdateBlocks>(stream_, rows.count,
                                  FindLargestFed<kBlocks>{each, &own_->moment1, rows.first});
    };
    if (!waits_in_strip(op_.weight.value) && !has_coded_moment(op_))
      return find(UpdateEach<UpdateWay::feedback>{t_}, {0, op_.grad.rows});
    for_strips(stream_, op_, t_, strips_, [&](UpdateStrip& strip) {
      choose_scales(strip);
      if (waits_in_strip(op_.weight.value))
        find(UpdateEach<UpdateWay::feedback, true>{strip.t, strip.by}, strip.at.rows);
      else
        find(UpdateEach<UpdateWay::feedback>{strip.t}, strip.at.rows);
    });
  }

  /// Of a value that waits for them.
  void choose_scales(UpdateStrip& strip) const {
    if (!waits_in_strip(op_.weight.value)) return;
    with_way(way_of(op_.weight), [&]<UpdateWay kWay>() {
      for_each_row<kUpdateBlocks>(
          stream_, strip.at.rows.count,
          MakeWeights<kWay>{{strip.t}, strip.at.weights, strip.at.rows.first});
    });
    choose_value_scales(stream_, op_, strip, own_, largest_of_value());
  }

  void update_rows(const UpdateStrip& strip, UpdateReport* reports) const {
    const RowRange& rows = strip.at.rows;
    const RowParts split(op_.grad.rows, op_.grad.cols);
    const int64_t parts = rows.count * split.per_row.by();
    with_way(way_of(op_.weight), [&]<UpdateWay kWay>() {
      if (waits_in_strip(op_.weight.value))
        for_each_row<kUpdateBlocks>(
            stream_, parts,
            UpdatePart<kWay, true>{{strip.t, strip.by}, rows.first, split, reports});
      else
        for_each_row<kUpdateBlocks>(stream_, parts,
                                    UpdatePart<kWay, false>{{strip.t}, rows.first, split, reports});
    });
  }

  Stream stream_;
  const Update& op_;
  UpdateTensors t_;
  UpdateScratch* own_;
  Scratch strips_;
};

}  // namespace

void perform(Stream stream, const Update& op, const Scratch& scratch) {
  auto* own = scratch.take<UpdateScratch>(Update::kName, 1);
  const Scratch behind = scratch.behind<UpdateScratch>(1);
  const UpdateTensors t = tensors_of(stream, op, own);
  if (op.grad.size() == 0) return;
  const int64_t reported =
      op.report != nullptr ? op.grad.rows * RowParts(op.grad.rows, op.grad.cols).per_row.by() : 0;
  auto* parts = op.report != nullptr ? behind.take<UpdateReport>(Update::kName, reported) : nullptr;
  Updater updater(stream, op, t, own, behind.behind<UpdateReport>(reported));
  for_each_place(stream, 1, 1, ForgetNewScales{own});
  updater.decide_scales();
  if (way_of(op.weight) == UpdateWay::rounded && op.weight.rule == UpdateRule::precision_aware)
    updater.find_step_length();
  updater.update(parts);
  updater.put_scales();
  if (parts != nullptr)
    for_each_row(stream, 1,
                 ReportParts{parts, reported, op.report, t.numbers, updater.alpha(), op.control});
}

void perform(Stream stream, const FindUpdateMaxima& op, const Scratch& scratch) {
  const Update& update = op.update;
  auto* found = scratch.take<UpdateScratch>(FindUpdateMaxima::kName, 1);
  const UpdateTensors t = tensors_of(stream, update, found);
  for_each_place(stream, 1, 1, ForgetNewScales{found});
  const bool is_direct = goes_direct(update.weight);
  if (update.has_shared_scales())
    Updater(stream, update, t, found, scratch.behind<UpdateScratch>(1))
        .find_new_largest(is_direct ? UpdateWay::direct : UpdateWay::rounded, false);
  for_each_place(
      stream, 1, 1,
      PutMaxima{found, static_cast<bool>(update.weight.master), update.control, op.maxima});
}

}  // namespace ng::cuda
