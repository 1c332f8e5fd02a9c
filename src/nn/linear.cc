#include "nn/linear.h"

#include <algorithm>
#include <utility>

#include "nn/adapter.h"
#include "nn/linear_observer.h"

namespace ng {
namespace {

// 0 where no phase delays the scale.
int longest_history(const std::vector<LinearRecipe>& phases, OperandRole role) {
  int longest = 0;
  for (const LinearRecipe& phase : phases) {
    const Operand& cast = cast_of(phase, role);
    if (cast.scaling == Scaling::delayed) longest = std::max(longest, cast.amax_history);
  }
  return longest;
}

void reset(Run& run, const DelayedScale& state, int history) {
  run.execute(Fill{.x = {state.encode_scale, 1, 1, 1}, .value = 1.0f});
  run.execute(Fill{.x = {state.history, 1, history, history}, .value = 0.0f});
}

constexpr std::array kOfInput = {OperandRole::fprop_input, OperandRole::wgrad_input};

// Behind its GEMM.
void finish(Run& run, const BackwardProduct& product) {
  if (product.passed) run.execute(*product.passed);
  if (product.back) run.execute(*product.back);
  if (product.narrowed) product.narrowed->finish(run);
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

Operation BackwardProduct::last_into(const View& y) const {
  const auto into = [&](auto op) {
    op.y = y;
    op.into = Into::overwrite;
    return Operation(op);
  };
  if (narrowed) return narrowed->last_into(y);
  if (back) return into(*back);
  return passed ? into(*passed) : into(gemm);
}

Linear::Linear(Run& run, Parts parts)
    : name_(std::move(parts.name)),
      output_(parts.output),
      weight_(parts.weight),
      bias_(parts.bias),
      phases_(std::move(parts.phases)),
      noise_(std::move(parts.noise)),
      keeps_operands_(parts.keeps_operands),
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
  const Tensor row = product_of_mean(run, OperandRole::fprop_input, x, w);
  if (row && has_bias) run.execute(Add{.y = row, .a = row, .b = bias.view});
  const Run::Place place = run.in(name_, "fprop.output");
  const Gemm gemm{.y = y,
                  .a = &qx.packed,
                  .b = &w.packed,
                  .into = into,
                  .bias = row ? row.view() : bias.view,
                  .round = recipe().fprop.output,
                  .sum = recipe().fprop.sum,
                  .time = time_of(TimeKind::gemm_fprop)};
  const auto narrow = narrowed(run, recipe().fprop, gemm, Purpose::fprop_output);
  run.execute(narrow ? narrow->into_made(gemm) : gemm);
  if (narrow) narrow->finish(run);
  if (is_observed(run)) observer_->input(*this, x);
  if (adapter_) adapter_->fprop(run, y, x);
}

std::optional<NarrowOutput> Linear::narrowed(Run& run, const GemmRecipe& gemm, const Gemm& target,
                                             Purpose of) const {
  if (!gemm.narrows_output()) return {};
  return NarrowOutput(run, gemm.narrow_output, target,
                      {.seed = run.rounding_seed(),
                       .tensor = output_,
                       .step = run.moment().step,
                       .purpose = of,
                       .micro = run.moment().micro});
}

BackwardProduct Linear::backward_product(Run& run, const Gemm& plain, OperandRole role,
                                         OperandRole read) const {
  BackwardProduct made;
  made.gemm = plain;
  const bool is_turned = recipe().fprop.hadamard > 0 && is_from_fprop(role);
  const bool is_passed = cast(read).gradient != RoundingGradient::straight;
  if (!is_turned && !is_passed) return made;
  made.made = run.tensor(plain.y.rows, is_turned ? source_cols(role) : inputs(), fp32_format());
  made.gemm.y = made.made;
  made.gemm.into = Into::overwrite;
  made.gemm.round = Compute::fp32;
  const Into into = plain.into == Into::overwrite ? Into::overwrite : Into::add;
  if (is_turned)
    made.back = TurnBack{.y = plain.y,
                         .x = made.made.view(),
                         .hadamard = spec(OperandRole::fprop_input, 0, run).hadamard,
                         .into = into,
                         .round = plain.round};
  if (is_passed)
    made.passed = RoundingBackward{.y = is_turned ? made.made.view() : plain.y,
                                   .x = made.made.view(),
                                   .spec = {},
                                   .source = {},
                                   .context = {},
                                   .into = is_turned ? Into::overwrite : into,
                                   .round = is_turned ? Compute::fp32 : plain.round};
  return made;
}

void Linear::dgrad(Run& run, const View& dx, Into into, Source& x, Source& dy) {
  const Prepared w = weight_operand(run, OperandRole::dgrad_weight);
  const Prepared& qdy = activation(run, OperandRole::dgrad_grad, dy);
  const Tensor row = product_of_mean(run, OperandRole::dgrad_grad, dy, w);
  const Run::Place place = run.in(name_, "dgrad.output");
  const Gemm gemm{.y = dx,
                  .a = &qdy.packed,
                  .b = &w.packed,
                  .into = into,
                  .bias = row ? row.view() : ConstView(),
                  .round = recipe().dgrad.output,
                  .sum = recipe().dgrad.sum,
                  .time = time_of(TimeKind::gemm_dgrad)};
  auto narrow = narrowed(run, recipe().dgrad, gemm, Purpose::dgrad_output);
  BackwardProduct product = backward_product(run, narrow ? narrow->into_made(gemm) : gemm,
                                             OperandRole::dgrad_weight, OperandRole::fprop_input);
  product.bias = row;
  product.narrowed = std::move(narrow);
  pass_input(run, product, x);
  run.execute(product.gemm);
  finish(run, product);
  if (is_observed(run)) observer_->output_gradient(*this, dy, product);
}

void Linear::wgrad(Run& run, const GradientTarget& target, Source& x, Source& dy) {
  const Prepared& qdy = activation(run, OperandRole::wgrad_grad, dy);
  std::optional<Source> forward;
  if (is_from_fprop(OperandRole::wgrad_input) && !x.is_read()) forward = forward_input(run, x);
  Source& of_x = forward ? *forward : x;
  const Prepared& qx = activation(run, OperandRole::wgrad_input, of_x);
  const Run::Place place = run.in(name_, "wgrad.output");
  BackwardProduct product = backward_product(run,
                                             {.y = target.view,
                                              .a = &qdy.packed,
                                              .b = &qx.packed,
                                              .into = target.into,
                                              .bias = {},
                                              .round = Compute::fp32,
                                              .sum = recipe().wgrad.sum,
                                              .time = time_of(TimeKind::gemm_wgrad)},
                                             OperandRole::wgrad_input, OperandRole::fprop_weight);
  pass_weight(run, product);
  run.execute(product.gemm);
  add_means(run, product.gemm.y, of_x, dy);
  finish(run, product);
}

bool Linear::is_centered(OperandRole role) const {
  return gemm_of(recipe(), role).center != Center::none;
}

bool Linear::can_make_both(const Run& run, const RolePair& roles, int64_t rows) const {
  return std::all_of(roles.begin(), roles.end(), [&](OperandRole role) {
    if (cast(role).scaling == Scaling::delayed) return false;  // made at every request
    return !is_centered(role) || takes_off_mean(run, spec(role, rows, run));
  });
}

void Linear::make_both(Run& run, const RolePair& roles, Source& whole) const {
  const Run::Place place = run.in(name_, name_of(roles[0]));
  const std::array of = {&centered(run, roles[0], whole), &centered(run, roles[1], whole)};
  std::array by = {request(run, roles[0], whole), request(run, roles[1], whole)};
  if (!whole.knows_amax() && of[0] == &whole && of[1] == &whole)
    whole.know_amax(amax_of_both(run, by[0].spec, by[1].spec, whole.values()));
  std::array<Tensor, 2> amax;  // of a whole that ranks divide
  for (size_t i = 0; i < by.size(); ++i) know_amax(run, roles[i], *of[i], by[i], amax[i]);
  Source::make_both(run, of, by);
}

void Linear::make_gradient_operands(Run& run, Source& dy) const {
  constexpr RolePair kRoles = {OperandRole::dgrad_grad, OperandRole::wgrad_grad};
  if (is_frozen() || dy.is_stored() || !can_make_both(run, kRoles, dy.rows()))
    return;  // frozen: there is one
  make_both(run, kRoles, dy);
}

bool Linear::reads_kept_input(const Run& run, int64_t rows, const ElementFormat& element) const {
  constexpr OperandRole kRole = OperandRole::wgrad_input;
  if (!keeps_operands_ || is_frozen() || adapter_ || dgrad_reads_input() || is_from_fprop(kRole) ||
      !can_make_both(run, kOfInput, rows))
    return false;
  const size_t bytes = run.operand_bytes(spec(kRole, rows, run));
  return bytes > 0 && bytes < bytes_of(element, rows * inputs());
}

void Linear::make_input_operands(Run& run, Source& x) const { make_both(run, kOfInput, x); }

Source& Linear::kept_input(Run& run, Source& x) const {
  return centered(run, OperandRole::wgrad_input, x);
}

void Linear::show_kept_input(Run& run, Source& x) const {
  const Source& kept = kept_input(run, x);
  show(run, OperandRole::wgrad_input, kept.newest(), kept.origin());
}

Tensor Linear::forward(Run& run, Source& x) {
  const Tensor y = run.tensor(x.values().rows, outputs(), *x.values().element);
  fprop(run, y, x);
  return y;
}

void Linear::backward(Run& run, const View& dx, Into into, Source& x, Source& dy) {
  if (is_frozen()) {
    dgrad(run, dx, into, x, dy);
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
  dgrad(run, dx, into, x, dy);
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

AmaxSlot slot_of_input(Run& run, std::span<const Linear> layers, bool is_backward) {
  return {run, std::any_of(layers.begin(), layers.end(), [&](const Linear& layer) {
            return layer.reads_amax_of_input(run, is_backward);
          })};
}

AmaxSlot slot_of_gradient(Run& run, const Linear& layer) {
  return {run, layer.reads_amax_of_gradient(run)};
}

Tensor gradient_sum(Run& run, const ConstView& x, int64_t rows, std::span<const Linear> layers) {
  const bool is_unrounded =
      layers.size() > 1 && std::any_of(layers.begin(), layers.end(), [](const Linear& layer) {
        return layer.recipe().dgrad.output == Compute::fp32;
      });
  return run.tensor(rows, x.cols, is_unrounded ? fp32_format() : *x.element);
}

}  // namespace ng
