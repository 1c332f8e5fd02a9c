#include "backend/cpu/update/updater.h"

#include <algorithm>
#include <numeric>

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/update/adamw_fp32.h"
#include "backend/cpu/update/update.h"
#include "format/codec.h"
#include "format/packing.h"

namespace ng::cpu {
namespace {

Rounding rounding_of(const Update& op) {
  const bool draws = op.weight.rule == UpdateRule::stochastic && !op.weight.master;
  return draws ? Rounding::stochastic : Rounding::nearest;
}

// The second moment is one for each block of rows, and only read.
bool has_block_moment(const Update& op) { return op.optimizer == OptimizerRule::adam_mini; }

}  // namespace

Updater::Updater(Workspace& workspace, const Update& op)
    : workspace_(workspace),
      op_(op),
      value_(op.kName, op.weight.value.rounded_by(rounding_of(op)), op.key, Purpose::weight_update),
      master_(op.kName, op.weight.master.rounded_by(Rounding::nearest), op.key,
              Purpose::weight_update),
      moment1_(op.kName, op.moment1, op.key, Purpose::moment1),
      moment2_(op.kName, has_block_moment(op) ? Stored{} : op.moment2, op.key, Purpose::moment2),
      grad_(op.kName, as_stored(op.grad), op.key, Purpose::weight_update),
      carry_(op.weight.carry),
      walk_(0, 0, 16),
      step_(op.numbers.lr) {
  op.check_shapes();
  grad_scale_ = op.grad_scale();
  make_walk();
  take_pass_memory();
}

bool Updater::is_direct() const { return master_ || value_.is_fp32(); }
bool Updater::has_feedback() const { return op_.weight.momentum_feedback && !is_direct(); }

void Updater::make_walk() {
  StoredCodec* const codecs[] = {&value_, &master_, &moment1_, &moment2_, &grad_};
  const bool is_by_rows = has_block_moment(op_) && op_.blocks.blocks() > 1;
  is_flat_ = !is_by_rows && (carry_.rows == 0 || carry_.contiguous());
  walk_ = walk_through(codecs, op_.grad.rows, op_.grad.cols, is_flat_);
  if (is_flat_ && carry_.rows > 0) carry_ = flattened(carry_);
}

void Updater::take_pass_memory() {
  const std::span<std::byte> shared = workspace_.shared();
  size_t end = 0;
  const auto take = [&](auto* type, int64_t count) {
    using Value = std::remove_pointer_t<decltype(type)>;
    auto* const at = reinterpret_cast<Value*>(shared.data() + end);
    end += (static_cast<size_t>(count) * sizeof(Value) + 63) / 64 * 64;
    return at;
  };
  sums_ = take(sums_, walk_.items() * static_cast<int64_t>(kProbes + 1));
  if (op_.weight.rule == UpdateRule::precision_aware) sampled_ = take(sampled_, 2 * kSampled);
  if (op_.report != nullptr) reports_ = take(reports_, walk_.items());
  for (StoredCodec* codec : {&value_, &master_, &moment1_, &moment2_}) {
    const int64_t count = codec->scale_count();
    uint32_t* amax = nullptr;
    float* scales = nullptr;
    amax = take(amax, count);
    float* const decode = take(scales, count);
    float* const multiplier = take(scales, count);
    if (end > shared.size())
      throw Unsupported(fmt::format("cpu: {} scales of a tensor of {} x {}", count, op_.grad.rows,
                                    op_.grad.cols));
    codec->set_pass_memory(amax, decode, multiplier);
  }
}

// ---------------------------------------------------------------- residuals

ResidualRules Updater::residual_rules(float scale) const {
  const ElementFormat& element = *op_.weight.value.cast.element;
  const ElementRange range = range_of(element);
  const bool floats = element.kind == ElementKind::floating;
  return {.lowest_binade = pow2(floats ? 1 - element.bias : range.emax),
          .mantissa_bits = floats ? element.mantissa_bits : element.bits - 2,
          .max = range.max,
          .scale = scale,
          .bits = carry_.element->bits};
}

const int8_t* Updater::residuals(const Stretch& at, StretchBuffers& b) const {
  const std::byte* from =
      carry_.data + (at.row * carry_.stride + at.col) * carry_.element->bits / 8;
  if (carry_.element->bits == 8) return reinterpret_cast<const int8_t*>(from);
  uint16_t* const codes = b.scratch.codes;
  unpack_codes({reinterpret_cast<const uint8_t*>(from), packed_bytes(at.count, 4)}, 4,
               {codes, static_cast<size_t>(at.count)});
  for (int64_t i = 0; i < at.count; ++i)
    b.carry[i] = static_cast<int8_t>((codes[i] ^ 8) - 8);  // four bits and their sign
  return b.carry;
}

void Updater::put_residuals(const Stretch& at, const int8_t* q, StretchBuffers& b) const {
  std::byte* to = carry_.data + (at.row * carry_.stride + at.col) * carry_.element->bits / 8;
  if (carry_.element->bits == 8) {
    std::copy_n(q, at.count, reinterpret_cast<int8_t*>(to));
    return;
  }
  for (int64_t i = 0; i < at.count; ++i) b.scratch.codes[i] = static_cast<uint16_t>(q[i] & 15);
  pack_codes({b.scratch.codes, static_cast<size_t>(at.count)}, 4,
             {reinterpret_cast<uint8_t*>(to), packed_bytes(at.count, 4)});
}

// Scales of the value are powers of two, or there are none.
bool Updater::has_powers() const {
  const Operand& cast = op_.weight.value.cast;
  return cast.is_unscaled() || cast.has_one_power_of_two() || cast.scale == ScaleKind::e8m0;
}

// Blocks one after another, each with what its scale is before, and after.
void Updater::sum_residuals(const Stretch& at, StretchBuffers& b, float step) const {
  const int8_t* q = residuals(at, b);
  if (!has_powers()) value_.read_elements(at, b.elements, b.scratch);
  const float* scales = value_.stored_scales(at, b.scratch);
  const int64_t shared = value_.shared_cols(at);
  for (int64_t i = 0; i < at.count; i += shared) {
    const ResidualRules rules = residual_rules(scales[i / shared] * value_.stored_tensor_scale());
    const int64_t count = std::min(shared, at.count - i);
    if (has_powers())
      residual_sum(rules, b.w + i, q + i, b.u + i, step, count, b.x + i);
    else
      residual_sum_in_fp64(rules, b.w + i, b.elements + i, q + i, b.u + i, step, count, b.x + i);
  }
}

void Updater::round_residuals(const Stretch& at, StretchBuffers& b, int8_t* q) const {
  const float* scales = value_.new_scales(at, b.scratch);
  const int64_t shared = value_.shared_cols(at);
  for (int64_t i = 0; i < at.count; i += shared) {
    const ResidualRules rules = residual_rules(scales[i / shared] * value_.new_tensor_scale());
    const int64_t count = std::min(shared, at.count - i);
    const uint16_t* draws = b.scratch.draws + i;
    if (has_powers())
      residual_carry(rules, b.x + i, draws, count, b.elements + i, q + i);
    else
      residual_carry_in_fp64(rules, b.x + i, b.rounded + i, draws, count, b.elements + i, q + i);
  }
}

// ---------------------------------------------------------------- one stretch

// New moments, and x or u.
void Updater::compute(const Stretch& at, StretchBuffers& b) const {
  const bool wants_x = is_direct() || has_feedback();
  OptimizerStretch s{.count = at.count};
  s.w = (master_ ? master_ : value_).read(at, b.w, b.scratch);
  if (moment1_) s.m = moment1_.read(at, b.m, b.scratch);
  if (moment2_) s.v = moment2_.read(at, b.v, b.scratch);
  if (has_block_moment(op_)) s.v = op_.moment2.view.as<float>().row(op_.blocks.block_of(at.row));
  s.g = grad_.read(at, b.g, b.scratch);
  s.grad_scale = grad_scale_;
  s.new_m = b.new_m;
  s.new_v = b.new_v;
  s.x = wants_x ? b.x : nullptr;
  s.u = !wants_x || op_.report != nullptr ? b.u : nullptr;
  step_stretch(op_.optimizer, op_.numbers, s);
  if (s.w != b.w) std::copy_n(s.w, at.count, b.w);
}

// What is rounded into the weight, where it is w + step·u.
void Updater::make_x(const Stretch& at, StretchBuffers& b, float step) const {
  if (is_direct() || has_feedback()) return;
  switch (op_.weight.rule) {
    case UpdateRule::kahan: {
      const auto* c = reinterpret_cast<const Bf16*>(carry_.data) + at.row * carry_.stride + at.col;
      return kahan_sum(b.w, b.u, c, step, at.count, b.y, b.x);
    }
    case UpdateRule::residual:
      return sum_residuals(at, b, step);
    default:
      add_scaled(b.w, b.u, step, at.count, b.x);
  }
}

// elements and `rounded`, what x becomes.
void Updater::round_value(const Stretch& at, StretchBuffers& b) const {
  value_.round(at, b.x, b.elements, b.scratch);
  value_.decode(at, b.elements, b.rounded, b.scratch);
}

void Updater::note(const Stretch& at, StretchBuffers& b) const {
  if (value_.needs_pass()) value_.note(at, b.x, b.scratch);
  if (master_.needs_pass()) master_.note(at, b.x, b.scratch);
  if (moment1_.needs_pass() && !has_feedback()) moment1_.note(at, b.new_m, b.scratch);
  if (moment2_.needs_pass()) moment2_.note(at, b.new_v, b.scratch);
}

void Updater::store_carry(const Stretch& at, StretchBuffers& b) const {
  if (op_.weight.rule == UpdateRule::kahan) {
    auto* const c = reinterpret_cast<Bf16*>(carry_.data) + at.row * carry_.stride + at.col;
    kahan_carry(b.w, b.rounded, b.y, at.count, c);
    return;
  }
  alignas(64) int8_t q[kStretch];
  value_.draw(at, b.scratch.draws);
  round_residuals(at, b, q);
  put_residuals(at, q, b);
}

void Updater::store(const Stretch& at, StretchBuffers& b, UpdateReport* report) const {
  const float* before = b.w;
  if (report != nullptr && master_) before = value_.read(at, b.before, b.scratch);
  if (report != nullptr && before != b.before) std::copy_n(before, at.count, b.before);
  if (master_) {
    master_.round(at, b.x, b.elements, b.scratch);
    master_.decode(at, b.elements, b.x, b.scratch);
    master_.put(at, b.elements, b.scratch);
  }
  round_value(at, b);
  if (carry_.rows > 0 && !is_direct()) store_carry(at, b);
  const bool is_moved = op_.weight.rule != UpdateRule::precision_aware || is_direct() || step_ > 0;
  if (is_moved) value_.put(at, b.elements, b.scratch);
  if (has_feedback() && op_.numbers.lr != 0)
    feed_back(op_.numbers, b.x, b.rounded, b.new_v, at.count, b.new_m);
  if (report != nullptr) {
    if (!is_moved)
      (void)value_.read(at, b.rounded, b.scratch);
    else if (carry_.rows > 0)  // which may have moved elements on; scales are put after the pass
      value_.decode(at, b.elements, b.rounded, b.scratch);
    add_to_report(b.before, b.rounded, b.u, op_.numbers.lr, at.count, *report);
  }
  if (moment1_) moment1_.write(at, b.new_m, b.elements, b.scratch);
  if (moment2_) moment2_.write(at, b.new_v, b.elements, b.scratch);
}

// ---------------------------------------------------------------- passes

std::optional<ChunkJob> Updater::chunk_job(Pass pass) const {
  const UpdatedWeight& weight = op_.weight;
  const bool stays = pass == Pass::store && weight.rule == UpdateRule::precision_aware &&
                     !is_direct() && step_ == 0;
  if (!is_flat_ || op_.optimizer != OptimizerRule::adamw || has_feedback() || stays ||
      (pass == Pass::store && op_.report != nullptr) ||
      (carry_.rows > 0 && carry_.element->bits < 8) || pass == Pass::moments)
    return {};
  if (weight.rule == UpdateRule::residual && !is_direct() && !has_powers()) return {};
  if (pass == Pass::scales && value_.needs_pass() && carry_.rows > 0 && !is_direct()) return {};
  ChunkJob job{.value = value_.chunk_tensor(),
               .master = master_.chunk_tensor(),
               .moment1 = moment1_.chunk_tensor(),
               .moment2 = moment2_.chunk_tensor(),
               .grad = grad_.chunk_tensor(),
               .carry = carry_.data,
               .rule = weight.rule,
               .numbers = op_.numbers,
               .grad_scale = grad_scale_,
               .step = step_};
  if (!is_common(job)) return {};
  if (weight.rule == UpdateRule::residual && !is_direct()) {
    job.before = residual_rules(job.value.decode);
    job.after = residual_rules(1.0f / value_.encode_scale());
  }
  return job;
}

void Updater::pass_chunks(Pass pass, const ChunkJob& job, int64_t first, int64_t count,
                          ChunkBuffers& b) const {
  if (pass == Pass::store) return update_chunks(job, first, count, b);
  const StoredCodec& stored = master_.needs_pass() ? master_ : value_;
  const bool asks_weight = stored.needs_pass();
  ChunkMaxima maxima{.weight = asks_weight ? stored.largest() : 0};
  find_maxima(job, asks_weight, first, count, b, maxima);
  for (const StoredCodec* codec : {&value_, &master_})
    if (codec->needs_pass()) codec->note_largest(maxima.weight);
  if (moment1_.needs_pass()) moment1_.note_largest(maxima.moment1);
  if (moment2_.needs_pass()) moment2_.note_largest(maxima.moment2);
}

void Updater::pass(Pass pass) {
  const std::optional<ChunkJob> chunks = chunk_job(pass);
  parallel_for(workspace_.threads(), walk_.items(), [&](int64_t item, int worker) {
    auto& b = *reinterpret_cast<StretchBuffers*>(workspace_.worker(worker).data());
    UpdateReport report;
    walk_.for_item(item, [&](const Stretch& whole) {
      Stretch at = whole;
      if (chunks) {
        const int64_t count = at.count / kChunk * kChunk;
        pass_chunks(pass, *chunks, at.col, count, b.chunk);
        at.col += count;
        at.count -= count;
        if (at.count == 0) return;
      }
      compute(at, b);
      make_x(at, b, step_);
      if (pass == Pass::scales) return note(at, b);
      if (pass == Pass::store) return store(at, b, reports_ != nullptr ? &report : nullptr);
      round_value(at, b);
      if (op_.numbers.lr != 0) feed_back(op_.numbers, b.x, b.rounded, b.new_v, at.count, b.new_m);
      moment1_.note(at, b.new_m, b.scratch);
    });
    if (reports_ != nullptr) reports_[item] = report;
  });
}

// The value is made of the master as it is stored: its largest values are those of the master,
// rounded.
void Updater::end_scales() {
  master_.find_scales(false);
  if (master_ && value_.needs_pass() && !master_.is_fp32()) value_.round_maxima(master_);
  value_.find_scales(op_.weight.keeps_scale);
  if (!has_feedback()) moment1_.find_scales(false);
  moment2_.find_scales(false);
}

UpdateMaxima Updater::maxima() {
  NG_CHECK(!has_feedback());
  pass(Pass::scales);
  const auto largest = [](const StoredCodec& codec) {
    return codec.needs_pass() ? float_of_bits(codec.largest()) : 0.0f;
  };
  return {.weight = std::max(largest(value_), largest(master_)),
          .moment1 = largest(moment1_),
          .moment2 = largest(moment2_)};
}

// In place of a pass, but where blocks of several rows have scales, too.
void Updater::note_maxima(const UpdateMaxima& maxima) {
  NG_CHECK(!has_feedback());
  StoredCodec* const codecs[] = {&value_, &master_, &moment1_, &moment2_};
  const auto has_more = [](const StoredCodec* codec) { return codec->scale_count() > 1; };
  if (std::any_of(std::begin(codecs), std::end(codecs), has_more)) pass(Pass::scales);
  const float amax[] = {maxima.weight, maxima.weight, maxima.moment1, maxima.moment2};
  for (size_t i = 0; i < std::size(codecs); ++i)
    if (codecs[i]->scale_count() == 1) codecs[i]->note_largest(float_bits(amax[i]));
}

void Updater::run() {
  const bool precision_aware = op_.weight.rule == UpdateRule::precision_aware && !is_direct();
  const bool moments = moment1_.needs_pass() && has_feedback();
  const bool needs_scales =
      value_.needs_pass() || master_.needs_pass() || moment1_.needs_pass() || moment2_.needs_pass();
  if (needs_scales) {
    if (op_.maxima != nullptr)
      note_maxima(*op_.maxima);
    else
      pass(Pass::scales);
    end_scales();
  }
  if (moments) {
    pass(Pass::moments);
    moment1_.find_scales(false);
  }
  if (precision_aware) find_step();
  pass(Pass::store);
  for (const StoredCodec* codec : {&master_, &moment1_, &moment2_}) codec->put_scales();
  if (!precision_aware || step_ > 0) value_.put_scales();
  if (op_.report == nullptr) return;
  UpdateReport total{.alpha = step_};
  for (int64_t item = 0; item < walk_.items(); ++item) {
    total.update_squares += reports_[item].update_squares;
    total.target_squares += reports_[item].target_squares;
    total.product += reports_[item].product;
    total.changed += reports_[item].changed;
  }
  *op_.report = total;
}

void perform(Workspace& workspace, const Update& op) {
  if (is_skipped(op.control)) return;
  if (is_adamw_in_fp32(op)) return adamw_in_fp32(workspace, op);
  if (op.grad.size() > 0) Updater(workspace, op).run();
}

void perform(Workspace& workspace, const FindUpdateMaxima& op) {
  *op.maxima = {};
  if (is_skipped(op.update.control) || !op.update.has_shared_scales()) return;
  if (op.update.grad.size() > 0) *op.maxima = Updater(workspace, op.update).maxima();
}

}  // namespace ng::cpu
