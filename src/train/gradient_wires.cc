#include "train/gradient_wires.h"

#include <utility>

#include "backend/gradient_scale.h"
#include "comm/gradient_exchange.h"
#include "comm/gradient_sum.h"

namespace ng {

GradientWires::GradientWires(Run& run, Model& model)
    : run_(run), model_(model), saturated_(model.parameters().size()) {
  if (run.ranks().world().ranks() > 1 && !sent().empty())
    amax_ = {run.persistent_values<float>("largest gradients", saturated_.size()),
             saturated_.size()};
}

std::vector<size_t> GradientWires::sent() const {
  std::vector<size_t> indices;
  const std::span<Parameter> parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!parameters[i].communicate.is_fp32()) indices.push_back(i);
  return indices;
}

void GradientWires::exchange() {
  const std::vector<size_t> indices = sent();
  if (indices.empty()) return;
  find_amax(indices);
  for (const size_t index : indices) send(index);
}

// One message for all tensors.
void GradientWires::find_amax(std::span<const size_t> indices) {
  const std::span<Parameter> parameters = model_.parameters();
  if (!ranks_share_scale(parameters[indices.front()].communicate)) return;  // all have one format
  for (const size_t i : indices) run_.execute(FindAmax{.amax = &amax_[i], .x = parameters[i].grad});
  if (run_.recording()) return;
  std::vector<float> largest = run_.read(std::span<const float>(amax_));
  run_.ranks().world().max(largest);  // of whole tensors, whoever has parts of them
  run_.upload(amax_.data(), std::span<const float>(largest));
}

void GradientWires::send(size_t index) {
  Parameter& parameter = model_.parameters()[index];
  finish_gradient(run_, parameter,
                  ranks_share_scale(parameter.communicate) ? &amax_[index] : nullptr);
  std::vector<Tensor> means;
  for (const Parameter* owned : model_.owned_of(index))
    means.push_back(
        run_.tensor(owned->spec.rows, owned->spec.cols, fp32_format(), MemoryKind::gradients));
  if (!run_.recording()) take_mean(index, means);
  parameter.grad = {};
  parameter.grad_scales = {};
  auto mean = means.begin();
  for (Parameter* owned : model_.owned_of(index)) owned->grad = std::move(*mean++);
}

void GradientWires::take_mean(size_t index, const std::vector<Tensor>& means) {
  const Parameter& parameter = model_.parameters()[index];
  const Operand& cast = parameter.communicate;
  const GradientRecipe& recipe = model_.gradient_recipe();
  GradientWire wire{.cast = cast, .reduce = recipe.reduce};
  if (ranks_share_scale(cast))
    wire.encode_scale = shared_encode_scale(cast, run_.read(&amax_[index]), parameter.auto_scale);
  const ReducedGradient reduced = reduce_gradient(
      run_.comm(), parameter.gradient(), wire, model_.partition().of(static_cast<int64_t>(index)));
  if (parameter.auto_scale != nullptr)
    saturated_[index] = recipe.reduce == GradientRecipe::Reduce::wire
                            ? reduced.largest
                            : count_largest(parameter.gradient());
  std::span<const float> values = reduced.mean;
  for (const Tensor& mean : means) {
    const View to = mean;
    const auto count = static_cast<size_t>(to.size());
    run_.upload(to.as<float>().data, values.first(count));
    values = values.subspan(count);
  }
}

// `fp32` counts the codes of all ranks, `wire` those of their running sum. [errata-2, 31]
void GradientWires::move_scales(const StepControl* control) {
  if (run_.recording() || run_.read(control).skip != 0) return;
  std::vector<uint64_t> saturated = saturated_;
  run_.ranks().world().sum(saturated);
  const GradientRecipe& recipe = model_.gradient_recipe();
  const bool on_wire = recipe.reduce == GradientRecipe::Reduce::wire;
  const std::span<Parameter> parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].auto_scale == nullptr) continue;
    AutoScale scale = run_.read(parameters[i].auto_scale);
    move_auto_scale({.scale = &scale,
                     .codes = {},
                     .threshold = recipe.saturation_threshold,
                     .window = recipe.growth_interval},
                    static_cast<int64_t>(saturated[i]),
                    parameters[i].elements_of_whole() * parameters[i].spec.cut.parts *
                        (on_wire ? 1 : run_.comm().ranks()));
    run_.upload(parameters[i].auto_scale, std::span<const AutoScale>(&scale, 1));
  }
}

}  // namespace ng
