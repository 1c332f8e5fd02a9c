#include "speed/layer_speed.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "model/model.h"
#include "run/backends.h"

namespace ng {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr uint32_t kInput = 1, kWeight = 2, kOutput = 3;

// An activation: N(0, size²), as the recipe's numbers keep it.
View random_matrix(Run& run, int64_t rows, int64_t cols, uint32_t tensor, float size) {
  const auto count = static_cast<size_t>(rows * cols);
  const View values{run.persistent_values<float>("values", count), rows, cols, cols};
  run.execute(
      FillNormal{values, size, {.seed = 1, .tensor = tensor, .step = 0, .purpose = Purpose::init}});
  return values;
}

// A layer alone, with its own memory.
class TimedLayer {
 public:
  TimedLayer(const LayerKind& kind, int64_t tokens, std::unique_ptr<Backend> backend)
      : run_(std::move(backend), 1) {
    weight_.id = kWeight;
    weight_.weight.value =
        stored_plainly(random_matrix(run_, kind.outputs, kind.inputs, kWeight, 0.02f));
    const ElementFormat& element = element_of(kind.recipe.fprop.output);
    x_ = zeros("x", tokens, kind.inputs, element);
    run_.execute(Copy{x_, random_matrix(run_, tokens, kind.inputs, kInput, 1.0f)});
    dx_ = zeros("dx", tokens, kind.inputs, element);
    y_ = zeros("y", tokens, kind.outputs, element);
    dw_ = zeros("dw", kind.outputs, kind.inputs, fp32_format());
    layer_ = std::make_unique<Linear>(run_, Linear::Parts{.name = kind.names.front(),
                                                          .output = kOutput,
                                                          .weight = &weight_,
                                                          .bias = nullptr,
                                                          .phases = {kind.recipe}});
    program_ = run_.record([this] { step(); });
    run_.reserve({&program_});
  }

  /// Forward and backward; their seconds.
  double run_once() {
    run_.reset_seconds();
    run_.replay(program_, [this] { step(); });
    const double seconds = total_seconds(run_.seconds());
    const double backward = seconds - forward_;
    if (seconds < least_) best_.by_kind = run_.seconds();
    least_ = std::min(least_, seconds);
    best_.forward = std::min(best_.forward, forward_);
    best_.backward = std::min(best_.backward, backward);
    return seconds;
  }
  [[nodiscard]] const LayerSeconds& best() const { return best_; }

 private:
  View zeros(const std::string& name, int64_t rows, int64_t cols, const ElementFormat& element) {
    return run_.persistent({.name = name,
                            .owner = "layer",
                            .kind = MemoryKind::state,
                            .element = &element,
                            .rows = rows,
                            .cols = cols,
                            .is_saved = false});
  }
  void step() {
    Source input(Tensor(), x_, kInput), gradient(Tensor(), y_, kOutput);
    layer_->fprop(run_, y_, input);
    forward_ = total_seconds(run_.seconds());
    layer_->make_gradient_operands(run_, gradient);
    layer_->dgrad(run_, dx_, Into::overwrite, input, gradient);
    layer_->wgrad(run_, {dw_, Into::overwrite}, input, gradient);
    forget_step(weight_);
  }

  Run run_;
  Parameter weight_;
  View x_, dx_, dw_;
  View y_;  // and its gradient
  std::unique_ptr<Linear> layer_;
  Program program_;
  LayerSeconds best_{.forward = kNever, .backward = kNever};
  double least_ = kNever;
  double forward_ = 0;
};

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

LayerComparison compare_layer(const LayerKind& kind, int64_t tokens,
                              const std::function<std::unique_ptr<Backend>()>& backend) {
  constexpr int kLeastRounds = 4;  // the first one meets cold caches and pages
  constexpr int kMostRounds = 24;
  constexpr double kSeconds = 1;
  LayerKind fp32 = kind;
  fp32.recipe = Recipe::load("fp32").linear({.name = kind.names.front()}, 0);
  TimedLayer narrow(kind, tokens, backend());
  TimedLayer wide(fp32, tokens, backend());
  double spent = 0;
  for (int round = 0; round < kLeastRounds || (round < kMostRounds && spent < kSeconds); ++round)
    spent += narrow.run_once() + wide.run_once();
  return {narrow.best(), wide.best()};
}

}  // namespace ng
