// narrowgauge plan MODEL --ranks N: what training over ranks takes of memory and sends, and what
// would have to change at a thousand ranks. Nothing is trained or allocated.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/models/plan_text.h"
#include "io/model_files.h"
#include "io/model_of_run.h"
#include "model/parts_of_numbers.h"
#include "model/tensor_parallel.h"
#include "run/backends.h"
#include "train/run_inputs.h"

namespace ng::cli {
namespace {

struct PlanArgs {
  std::string model, base;
  std::string recipe = "fp8-lm";
  RankLayout layout;
  std::string device_memory = "80GB";
  int64_t batch = 1;
  int64_t accumulate = 1;
  int64_t length = 0;     ///< 0: the model's context
  std::string reference;  ///< empty: none
  bool json = false;
};

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names = model_preset_names();
  for (const PublishedShape& shape : published_shapes()) names.push_back(shape.name);
  return names;
}

ModelConfig config_of(const std::string& model, const std::string& base) {
  if (is_folder(model) || !base.empty())
    return io::read_model_config({io::model_path(model), base});
  if (const PublishedShape* shape = find_published_shape(model)) return shape->config;
  const std::vector<std::string_view> names = model_names();
  if (std::find(names.begin(), names.end(), model) != names.end()) return model_preset(model);
  refuse("MODEL", fmt::format("unknown \"{}\"", model),
         fmt::format("{}a model folder, or one of {}", did_you_mean(model, names),
                     fmt::join(names, " ")));
}

void require_layout(const RankLayout& layout, const ModelConfig& model, const Recipe& recipe,
                    const StepSettings& step) {
  if (layout.ranks % layout.tensor != 0)
    refuse("--tensor", fmt::format("{}", layout.tensor),
           fmt::format("a divisor of --ranks, {}", layout.ranks));
  require_tensor_parallel(model, layout.tensor, "--tensor");
  require_numbers_in_parts(
      model, recipe, {.parts = layout.tensor, .tokens = step.sequences * step.length}, "--tensor");
}

// Of preference training.
std::optional<DpoSettings> dpo_of(const PlanArgs& args) {
  if (args.reference.empty()) return {};
  if (args.batch % 2 != 0)
    refuse("--batch", fmt::format("{} sequences, and a pair is two", args.batch), "an even number");
  if (args.reference == "policy") return DpoSettings{};
  try {
    return DpoSettings{.reference_storage = operand_of(args.reference)};
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.place = "--reference";
    throw Error(parts);
  }
}

StepSettings step_of(const PlanArgs& args, const ModelConfig& model) {
  const int64_t length = args.length == 0 ? model.context : args.length;
  if (length > model.context)
    refuse("--length", fmt::format("{}", length),
           fmt::format("at most the model's context, {}", model.context));
  require_batch(model, {.sequences = args.batch, .length = length, .micros = args.accumulate},
                "--batch", "");
  require_countable_micros(args.accumulate, args.layout.ranks, "--accumulate", "");
  return {.sequences = args.batch,
          .length = length,
          .micros = args.accumulate,
          .masked = !args.reference.empty(),
          .optimizer = {},
          .dpo = dpo_of(args)};
}

void plan(const PlanArgs& args) {
  const ModelConfig model = config_of(args.model, args.base);
  const Recipe recipe = Recipe::load(args.recipe);
  const StepSettings step = step_of(args, model);
  require_layout(args.layout, model, recipe, step);
  const uint64_t device = *parse_size(args.device_memory);  // checked by the flag
  const auto backend = make_backend("cpu", Threads{kPlannedThreads});
  const RankPlan ranks(*backend, model, recipe, args.layout);
  const RankPlan one(*backend, model, recipe, {});
  const Json planned = plan_json({.model = args.model,
                                  .plan = ranks,
                                  .step = step,
                                  .memory = ranks.memory(step),
                                  .one = one.memory(step).most,
                                  .device_bytes = device,
                                  .largest_batch = ranks.largest_batch(step, device),
                                  .traffic = step_traffic(ranks, step),
                                  .many = at_many_ranks(*backend, ranks),
                                  .published = find_published_shape(args.model)});
  print_either(args.json, planned, plan_text(planned));
}

std::string is_size(const std::string& text) {
  return parse_size(text) ? "" : text + ": a size, such as 80GB or 64GiB, of at most 1000TiB";
}

void declare_plan(Flags flags, PlanArgs& args) {
  flags
      .option("MODEL", args.model,
              fmt::format("a model folder, of which config.json is enough, or one of {}",
                          fmt::join(model_names(), ", ")))
      .required();
  flags.option("--ranks N", args.layout.ranks, "processes, a device each")
      .required()
      .range(1, int64_t{1} << 20);
  flags.setting("--tensor T", args.layout.tensor, "of them in a group that divides every layer")
      .range(1, int64_t{1} << 16);
  flags.setting("--device-memory SIZE", args.device_memory, "of each rank: 80GB, 64GiB")
      .check(is_size);
  add_recipe(flags, args.recipe);
  add_base(flags, args.base);
  flags.setting("--batch", args.batch, "sequences in a micro-batch of a rank")
      .range(1, int64_t{1} << 20);
  flags.setting("--accumulate N", args.accumulate, "micro-batches of each rank in a step")
      .range(1, int64_t{1} << 24);
  flags.option("--length", args.length, "tokens of a sequence; else the model's context")
      .range(1, int64_t{1} << 24);
  flags.option("--reference FORMAT", args.reference,
               "preference training (DPO): a reference lies beside the policy, its weights in this "
               "format, or as the policy's: bf16, fp8_e4m3, policy");
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(
      "Weights lie whole on every rank, masters and optimizer states with the owner of their\n"
      "rows. So do gradients, which are sent during the backward pass, where a step has one\n"
      "micro-batch of each rank; those of several lie whole on every rank until the last is\n"
      "added to them. Sent are each rank's gradients of what others own, and its own weights to\n"
      "all others: (N-1)/N of both a rank. Planned is what train takes with --threads 1, without\n"
      "train.recompute, in train.deterministic = \"ranks\".");
}

}  // namespace

const Command kPlan{"plan", "memory and traffic of training over ranks, before it is done",
                    with_flags<PlanArgs, declare_plan, plan>};

}  // namespace ng::cli
