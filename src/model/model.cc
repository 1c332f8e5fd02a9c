#include "model/model.h"

#include <algorithm>
#include <cmath>

#include "comm/auto_scale.h"
#include "comm/gradient_pieces.h"
#include "model/adapters.h"
#include "model/builder.h"
#include "model/ownership.h"
#include "model/tensor_parallel.h"
#include "recipe/layer_names.h"
#include "recipe/matches.h"
#include "run/owned_rows.h"
#include "run/transfer.h"

namespace ng {
namespace {

// Of the weight of a linear layer that has noise; else none.
std::vector<ParameterSpec> noise_parameters_of(const ParameterSpec& spec, const Recipe& recipe,
                                               int64_t depth) {
  if (spec.is_vector) return {};
  const LayerPlace place = layer_place(spec, depth);
  const WeightNoise noise = recipe.layer(place, 0).weight_noise;
  if (noise.kind == NoiseKind::none) return {};
  return noise_parameters(noise, place.name, spec.rows, spec.cols);
}

std::span<Linear* const> layers_of(const Model* model) {
  if (model == nullptr) return {};
  return model->linears();
}

// Some rows of a parameter.
Parameter part_of(const Parameter& whole, const Piece& piece) {
  Parameter part;
  part.spec = whole.spec;
  part.id = whole.id;
  part.weight = whole.weight;
  part.spec.rows = piece.rows;
  part.first_row = piece.first_row;
  part.whole_rows = whole.spec.rows;
  part.is_copied = whole.is_copied;
  part.weight.value.view = rows_of(whole.value(), piece);
  return part;
}

}  // namespace

Model::Model(Run& run, const ModelConfig& config, const Recipe& recipe, RecomputePolicy recompute,
             WeightGather gather, const Model* trained)
    : config_(config), recipe_(recipe) {
  NG_CHECK(recipe.is_frozen() == (trained != nullptr));
  validate(config, "model");
  if (trained == nullptr) require_matches(recipe, ng::layers_of(config));
  make_parameters(run, gather, trained);
  const std::span<Parameter> all = parameters_;
  const size_t of_architecture = tensors_.names().size();
  const ArchitectureParts& parts = parts_of(config_.architecture);
  const Builder build({.run = run,
                       .config = config_,
                       .recipe = recipe_,
                       .tensors = tensors_,
                       .parameters = all.first(of_architecture),
                       .beside = all.subspan(of_architecture),
                       .keeps_operands = recompute == RecomputePolicy::none,
                       .trained = layers_of(trained)});
  View rope_table;
  if (!parts.learned_positions) {
    rope_table = run.persistent({.name = recipe.is_frozen() ? "reference.rope_table" : "rope_table",
                                 .owner = "model",
                                 .kind = MemoryKind::state,
                                 .element = &fp32_format(),
                                 .rows = config_.context,
                                 .cols = config_.head_dim,
                                 .is_saved = false});
    run.execute(RopeTable{
        .table = rope_table, .theta = config_.rope_theta, .scaling = config_.rope_scaling});
  }
  embedding_ =
      std::make_unique<Embedding>(build.parameter(layers::weight_of(layers::kEmbed)),
                                  build.find(layers::weight_of(layers::kPos)), build.compute());
  for (int64_t i = 0; i < config_.layers; ++i) {
    std::unique_ptr<Layer> block = build.block(i, rope_table);
    if (recompute == RecomputePolicy::block) block = std::make_unique<Recompute>(std::move(block));
    blocks_.add(std::move(block));
  }
  norm_ = std::make_unique<NormLayer>(build.norm(std::string(layers::kNorm)));
  head_ = std::make_unique<Head>(build.head());
  // Last, so that noise and adapters leave every other tensor its draws.
  for (Parameter& beside : all.subspan(of_architecture)) beside.id = tensors_.add(beside.spec.name);
  blocks_.collect(linears_);
  linears_.push_back(&head_->linear());
  allocate_stats(run);
  if (recipe.settings(0).gradient.accumulate == Compute::bf16) accumulate_in_bf16();
  communicate_gradients(run);
  divide_backward();
}

// What lies in no block has its gradient with the head's, but for tables of tokens and positions.
void Model::divide_backward() {
  of_blocks_.resize(static_cast<size_t>(config_.layers));
  const auto part_of_name = [&](std::string_view name) -> BackwardPart& {
    if (const int64_t block = layers::place_of(name).block; block >= 0)
      return of_blocks_[static_cast<size_t>(block)];
    const std::string_view layer = layers::layer_of(name);
    return layer == layers::kHead || layer == layers::kNorm ? of_head_ : of_rest_;
  };
  for (size_t i = 0; i < parameters_.size(); ++i)
    part_of_name(parameters_[i].spec.name).parameters.push_back(i);
  for (Linear* linear : linears_)
    part_of_name(linear->weight().spec.name).linears.push_back(linear);
}

// Gradients of embeddings, whose rows are added to one by one, and of vectors stay FP32.
void Model::accumulate_in_bf16() {
  for (Linear* linear : linears_)
    if (&linear->weight() != embedding_->tokens()) linear->weight().grad_element = &bf16_format();
}

// What noise learns and adapters lie behind the parameters of the architecture.
void Model::make_parameters(Run& run, WeightGather gather, const Model* trained) {
  const Comm& group = run.tensor_group();
  std::vector<ParameterSpec> specs = tensor_parallel_parts(parameter_table(config_), group.ranks(),
                                                           group.rank()),
                             learned = adapter_parameters(config_, specs);
  for (ParameterSpec& spec : specs) {
    tensors_.add(spec.name);
    spec.is_frozen = config_.lora.is_used() && !config_.lora.trains(layers::layer_of(spec.name));
    for (ParameterSpec& own : noise_parameters_of(spec, recipe_, config_.layers))
      learned.push_back(std::move(own));
  }
  for (ParameterSpec& spec : learned) specs.push_back(std::move(spec));
  partition_ = recipe_.is_stored_as_trained()
                   ? trained->partition()
                   : deal_parameters(specs, recipe_, config_.layers,
                                     {.data = run.comm().ranks(), .tensor = group.ranks()},
                                     gradient_recipe().shard,
                                     gather_among(run.ranks().world().ranks(), gather));
  parameters_.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    KeptWeight kept = kept_weight(recipe_, specs[i], config_.layers,
                                  gather_among(owners_of(run, specs[i]).ranks(), gather));
    if (recipe_.is_stored_as_trained())  // which may be as ranks send it
      kept.storage.storage = trained->parameters()[i].weight.value.cast;
    const WeightStorage& storage = kept.storage;
    Parameter& parameter = parameters_[i];
    parameter.id = static_cast<uint32_t>(i);
    parameter.is_plain = storage.storage.is_fp32() && storage.master == WeightStorage::Master::none;
    parameter.is_copied = kept.is_copied;
    parameter.weight = claim_value(run, specs[i], kept);
    parameter.spec = std::move(specs[i]);
    claim_pieces(run, static_cast<int64_t>(i), kept);
  }
}

// What this rank keeps beside the value of a parameter.
void Model::claim_pieces(Run& run, int64_t index, const KeptWeight& kept) {
  Parameter& whole = parameters_[static_cast<size_t>(index)];
  const Comm& owners = owners_of(run, whole.spec);
  for (const Piece& piece : partition_.of(index)) {
    if (piece.owner != owners.rank()) continue;
    const bool is_part = piece.rows < whole.spec.rows;
    if (is_part) parts_.push_back(part_of(whole, piece));
    Parameter& owned = is_part ? parts_.back() : whole;
    owned.is_own = run.ranks().world().ranks() > 1;
    claim_owned(run, owned, kept);
    owned_.push_back(&owned);
  }
  first_owned_.push_back(owned_.size());
}

void Model::communicate_gradients(Run& run) {
  for (Linear* linear : linears_) {
    Parameter& weight = linear->weight();
    if (weight.spec.is_frozen) continue;
    weight.communicate = gradient_wire(recipe_, weight.spec);
    if (weight.communicate.is_fp32() || !recipe_.settings(0).gradient.auto_scale) continue;
    const View state = run.persistent({.name = fmt::format("gradient_scale.{}", weight.spec.name),
                                       .owner = weight.spec.name,
                                       .kind = MemoryKind::state,
                                       .element = &fp32_format(),
                                       .rows = 1,
                                       .cols = sizeof(AutoScale) / sizeof(float)});
    weight.auto_scale = reinterpret_cast<AutoScale*>(state.data);
    const AutoScale first = first_auto_scale(gradient_recipe(), run.comm().ranks());
    run.upload(weight.auto_scale, std::span<const AutoScale>(&first, 1));
    if (!gradient_recipe().counts_good_steps()) continue;
    const View count =
        run.persistent({.name = fmt::format("gradient_good_steps.{}", weight.spec.name),
                        .owner = weight.spec.name,
                        .kind = MemoryKind::state,
                        .element = &fp32_format(),
                        .rows = 1,
                        .cols = 1});
    weight.good_steps = reinterpret_cast<float*>(count.data);
    constexpr float kNone = 0;
    run.upload(weight.good_steps, std::span<const float>(&kNone, 1));
  }
}

void Model::move_gradient_scales(Run& run, const StepControl* control) {
  const GradientRecipe& gradient = recipe_.settings(0).gradient;
  for (const Parameter& parameter : parameters_)
    if (parameter.auto_scale != nullptr)
      run.execute(MoveAutoScale{.scale = parameter.auto_scale,
                                .codes = parameter.gradient(),
                                .threshold = gradient.auto_scale_delta,
                                .window = gradient.growth_interval,
                                .good_steps = parameter.good_steps,
                                .growth_after = gradient.auto_scale_growth_after,
                                .control = control});
}

Model::~Model() = default;

void Model::allocate_stats(Run& run) {
  const size_t count = linears_.size() * kOperandRoles;
  stats_ = {run.persistent_values<OperandStats>("operand counters", count), count};
  for (size_t i = 0; i < linears_.size(); ++i)
    linears_[i]->set_stats(stats_.data() + i * kOperandRoles);
}

bool Model::is_part() const {
  return std::any_of(parameters_.begin(), parameters_.end(), [](const Parameter& parameter) {
    return parameter.is_copied || parameter.spec.cut;
  });
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_)
    count += parameter.value().size() * parameter.spec.cut.parts;
  return count;
}

void Model::initialize(Run& run) {
  for (size_t index = 0; index < parameters_.size(); ++index) {
    const Parameter& parameter = parameters_[index];
    if (parameter.is_plain && !parameter.spec.cut) {
      fill_initial(run, parameter, parameter.value());
      continue;
    }
    const ParameterSpec& spec = parameter.spec;
    const TemporaryTensor whole(run.backend(), spec.cut.whole_rows(spec.rows),
                                spec.cut.whole_cols(spec.cols));
    fill_initial(run, parameter, whole.view());
    if (!spec.cut) {
      put_values(run, index, whole.view());
      continue;
    }
    const TemporaryTensor mine(run.backend(), spec.rows, spec.cols);
    for (const CutPiece& at : pieces_of(spec.cut, spec.rows, spec.cols))
      run.execute(Copy{.y = mine.view().part(at.row, at.rows, at.col, at.cols),
                       .x = whole.view().part(at.whole_row, at.rows, at.whole_col, at.cols)});
    put_values(run, index, mine.view());
  }
  start_noise(run);
}

void Model::start_adapters(Run& run) {
  for (const Parameter& parameter : parameters_)
    if (parameter.spec.is_adapter) fill_initial(run, parameter, parameter.value());
}

void Model::start_noise(Run& run) {
  for (const Linear* linear : linears_) linear->start_noise(run);
}

void Model::finish_noise_backward(Run& run) {
  for (Linear* linear : linears_) linear->finish_noise_backward(run);
}

void Model::finish_noise_backward(Run& run, const BackwardPart& part) {
  for (Linear* linear : part.linears) linear->finish_noise_backward(run);
}

void Model::finish_noise(Run& run) {
  for (const Linear* linear : linears_) linear->finish_noise(run);
}

void Model::fill_initial(Run& run, const Parameter& parameter, const View& values) const {
  const float residual = config_.init_std / std::sqrt(2.0f * static_cast<float>(config_.layers));
  const RandomKey key{.seed = run.seed(), .tensor = parameter.id, .step = 0};
  switch (parameter.spec.init) {
    case Init::normal:
      return run.execute(FillNormal{values, config_.init_std, key});
    case Init::residual_normal:
      return run.execute(FillNormal{values, residual, key});
    case Init::zeros:
      return run.execute(Fill{values, 0.0f});
    case Init::ones:
      return run.execute(Fill{values, 1.0f});
    case Init::kaiming_uniform: {
      const std::vector<float> drawn =
          first_adapter_values(parameter.spec, run.seed(), parameter.id);
      return run.upload(values.as<float>().data, std::span<const float>(drawn));
    }
  }
}

void Model::set_phase(Run& run, int phase) {
  embedding_->set_compute(recipe_.compute(phase));
  for (Linear* linear : linears_) linear->set_phase(run, static_cast<size_t>(phase));
}

void Model::forget_step() {
  for (Parameter& parameter : parameters_) ng::forget_step(parameter);
  for (Parameter& part : parts_) ng::forget_step(part);
}

std::vector<float*> Model::newest_amax() const {
  std::vector<float*> newest;
  for (const Linear* linear : linears_)
    for (size_t role = 0; role < kOperandRoles; ++role)
      if (float* history = linear->delayed(static_cast<OperandRole>(role)).history)
        newest.push_back(history);
  return newest;
}

void Model::roll_scales(Run& run, bool skipped) {
  for (Linear* linear : linears_) linear->roll_scales(run, skipped);
}

}  // namespace ng
