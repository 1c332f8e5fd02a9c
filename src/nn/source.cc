#include "nn/source.h"

#include <utility>

#include "base/error.h"

namespace ng {
namespace {

bool same_operand(const Prepared& made, const OperandSpec& spec, const RandomKey& key) {
  // A delayed scale belongs to one layer's operand: its history must see every step.
  if (spec.cast.scaling == Scaling::delayed) return false;
  return made.packed.spec == spec && (spec.cast.rounding == Rounding::nearest || made.key == key);
}

// An operand with its memory, to be filled.
Prepared reserve_operand(Run& run, const Tensor& owner, const OperandSpec& spec,
                         const PrepareContext& context, OperandMemory* memory = nullptr) {
  Prepared made;
  made.packed.spec = spec;
  made.packed.bytes = run.operand_bytes(spec);
  made.key = context.key;
  if (made.packed.bytes > 0 && memory != nullptr) {
    made.packed.storage = memory->room(run.backend(), made.packed.bytes);
  } else if (made.packed.bytes > 0) {
    made.storage = run.bytes(made.packed.bytes, MemoryKind::operands);
    made.packed.storage = made.storage.bytes();
  } else {
    made.source = owner;
  }
  return made;
}

}  // namespace

bool takes_off_mean(const Run& run, const OperandSpec& spec) {
  return run.backend().takes_off_means() && run.operand_bytes(spec) > 0;
}

CastTensor cast_tensor(Run& run, int64_t rows, int64_t cols, const Operand& cast, MemoryKind kind) {
  Tensor elements = run.tensor(rows, cols, *cast.element, kind), scales, level;
  if (!cast.is_unscaled()) {
    const ScaleShape shape = scale_shape(cast, rows, cols);
    scales = run.tensor(shape.rows, shape.cols, scale_element(cast), kind);
    if (cast.tensor_scale != ScaleKind::none) level = run.tensor(1, 1, fp32_format(), kind);
  }
  return cast_tensor_of(cast, std::move(elements), std::move(scales), std::move(level));
}

CastTensor cast_tensor_of(const Operand& cast, Tensor elements, Tensor scales, Tensor level) {
  CastTensor made{.elements = std::move(elements),
                  .scales = std::move(scales),
                  .level = std::move(level),
                  .view = {},
                  .cast = cast};
  made.view = made.elements;
  if (made.scales)
    made.view.scales = {made.scales.bytes(), made.scales.view().element, cast.block,
                        made.level ? made.level.view().as<float>().data : nullptr};
  return made;
}

Source::Source(const CastTensor& stored, uint32_t tensor)
    : stored_(stored), tensor_(tensor), first_row_(0) {}

Source::Source(Prepared operand, int64_t rows, uint32_t tensor, const Tensor& mean)
    : tensor_(tensor), first_row_(0) {
  values_.rows = rows;
  if (!mean) {
    next_slot() = std::move(operand);
    return;
  }
  Source of_rest(std::move(operand), rows, tensor);
  of_rest.mean_ = mean;
  centered_[0] = std::make_shared<Source>(std::move(of_rest));
}

bool Source::is_taken_by(const OperandSpec& spec) const {
  return stored_ && takes_stored(spec, stored_.cast);
}

ConstView Source::read(Run& run, bool taken) {
  NG_CHECK(has_values(), rows());
  if (!stored_) return values_;
  const auto copy = [&](const View& of, bool in_bf16) {
    Tensor made =
        run.tensor(of.rows, of.cols, in_bf16 ? bf16_format() : fp32_format(), MemoryKind::operands);
    run.execute(Store{stored_plainly(made), of, {}});
    return made;
  };
  if (taken) {
    View elements = stored_.view;
    elements.scales = {};
    if (!elements_) elements_ = copy(elements, elements.element->bits <= 8);
    return elements_;
  }
  if (!owner_) owner_ = copy(stored_.view, stored_.cast.is_exact_in_bf16());
  return values_ = owner_;
}

std::byte* OperandMemory::room(Backend& backend, size_t bytes) {
  if (size() < bytes) {
    memory_.reset();
    memory_ = std::make_unique<BackendMemory>(backend, bytes);
  }
  return memory_->data();
}

Prepared prepare_operand(Run& run, const Tensor& owner, ConstView values, const OperandSpec& spec,
                         const PrepareContext& context, OperandMemory* memory) {
  Prepared made = reserve_operand(run, owner, spec, context, memory);
  run.execute(Prepare{&made.packed, values, context});
  return made;
}

std::array<Prepared, 2> prepare_operands(Run& run, const Tensor& owner, ConstView values,
                                         const std::array<OperandRequest, 2>& by,
                                         const std::array<OperandMemory*, 2>& memory) {
  std::array<Prepared, 2> made;
  PrepareBoth both{.made = {}, .source = values};
  for (size_t i = 0; i < by.size(); ++i) {
    NG_CHECK(by[i].spec.cast.scaling != Scaling::delayed, by[i].spec.rows);
    made[i] = reserve_operand(run, owner, by[i].spec, by[i].context, memory[i]);
    both.made[i] = {&made[i].packed, by[i].context};
  }
  run.execute(both);
  return made;
}

// Both roundings of one sum.
void Source::find_means(Run& run) {
  const ConstView values = read(run, false);
  std::array<Tensor, 2> means;
  for (Tensor& mean : means) mean = run.tensor(1, values.cols, fp32_format(), MemoryKind::operands);
  run.execute(FindColumnMeans{.mean = means[0], .in_bf16 = means[1], .x = values});
  for (size_t i = 0; i < means.size(); ++i) {
    centered_[i] = std::make_shared<Source>(owner_, values, tensor_, first_row_);
    centered_[i]->mean_ = means[i];
  }
}

Source& Source::centered(Run& run, Compute round) {
  std::shared_ptr<Source>& made = centered_[round == Compute::bf16 ? 1 : 0];
  if (!made) find_means(run);
  return *made;
}

void Source::make_both(Run& run, const std::array<Source*, 2>& sources,
                       const std::array<OperandRequest, 2>& by) {
  const Source& first = *sources[0];
  std::array<OperandRequest, 2> requests = by;
  for (size_t i = 0; i < by.size(); ++i) {
    NG_CHECK(sources[i]->values_.data == first.values_.data && !sources[i]->stored_, first.rows());
    requests[i].context.mean =
        sources[i]->mean_ ? sources[i]->mean_.view().as<float>().data : nullptr;
  }
  std::array<Prepared, 2> made = prepare_operands(run, first.owner_, first.values_, requests);
  for (size_t i = 0; i < made.size(); ++i) sources[i]->next_slot() = std::move(made[i]);
}

const Prepared* Source::find_operand(const OperandSpec& spec, const RandomKey& key) const {
  for (const Prepared& made : made_)
    if (made && same_operand(made, spec, key)) return &made;
  return nullptr;
}

ConstView Source::values_for(Run& run, const OperandSpec& spec, PrepareContext& context) {
  const bool taken = is_taken_by(spec);
  if (taken) context.stored = stored_.view;
  const ConstView values = read(run, taken);
  if (!mean_) return values;
  if (takes_off_mean(run, spec)) {
    context.mean = mean_.view().as<float>().data;
    return values;
  }
  if (!rest_) {
    rest_ = run.tensor(values.rows, values.cols, fp32_format(), MemoryKind::operands);
    run.execute(SubtractRow{.y = rest_, .x = values, .row = mean_.view()});
  }
  return rest_.view();
}

const Prepared& Source::operand(Run& run, const OperandSpec& spec, const PrepareContext& context) {
  if (const Prepared* made = find_operand(spec, context.key)) return *made;
  PrepareContext by = context;
  const ConstView values = values_for(run, spec, by);
  const bool is_rest = mean_ && !takes_off_mean(run, spec);
  const Tensor& owner = is_taken_by(spec) ? elements_ : is_rest ? rest_ : owner_;
  return next_slot() = prepare_operand(run, owner, values, spec, by);
}

}  // namespace ng
