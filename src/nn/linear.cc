#include "nn/linear.h"

#include <algorithm>
#include <utility>

#include "format/hadamard.h"
#include "nn/adapter.h"
#include "nn/linear_observer.h"
#include "nn/tensor_group.h"

namespace ng {
namespace {

std::array<uint32_t, 4> signs_for(HadamardSigns signs, const RandomKey& key, uint32_t gemm) {
  if (signs == HadamardSigns::none) return {};
  return signs == HadamardSigns::fixed ? fixed_signs() : signs_of(key, gemm);
}

// 0 where no phase delays the scale.
int longest_history(const std::vector<LinearRecipe>& phases, OperandRole role) {
  int longest = 0;
  for (const LinearRecipe& phase : phases) {
    const Operand& cast = cast_of(phase, role);
    if (cast.scaling == Scaling::delayed) longest = std::max(longest, cast.amax_history);
  }
  return longest;
}

// As if it were `current`: what says how it is delayed means nothing any more.
void scale_by_itself(Operand& cast) {
  if (cast.scaling != Scaling::delayed) return;
  cast.scaling = Scaling::current;
  cast.amax_history = Operand{}.amax_history;
  cast.amax_compute = Operand{}.amax_compute;
}

void reset(Run& run, const DelayedScale& state, int history) {
  run.execute(Fill{.x = {state.encode_scale, 1, 1, 1}, .value = 1.0f});
  run.execute(Fill{.x = {state.history, 1, history, history}, .value = 0.0f});
}

// A number or a row of numbers of a delayed scale.
float* persistent_row(Run& run, const std::string& layer, OperandRole role, std::string_view what,
                      int count) {
  return run
      .persistent({.name = fmt::format("scale.{}.{}.{}", layer, name_of(role), what),
                   .owner = layer,
                   .kind = MemoryKind::state,
                   .element = &fp32_format(),
                   .rows = 1,
                   .cols = count})
      .as<float>()
      .data;
}

}  // namespace

Linear::Linear(Run& run, Parts parts)
    : name_(std::move(parts.name)),
      output_(parts.output),
      weight_(parts.weight),
      bias_(parts.bias),
      phases_(std::move(parts.phases)),
      noise_(std::move(parts.noise)),
      has_own_state_(parts.trained == nullptr) {
  if (has_own_state_)
    claim_state(run);
  else
    share_state_of(*parts.trained);
}

void Linear::claim_state(Run& run) {
  for (size_t i = 0; i < kOperandRoles; ++i) {
    const auto role = static_cast<OperandRole>(i);
    const int history = longest_history(phases_, role);
    if (history == 0) continue;
    delayed_[i] = {persistent_row(run, name_, role, "encode", 1),
                   persistent_row(run, name_, role, "history", history)};
    reset(run, delayed_[i], history);
  }
}

// While the weights are the same, so are the numbers. What that layer has no history of scales
// itself; what the layer learns of its weight's quantizer holds for this weight, too.
void Linear::share_state_of(const Linear& trained) {
  delayed_ = trained.delayed_;
  for (LinearRecipe& phase : phases_)
    for (size_t i = 0; i < kOperandRoles; ++i)
      if (delayed_[i].history == nullptr)
        scale_by_itself(cast_of(phase, static_cast<OperandRole>(i)));
  if (trained.noise_ && trained.noise_->quantizes()) noise_ = trained.noise_;
}

std::vector<int> Linear::histories() const {
  std::vector<int> lengths;
  for (size_t i = 0; i < kOperandRoles; ++i)
    lengths.push_back(longest_history(phases_, static_cast<OperandRole>(i)));
  return lengths;
}

std::vector<float> Linear::first_state() const {
  std::vector<float> state;
  for (const int history : histories()) {
    if (history == 0) continue;
    state.push_back(1);
    state.resize(state.size() + static_cast<size_t>(history));
  }
  return state;
}

void Linear::place_state(float* memory) {
  const std::vector<int> lengths = histories();
  for (size_t i = 0; i < kOperandRoles; ++i) {
    if (lengths[i] == 0) continue;
    delayed_[i] = {memory, memory + 1};
    memory += 1 + lengths[i];
  }
}

Linear::Linear(Linear&& other) noexcept = default;
Linear::~Linear() = default;

void Linear::adapt(std::unique_ptr<Adapter> adapter) { adapter_ = std::move(adapter); }

const Operand& Linear::cast(OperandRole role) const { return cast_of(recipe(), role); }

void Linear::set_phase(Run& run, size_t phase) {
  NG_CHECK(phase < phases_.size(), phase);
  for (size_t i = 0; i < kOperandRoles; ++i) {
    const auto role = static_cast<OperandRole>(i);
    const Operand& next = cast_of(phases_[phase], role);
    if (has_own_state_ && next.scaling == Scaling::delayed && !(next == cast(role)))
      reset(run, delayed_[i], next.amax_history);
  }
  phase_ = phase;
  if (adapter_) adapter_->set_phase(run, phase);
}

bool Linear::is_part(OperandRole role) const {
  const Cut& cut = weight_->spec.cut;
  if (is_weight(role)) return static_cast<bool>(cut);
  const bool is_grad = role == OperandRole::dgrad_grad || role == OperandRole::wgrad_grad;
  if (!cut) return true;  // tokens are divided
  return (cut.axis == Cut::Axis::rows) == is_grad;
}

OperandSpec Linear::spec(OperandRole role, int64_t tokens, const Run& run) const {
  const GemmRecipe& gemm = gemm_of(recipe(), role);
  OperandSpec spec = operand_form(recipe(), role);
  const int64_t rows = is_weight(role) ? outputs() : tokens;
  const bool grad = role == OperandRole::dgrad_grad || role == OperandRole::wgrad_grad;
  const int64_t cols = grad ? outputs() : inputs();
  const bool transposed = spec.contract == Contract::rows;
  spec.rows = transposed ? cols : rows;
  spec.k = transposed ? rows : cols;
  if (run.evaluating()) {
    spec.cast.rounding = Rounding::nearest;
    spec.cast.sr_bits = Operand{}.sr_bits;  // means nothing any more
  }
  if (gemm.hadamard > 0) {
    const RandomKey key{.seed = run.seed(),
                        .tensor = weight_->id,
                        .step = run.evaluating() ? 0 : run.moment().step,
                        .purpose = Purpose::hadamard_signs,
                        .micro = 0};
    spec.hadamard = {gemm.hadamard, signs_for(gemm.hadamard_signs, key, gemm_group(role))};
  }
  return spec;
}

PrepareContext Linear::context(OperandRole role, uint32_t tensor, const Run& run) const {
  PrepareContext context;
  context.key = {.seed = run.rounding_seed(),
                 .tensor = tensor,
                 .step = run.moment().step,
                 .purpose = purpose_of(role),
                 .micro = is_weight(role) ? 0 : run.moment().micro};
  context.delayed = delayed(role);
  context.update_history = run.writes_statistics();
  const bool is_first = run.tensor_group().rank() == 0;
  const bool is_counted = can_lose_values(cast(role)) && (is_first || is_part(role)) &&
                          !(noise_ && role == OperandRole::fprop_weight);  // where that is cast
  context.stats = is_counted ? stats_of(run, role) : nullptr;
  return context;
}

void Linear::show(Run& run, OperandRole role, const Prepared& made, const ConstView& source) const {
  run.show_operand(made.packed, source, name_, name_of(role));
}

OperandRequest Linear::request(const Run& run, OperandRole role, const Source& source) const {
  OperandRequest by{spec(role, source.rows(), run), context(role, source.tensor(), run)};
  by.context.first_row = source.first_row();
  place_in_whole(role, by.context);
  return by;
}

// What is made of several bands lies in no one place: such layers do not draw.
void Linear::place_in_whole(OperandRole role, PrepareContext& context) const {
  const Cut& cut = weight_->spec.cut;
  if (!cut || !is_part(role)) return;
  const int64_t size = cut.axis == Cut::Axis::rows ? outputs() : inputs();
  if (is_weight(role) && cut.axis == Cut::Axis::rows) {
    context.first_row = cut.part * size;
    return;
  }
  context.first_col = cut.part * size;
  context.whole_cols = cut.parts * size;
}

void Linear::share_amax(Run& run, OperandRole role, const ConstView& values,
                        OperandRequest& request, Tensor& keeps) const {
  if (!is_part(role)) return;
  keeps = amax_of_group(run, request.spec, values);
  if (keeps) request.context.amax = keeps.view().as<float>().data;
}

const Prepared& Linear::activation(Run& run, OperandRole role, Source& source) {
  const Run::Place place = run.in(name_, name_of(role));
  OperandRequest by = request(run, role, source);
  Tensor amax;
  if (!source.has_operand(by.spec, by.context.key))
    share_amax(run, role, source.values(), by, amax);
  const Prepared& made = source.operand(run, by.spec, by.context);
  if (!source.is_taken_by(by.spec)) show(run, role, made, source.values());
  return made;
}

Prepared Linear::weight_operand(Run& run, OperandRole role) {
  const Run::Place place = run.in(name_, name_of(role));
  const bool again_this_step = (run.moment().micros > 1 && !run.evaluating()) || keeps_weights_;
  const size_t of_role = role == OperandRole::fprop_weight ? 0 : 1;
  Prepared& kept = weight_->operands[of_role];
  const OperandSpec asked = spec(role, 0, run);
  if (kept && again_this_step) {
    NG_CHECK(kept.packed.spec == asked, name_, name_of(role));
    return kept;
  }
  const Stored from = stored_weight(run);
  const bool is_stored = takes_stored(asked, from.cast);
  const ReadableWeight weight = read_weight(run, from, is_stored);
  OperandRequest by{asked, context(role, weight_->id, run)};
  place_in_whole(role, by.context);
  Tensor amax;
  if (is_stored)
    by.context.stored = from.view;
  else
    share_amax(run, role, weight.view, by, amax);
  Prepared made = prepare_operand(run, weight.copy, weight.view, asked, by.context,
                                  weight_->operand_memory[of_role]);
  if (!is_stored) show(run, role, made, weight.view);
  if (again_this_step) kept = made;
  return made;
}

void Linear::keep_weights(const Run& run, bool keeps) {
  keeps_weights_ = keeps;
  if (!keeps && (run.moment().micros == 1 || run.evaluating())) weight_->operands = {};
}

void Linear::fprop(Run& run, const View& y, Source& x, Into into) {
  const Prepared w = weight_operand(run, OperandRole::fprop_weight);
  const Prepared& qx = activation(run, OperandRole::fprop_input, x);
  const bool has_bias =  // once in a sum over ranks
      bias_ != nullptr && !(divides_inputs() && run.tensor_group().rank() > 0);
  const ReadableWeight bias = has_bias ? readable_vector(run, *bias_) : ReadableWeight{};
  const Run::Place place = run.in(name_, "fprop.output");
  run.execute(Gemm{.y = y,
                   .a = &qx.packed,
                   .b = &w.packed,
                   .into = into,
                   .bias = bias.view,
                   .round = recipe().fprop.output,
                   .time = time_of(TimeKind::gemm_fprop)});
  if (is_observed(run)) observer_->input(*this, x);
  if (adapter_) adapter_->fprop(run, y, x);
}

void Linear::dgrad(Run& run, const View& dx, Into into, Source& dy) {
  const Prepared w = weight_operand(run, OperandRole::dgrad_weight);
  const Prepared& qdy = activation(run, OperandRole::dgrad_grad, dy);
  const Run::Place place = run.in(name_, "dgrad.output");
  const Gemm product{.y = dx,
                     .a = &qdy.packed,
                     .b = &w.packed,
                     .into = into,
                     .bias = {},
                     .round = recipe().dgrad.output,
                     .time = time_of(TimeKind::gemm_dgrad)};
  run.execute(product);
  if (is_observed(run)) observer_->output_gradient(*this, dy, product);
}

void Linear::wgrad(Run& run, const GradientTarget& target, Source& x, Source& dy) {
  const Prepared& qdy = activation(run, OperandRole::wgrad_grad, dy);
  const Prepared& qx = activation(run, OperandRole::wgrad_input, x);
  const Run::Place place = run.in(name_, "wgrad.output");
  run.execute(Gemm{.y = target.view,
                   .a = &qdy.packed,
                   .b = &qx.packed,
                   .into = target.into,
                   .bias = {},
                   .round = Compute::fp32,
                   .time = time_of(TimeKind::gemm_wgrad)});
}

void Linear::make_gradient_operands(Run& run, Source& dy) const {
  if (is_frozen()) return;  // there is one
  for (const OperandRole role : {OperandRole::dgrad_grad, OperandRole::wgrad_grad})
    if (cast(role).scaling == Scaling::delayed || dy.is_stored()) return;  // made at every request
  const Run::Place place = run.in(name_, name_of(OperandRole::dgrad_grad));
  OperandRequest dgrad = request(run, OperandRole::dgrad_grad, dy),
                 wgrad = request(run, OperandRole::wgrad_grad, dy);
  Tensor of_dgrad, of_wgrad;
  share_amax(run, OperandRole::dgrad_grad, dy.values(), dgrad, of_dgrad);
  share_amax(run, OperandRole::wgrad_grad, dy.values(), wgrad, of_wgrad);
  dy.make_both(run, dgrad, wgrad);
}

Tensor Linear::forward(Run& run, Source& x) {
  const Tensor y = run.tensor(x.values().rows, outputs(), *x.values().element);
  fprop(run, y, x);
  return y;
}

void Linear::backward(Run& run, const View& dx, Into into, Source& x, Source& dy) {
  if (is_frozen()) {
    dgrad(run, dx, into, dy);
    if (adapter_) adapter_->backward(run, dx, x, dy);
    return;
  }
  make_gradient_operands(run, dy);
  const GradientTarget target = gradient_target(run, *weight_);
  wgrad(run, target, x, dy);
  show_gradient(run, target.view);
  const bool is_whole = run.moment().is_last() && !run.moment().is_summed_later;
  if (is_whole) {
    finish_noise_backward(run);
    const Run::Place place = run.in(name_, "gradient");
    finish_gradient(run, *weight_);
  }
  if (!divides_inputs()) add_bias_gradient(run, dy.values());
  dgrad(run, dx, into, dy);
  if (!is_whole) return;
  weight_->noisy = {};
  weight_->noise_scales = {};
}

bool Linear::is_observed(const Run& run) const {
  return observer_ != nullptr && run.writes_statistics() && !run.recording();
}

void Linear::show_gradient(const Run& run, const ConstView& sum) const {
  if (is_observed(run)) observer_->weight_gradient(*this, sum);
}

void Linear::add_bias_gradient(Run& run, const ConstView& dy) {
  if (bias_ == nullptr || bias_->spec.is_frozen) return;
  const Run::Place place = run.in(name_, "bias");
  run.execute(AddColumnSums{.sum = gradient_to_add_to(run, *bias_), .x = dy});
}

// Of what all ranks have summed the owner alone has the gradient; it owns the bit-widths, too.
void Linear::finish_noise_backward(Run& run) {
  const Run::Place place = run.in(name_, "gradient");
  if (noise_ && weight_->grad) noise_->backward(run, *weight_);
}

void Linear::start_noise(Run& run) const {
  if (noise_ && has_own_state_) noise_->start(run, *weight_);
}

void Linear::finish_noise(Run& run) const {
  const Run::Place place = run.in(name_, "gradient");
  if (noise_ && noise_->has_gradient()) noise_->finish(run, *weight_);
}

void Linear::roll_scales(Run& run, bool skipped) {
  for (size_t i = 0; i < kOperandRoles; ++i) {
    const Operand& operand = cast(static_cast<OperandRole>(i));
    if (operand.scaling != Scaling::delayed) continue;
    if (skipped)
      run.execute(Fill{.x = {delayed_[i].history, 1, 1, 1}, .value = 0.0f});
    else
      run.execute(RollDelayedScale{operand, delayed_[i]});
  }
}

Tensor gradient_sum(Run& run, const ConstView& x, int64_t rows, std::span<const Linear> layers) {
  const bool is_unrounded =
      layers.size() > 1 && std::any_of(layers.begin(), layers.end(), [](const Linear& layer) {
        return layer.recipe().dgrad.output == Compute::fp32;
      });
  return run.tensor(rows, x.cols, is_unrounded ? fp32_format() : *x.element);
}

}  // namespace ng
