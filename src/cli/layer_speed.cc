#include "cli/layer_speed.h"

#include <algorithm>
#include <numeric>

#include "model/model.h"
#include "run/backends.h"

namespace ng::cli {
namespace {

constexpr uint32_t kInput = 1, kWeight = 2, kOutput = 3;

void fill(Run& run, View view, uint32_t tensor, float size) {
  run.ops().fill_normal(view, size,
                        {.seed = 1, .tensor = tensor, .step = 0, .purpose = Purpose::init});
}

double total(const TimeByKind& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

}  // namespace

std::vector<LayerKind> layer_kinds(const ModelConfig& config, const Recipe& recipe, int phase) {
  Run run(make_backend("cpu", Threads{1}), 1);
  Model model(run, config, recipe, RecomputePolicy::none);
  std::vector<LayerKind> kinds;
  for (const Linear* layer : model.linears()) {
    const LinearRecipe& numbers = layer->phases()[static_cast<size_t>(phase)];
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& kind) {
      return kind.outputs == layer->outputs() && kind.inputs == layer->inputs() &&
             kind.recipe == numbers;
    });
    if (same == kinds.end())
      kinds.push_back({{layer->name()}, layer->outputs(), layer->inputs(), numbers});
    else
      same->names.push_back(layer->name());
  }
  return kinds;
}

LayerSeconds layer_seconds(const LayerKind& kind, int64_t tokens, Threads threads,
                           const std::string& backend) {
  constexpr int kRounds = 4;  // the first one meets cold caches and pages
  Run run(make_backend(backend, threads), 1);
  Parameter weight;
  weight.id = kWeight;
  weight.value = run.persistent(kind.outputs, kind.inputs, MemoryKind::weights);
  const View x = run.persistent(tokens, kind.inputs, MemoryKind::state);
  const View dx = run.persistent(tokens, kind.inputs, MemoryKind::state);
  const View y = run.persistent(tokens, kind.outputs, MemoryKind::state);  // and its gradient
  const View dw = run.persistent(kind.outputs, kind.inputs, MemoryKind::gradients);
  fill(run, x, kInput, 1.0f);
  fill(run, weight.value, kWeight, 0.02f);
  Linear layer(run, {.name = kind.names.front(),
                     .output = kOutput,
                     .weight = &weight,
                     .bias = nullptr,
                     .phases = {kind.recipe}});
  LayerSeconds best, now;
  const auto body = [&] {
    Source input(Tensor(), x, kInput), gradient(Tensor(), y, kOutput);
    layer.fprop(run, y, input);
    now.forward = total(run.seconds());
    layer.dgrad(run, dx, Into::overwrite, gradient);
    layer.wgrad(run, {dw, Into::overwrite}, input, gradient);
    forget_step(weight);
  };
  const Program program = run.record(body);
  run.reserve({&program});
  for (int round = 0; round < kRounds; ++round) {
    run.reset_seconds();
    run.replay(program, body);
    now.by_kind = run.seconds();
    now.backward = total(now.by_kind) - now.forward;
    if (round == 0 || now.total() < best.total()) best = now;
  }
  return best;
}

}  // namespace ng::cli
