#include "tools/update_file.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "run/backends.h"
#include "tools/tensor_layer.h"
#include "tools/tensor_output.h"
#include "tools/tensor_update.h"
#include "tools/update_input.h"
#include "tools/update_setup.h"
#include "tools/update_states.h"

namespace ng {
namespace {

constexpr const char* kUpdateMark = "update";  // of the metadata of what is written here

std::map<std::string, std::string> metadata_of(const Recipe& recipe, const ParameterSpec& spec,
                                               const UpdateFileSettings& settings) {
  const OptimizerSettings& o = settings.optimizer;
  std::map<std::string, std::string> metadata = tensor_metadata(
      kUpdateMark, spec.name, recipe,
      {.seed = settings.seed, .tensor = settings.tensor_id, .step = settings.first_step});
  metadata.insert({{"lr", fmt::format("{}", settings.lr)},
                   {"beta1", fmt::format("{}", o.beta1)},
                   {"beta2", fmt::format("{}", o.beta2)},
                   {"eps", fmt::format("{}", o.eps)},
                   {"weight_decay", fmt::format("{}", o.weight_decay)},
                   {"heads", std::to_string(o.heads)},
                   {"kv_heads", std::to_string(o.kv_heads)}});
  return metadata;
}

std::string describe_state(const NamedState& state) {
  const Stored& tensor = state.tensor;
  const bool is_bare = tensor.cast == stored_plainly(tensor.view).cast;  // a carry
  return fmt::format("{} {}", state.name,
                     is_bare ? tensor.view.element->short_name : describe(tensor.cast));
}

UpdateFileReport update_tensor(const std::string& in, const std::string& out, const Recipe& recipe,
                               const UpdateFileSettings& settings, const UpdateProgress& progress) {
  const UpdateInput input(in, settings.tensors);
  const UpdatePlan plan =
      plan_of({.steps = settings.steps, .show = settings.show}, settings.first_step, input);
  const LayerOfWeight layer =
      layer_of_weight(input.weight_tensor(), settings.layer, settings.blocks);
  const ParameterSpec spec = parameter_of(layer.name, input);
  check_heads(recipe.settings(0).optimizer.kind, settings.optimizer, spec);
  const WeightStorage storage = storage_of(recipe, spec, layer.blocks, input.has_direction());
  check_feedback(storage, settings.optimizer);
  std::unique_ptr<Optimizer> optimizer;
  if (!input.has_direction())
    optimizer = make_optimizer(recipe.settings(0).optimizer, settings.optimizer);
  Run run(make_backend(settings.backend, settings.threads, settings.thread_order), settings.seed);
  TensorUpdate update(run, {.spec = spec,
                            .tensor_id = settings.tensor_id,
                            .storage = storage,
                            .optimizer = optimizer.get()});
  put_start(input, run, update);

  UpdateFileReport report;
  report.rows = input.rows();
  report.cols = input.cols();
  report.parameter = spec.name;
  report.is_turned = layer.is_turned;
  for (const NamedState& state : update.states()) report.stored.push_back(describe_state(state));
  report.shown = plan.show;
  StateWriter writer(out, update, plan.show, metadata_of(recipe, spec, settings));
  const auto show = [&](int64_t step) {
    if (!std::binary_search(plan.show.begin(), plan.show.end(), step)) return;
    for (std::string& name : writer.write(run.backend(), step))
      report.not_finite.push_back(std::move(name));
  };
  show(0);
  std::vector<float> moves(static_cast<size_t>(input.rows() * input.cols()));
  for (int64_t done = 0; done < plan.steps; ++done) {
    input.read_step(done, moves);
    const UpdateReport seen = update.step(settings.lr, settings.first_step + done, moves);
    report.steps.push_back(figures_of(seen, update.parameter().weight, settings.lr));
    report.steps.back().step = done + 1;
    if (const std::string state = update.overflowing(); !state.empty())
      report.overflowing.push_back(fmt::format("step {}: {}", done + 1, state));
    show(done + 1);
    progress(done + 1, plan.steps);
  }
  writer.commit();
  return report;
}

}  // namespace

UpdateFileReport update_file(const std::string& in, const std::string& out, const Recipe& recipe,
                             const UpdateFileSettings& settings, const UpdateProgress& progress) {
  require_tensor_output(out, in, recipe, kUpdateMark, "an update");
  try {
    return update_tensor(in, out, recipe, settings, progress);
  } catch (const Unsupported& lack) {
    throw Error({recipe.place(), "", lack.what(), "another backend, or other numbers"});
  }
}

}  // namespace ng
