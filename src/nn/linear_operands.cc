// What the GEMMs of a linear layer multiply: the six operands, of x, W and dy.
#include "format/hadamard.h"
#include "nn/linear.h"
#include "nn/tensor_group.h"

namespace ng {
namespace {

Hadamard hadamard_of(int size, HadamardSigns signs, const RandomKey& key, uint32_t gemm) {
  if (signs == HadamardSigns::none) return {.size = size};
  if (signs == HadamardSigns::fixed) return {.size = size, .signs = fixed_signs()};
  return {.size = size, .signs = signs_of(key, gemm), .key = key, .gemm = gemm};
}

constexpr std::array kOfWeight = {OperandRole::fprop_weight, OperandRole::dgrad_weight};

}  // namespace

bool Linear::is_part(OperandRole role) const {
  const Cut& cut = weight_->spec.cut;
  if (is_weight(role)) return static_cast<bool>(cut);
  const bool is_grad = role == OperandRole::dgrad_grad || role == OperandRole::wgrad_grad;
  if (!cut) return true;  // tokens are divided
  return (cut.axis == Cut::Axis::rows) == is_grad;
}

// What the forward GEMM reads as it is, in FP32 or BF16, is the original.
bool Linear::is_from_fprop(OperandRole role) const {
  if (cast(role).from != From::fprop) return false;
  const Operand& read =
      cast(is_weight(role) ? OperandRole::fprop_weight : OperandRole::fprop_input);
  const bool is_plain =
      read.is_unscaled() && (read.element->bits == 32 || read.element->short_name == "bf16");
  return recipe().fprop.hadamard > 0 || !is_plain;
}

int64_t Linear::source_cols(OperandRole role) const {
  if (recipe().fprop.hadamard == 0 || !is_from_fprop(role)) return inputs();
  OperandSpec read = operand_form(recipe(), OperandRole::fprop_input);
  read.k = inputs();
  return read.k_padded();
}

OperandSpec Linear::spec(OperandRole role, int64_t tokens, const Run& run) const {
  const GemmRecipe& gemm = gemm_of(recipe(), role);
  OperandSpec spec = operand_form(recipe(), role);
  const int64_t rows = is_weight(role) ? outputs() : tokens;
  const bool grad = role == OperandRole::dgrad_grad || role == OperandRole::wgrad_grad;
  const int64_t cols = grad ? outputs() : source_cols(role);
  const bool transposed = spec.contract == Contract::rows;
  spec.rows = transposed ? cols : rows;
  spec.k = transposed ? rows : cols;
  if (run.evaluating()) {
    spec.cast.rounding = Rounding::nearest;
    spec.cast.sr_bits = Operand{}.sr_bits;  // means nothing any more
  }
  if (gemm.hadamard > 0) {
    const bool is_lasting = gemm.hadamard_signs == HadamardSigns::layer;
    const RandomKey key{.seed = run.seed(),
                        .tensor = weight_->id,
                        .step = run.evaluating() || is_lasting ? 0 : run.moment().step,
                        .purpose = Purpose::hadamard_signs,
                        .micro = 0};
    spec.hadamard = hadamard_of(gemm.hadamard, gemm.hadamard_signs, key, gemm_group(role));
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

void Linear::show(Run& run, OperandRole role, const Prepared& made,
                  const OperandOrigin& origin) const {
  run.show_operand(made.packed, origin, name_, name_of(role));
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
  const int64_t size = cut.axis == Cut::Axis::rows ? outputs() : source_cols(role);
  if (is_weight(role) && cut.axis == Cut::Axis::rows) {
    context.first_row = cut.part * size;
    return;
  }
  context.first_col = cut.part * size;
  context.whole_cols = cut.parts * size;
}

bool Linear::reads_amax(const Run& run, OperandRole role) const {
  return run.tensor_group().ranks() == 1 && !is_centered(role) &&
         is_scaled_by_source(operand_form(recipe(), role));
}

bool Linear::reads_amax_of_input(const Run& run, bool is_backward) const {
  const bool of_fprop = reads_amax(run, OperandRole::fprop_input);
  if (!is_backward) return of_fprop;
  if (dgrad_reads_input() && of_fprop) return true;
  if (is_frozen()) return false;
  return is_from_fprop(OperandRole::wgrad_input) ? of_fprop
                                                 : reads_amax(run, OperandRole::wgrad_input);
}

bool Linear::reads_amax_of_gradient(const Run& run) const {
  return reads_amax(run, OperandRole::dgrad_grad) ||
         (!is_frozen() && reads_amax(run, OperandRole::wgrad_grad));
}

void Linear::know_amax(Run& run, OperandRole role, Source& source, OperandRequest& request,
                       Tensor& keeps) const {
  request.context.amax = source.amax_for(request.spec);
  if (request.context.amax != nullptr || source.is_stored()) return;
  share_amax(run, role, source.values_for(run, request.spec, request.context), request, keeps);
}

void Linear::share_amax(Run& run, OperandRole role, const ConstView& values,
                        OperandRequest& request, Tensor& keeps) const {
  if (!is_part(role)) return;
  keeps = amax_of_group(run, request.spec, values, request.context.mean);
  if (keeps) request.context.amax = keeps.view().as<float>().data;
}

const Prepared& Linear::activation(Run& run, OperandRole role, Source& whole) {
  const Run::Place place = run.in(name_, name_of(role));
  Source& source = centered(run, role, whole);
  OperandRequest by = request(run, role, source);
  Tensor amax;
  if (!source.has_operand(by.spec, by.context.key)) know_amax(run, role, source, by, amax);
  const Prepared& made = source.operand(run, by.spec, by.context);
  if (source.has_values() && !source.is_taken_by(by.spec)) show(run, role, made, source.origin());
  return made;
}

Tensor Linear::decoded(Run& run, const PackedOperand& packed, OperandRole role) const {
  Tensor values =
      run.tensor(packed.spec.rows, source_cols(role), fp32_format(), MemoryKind::operands);
  run.execute(Unpack{.packed = &packed, .values = values, .undoes_prescale = true});
  return values;
}

Source Linear::forward_input(Run& run, Source& x) const {
  OperandRequest by = request(run, OperandRole::fprop_input, x);
  by.context.stats = nullptr;  // counted in the forward pass
  Tensor amax;
  if (!x.has_operand(by.spec, by.context.key))
    know_amax(run, OperandRole::fprop_input, x, by, amax);
  const Prepared& made = x.operand(run, by.spec, by.context);
  const Tensor values = decoded(run, made.packed, OperandRole::wgrad_input);
  return {values, values.view(), x.tensor(), x.first_row()};
}

void Linear::pass_input(Run& run, BackwardProduct& product, Source& x) const {
  if (!product.passed) return;
  NG_CHECK(!x.is_read(), name_);
  OperandRequest by = request(run, OperandRole::fprop_input, x);
  by.context.stats = nullptr;  // counted in the forward pass
  by.context.update_history = false;
  product.passed->source = x.values_for(run, by.spec, by.context);
  if (!by.context.stored.has_scales())
    share_amax(run, OperandRole::fprop_input, product.passed->source, by, product.amax);
  product.passed->spec = by.spec;
  product.passed->context = by.context;
}

void Linear::pass_weight(Run& run, BackwardProduct& product) {
  if (!product.passed) return;
  OperandRequest by{spec(OperandRole::fprop_weight, 0, run),
                    context(OperandRole::fprop_weight, weight_->id, run)};
  by.context.stats = nullptr;
  by.context.update_history = false;
  place_in_whole(OperandRole::fprop_weight, by.context);
  const Stored from = stored_weight(run);
  const bool is_stored = takes_stored(by.spec, from.cast);
  const ReadableWeight weight = read_weight(run, from, is_stored);
  if (is_stored)
    by.context.stored = from.view;
  else
    share_amax(run, OperandRole::fprop_weight, weight.view, by, product.amax);
  product.passed->spec = by.spec;
  product.passed->source = weight.view;
  product.passed->context = by.context;
  product.read = weight.copy;
}

bool Linear::makes_both_of_weight(const Run& run) const {
  if (!keeps_operands_ || !run.saving() || run.evaluating() || noise_ ||
      run.tensor_group().ranks() > 1 || is_from_fprop(OperandRole::dgrad_weight))
    return false;
  for (const OperandRole role : kOfWeight) {
    const OperandSpec by = spec(role, 0, run);
    const size_t bytes = run.operand_bytes(by);
    if (cast(role).scaling == Scaling::delayed || takes_stored(by, weight_->weight.value.cast) ||
        bytes == 0 || bytes >= weight_->value().bytes())
      return false;
  }
  return true;
}

void Linear::prepare_both_of_weight(Run& run) {
  const Run::Place place = run.in(name_, name_of(OperandRole::fprop_weight));
  const Stored from = stored_weight(run);
  const ReadableWeight weight = read_weight(run, from, false);
  std::array<OperandRequest, 2> by;
  for (size_t i = 0; i < by.size(); ++i)
    by[i] = {spec(kOfWeight[i], 0, run), context(kOfWeight[i], weight_->id, run)};
  const AmaxSlot amax = amax_of_both(run, by[0].spec, by[1].spec, weight.view);
  for (OperandRequest& one : by) one.context.amax = amax.of(one.spec);
  weight_->operands = prepare_operands(run, weight.copy, weight.view, by, weight_->operand_memory);
  for (size_t i = 0; i < by.size(); ++i)
    show(run, kOfWeight[i], weight_->operands[i], {weight.view, {}});
}

Prepared Linear::weight_operand(Run& run, OperandRole role) {
  const Run::Place place = run.in(name_, name_of(role));
  const bool again_this_step = (run.moment().micros > 1 && !run.evaluating()) || keeps_weights_;
  const size_t of_role = role == kOfWeight[0] ? 0 : 1;
  Prepared& kept = weight_->operands[of_role];
  const OperandSpec asked = spec(role, 0, run);
  if (!kept && of_role == 0 && makes_both_of_weight(run)) prepare_both_of_weight(run);
  if (kept) {
    NG_CHECK(kept.packed.spec == asked, name_, name_of(role));
    return again_this_step ? kept : std::exchange(kept, {});
  }
  Stored from;
  ReadableWeight weight;
  bool is_stored = false;
  if (is_from_fprop(role)) {
    const Prepared read = weight_operand(run, OperandRole::fprop_weight);
    weight.copy = decoded(run, read.packed, role);
    weight.view = weight.copy;
  } else {
    from = stored_weight(run);
    is_stored = takes_stored(asked, from.cast);
    weight = read_weight(run, from, is_stored);
  }
  OperandRequest by{asked, context(role, weight_->id, run)};
  place_in_whole(role, by.context);
  Tensor amax;
  if (is_stored)
    by.context.stored = from.view;
  else
    share_amax(run, role, weight.view, by, amax);
  Prepared made = prepare_operand(run, weight.copy, weight.view, asked, by.context,
                                  weight_->operand_memory[of_role]);
  if (!is_stored) show(run, role, made, {weight.view, {}});
  // What is read in place in memory of the step ends with the step's program.
  const bool ends_with_step = made.source && weight_->operand_memory[of_role] != nullptr;
  if (again_this_step && !ends_with_step) kept = made;
  return made;
}

}  // namespace ng
