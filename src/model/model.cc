#include "model/model.h"

#include <cmath>

#include "model/builder.h"

namespace ng {
namespace {

std::vector<Parameter> make_parameters(Run& run, const ModelConfig& config, TensorTable& tensors) {
  std::vector<Parameter> parameters;
  for (ParameterSpec& spec : parameter_table(config)) {
    Parameter parameter;
    parameter.id = tensors.add(spec.name);
    parameter.value = run.persistent(spec.rows, spec.cols, MemoryKind::weights);
    parameter.spec = std::move(spec);
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

// Rows of the last position of each sequence.
Tensor last_rows(Run& run, ConstView x, const Positions& at) {
  const Tensor last = run.tensor(at.sequences, x.cols);
  for (int64_t s = 0; s < at.sequences; ++s)
    run.ops().copy(last.view().slice(s, 1), x.slice((s + 1) * at.length - 1, 1));
  return last;
}

}  // namespace

Model::Model(Run& run, const ModelConfig& config, const Recipe& recipe, RecomputePolicy recompute)
    : config_(config), recipe_(recipe) {
  validate(config, "model");
  parameters_ = make_parameters(run, config_, tensors_);
  const ArchitectureParts& parts = parts_of(config_.architecture);
  const Builder build({.run = run,
                       .config = config_,
                       .recipe = recipe_,
                       .tensors = tensors_,
                       .parameters = parameters_});
  View rope_table;
  if (!parts.learned_positions) {
    rope_table = run.persistent(config_.context, config_.head_dim, MemoryKind::state);
    run.ops().rope_table(rope_table, config_.rope_theta);
  }
  embedding_ = std::make_unique<Embedding>(build.parameter("embed.weight"),
                                           build.find("pos.weight"), build.compute());
  for (int64_t i = 0; i < config_.layers; ++i) {
    std::unique_ptr<Layer> block = build.block(i, rope_table);
    if (recompute == RecomputePolicy::block) block = std::make_unique<Recompute>(std::move(block));
    blocks_.add(std::move(block));
  }
  norm_ = std::make_unique<Norm>(build.norm("norm"));
  head_ = std::make_unique<Head>(build.head(), build.compute());
  blocks_.collect(linears_);
  linears_.push_back(&head_->linear());
  allocate_stats(run);
}

Model::~Model() = default;

void Model::allocate_stats(Run& run) {
  const size_t count = linears_.size() * kOperandRoles;
  std::byte* memory = run.persistent_bytes(count * sizeof(OperandStats), MemoryKind::state);
  stats_ = {reinterpret_cast<OperandStats*>(memory), count};
  for (size_t i = 0; i < linears_.size(); ++i)
    linears_[i]->set_stats(stats_.data() + i * kOperandRoles);
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.value.size();
  return count;
}

void Model::initialize(Run& run) {
  const float residual = config_.init_std / std::sqrt(2.0f * static_cast<float>(config_.layers));
  for (Parameter& parameter : parameters_) {
    const RandomKey key{.seed = run.seed(), .tensor = parameter.id, .step = 0};
    switch (parameter.spec.init) {
      case Init::normal:
        run.ops().fill_normal(parameter.value, config_.init_std, key);
        break;
      case Init::residual_normal:
        run.ops().fill_normal(parameter.value, residual, key);
        break;
      case Init::zeros:
        run.ops().fill(parameter.value, 0.0f);
        break;
      case Init::ones:
        run.ops().fill(parameter.value, 1.0f);
        break;
    }
  }
}

void Model::set_phase(Run& run, int phase) {
  const Compute compute = recipe_.compute(phase);
  embedding_->set_compute(compute);
  blocks_.set_compute(compute);
  norm_->set_compute(compute);
  head_->set_compute(compute);
  for (Linear* linear : linears_) linear->set_phase(run, static_cast<size_t>(phase));
}

Tensor Model::hidden(Run& run, const Batch& batch) {
  NG_CHECK(batch.at.first + batch.at.length <= config_.context, batch.at.first, batch.at.length);
  return blocks_.forward(run, embedding_->forward(run, batch), batch);
}

void Model::train_batch(Run& run, const Batch& batch, double* loss) {
  Tensor dx;
  {
    const Tensor x = hidden(run, batch);
    Tensor dn;
    {
      Source n = norm_->source(run, x);
      dn = head_->loss_and_gradient(run, n, batch, loss);
    }
    dx = run.tensor(x.view().rows, x.view().cols);
    norm_->backward(run, dx, {}, dn, x);
  }
  blocks_.backward(run, dx, batch);
  embedding_->backward(run, dx, batch);
}

void Model::evaluate_batch(Run& run, const Batch& batch, double* loss) {
  const Tensor x = hidden(run, batch);
  Source n = norm_->source(run, x);
  head_->loss(run, n, batch, loss);
}

Tensor Model::logits(Run& run, const Batch& batch, bool last_only) {
  Tensor x = hidden(run, batch);
  if (last_only) x = last_rows(run, x, batch.at);
  Source n = norm_->source(run, x);
  return head_->logits(run, n);
}

void Model::forget_step() {
  for (Parameter& parameter : parameters_) ng::forget_step(parameter);
}

void Model::roll_scales(Run& run, bool skipped) {
  for (Linear* linear : linears_) linear->roll_scales(run, skipped);
}

}  // namespace ng
