// narrowgauge plan MODEL --ranks N: what training over ranks takes of memory and sends, and what
// would have to change at a thousand ranks. Nothing is trained or allocated.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/models/plan_text.h"
#include "cli/shared_flags.h"
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
  int64_t pipeline = 1;
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

/// A published model has as many positions as its sequences need: its authors trained 175 billion
/// parameters on 2,048 tokens, and say that 4,096 fit on 32 devices. [004]
ModelConfig config_of(const PlanArgs& args) {
  const std::string& model = args.model;
  if (is_folder(model) || !args.base.empty())
    return io::read_model_config({io::model_path(model), args.base});
  if (const PublishedShape* shape = find_published_shape(model)) {
    ModelConfig config = shape->config;
    config.context = std::max(config.context, args.length);
    return config;
  }
  const std::vector<std::string_view> names = model_names();
  if (std::find(names.begin(), names.end(), model) != names.end()) return model_preset(model);
  refuse("MODEL", fmt::format("unknown \"{}\"", model),
         fmt::format("{}a model folder, or one of {}", did_you_mean(model, names),
                     fmt::join(names, " ")));
}

void require_pipeline(const PlanArgs& args, const ModelConfig& model) {
  const int64_t groups = args.layout.ranks / args.layout.tensor;
  if (model.layers % args.pipeline != 0)
    refuse("--pipeline", fmt::format("{} stages for {} blocks", args.pipeline, model.layers),
           fmt::format("a divisor of {}", model.layers));
  if (groups % args.pipeline != 0)
    refuse("--pipeline", fmt::format("{}", args.pipeline),
           fmt::format("a divisor of --ranks / --tensor, {}", groups));
}

void require_layout(const PlanArgs& args, const ModelConfig& model, const Recipe& recipe,
                    const StepSettings& step) {
  const RankLayout& layout = args.layout;
  if (layout.ranks % layout.tensor != 0)
    refuse("--tensor", fmt::format("{}", layout.tensor),
           fmt::format("a divisor of --ranks, {}", layout.ranks));
  require_pipeline(args, model);
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

std::vector<StageFacts> facts_of(const PipelinePlan& pipeline, const StepSettings& step) {
  std::vector<StageFacts> facts;
  for (const RankPlan& stage : pipeline.stages())
    facts.push_back(
        {.plan = stage, .most = stage.memory(step).most, .sent = pipeline.sent(stage, step)});
  return facts;
}

/// The stage whose ranks have most.
const StageFacts& heaviest(const std::vector<StageFacts>& stages) {
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const StageFacts& a, const StageFacts& b) { return a.most.total() < b.most.total(); });
}

RankMemory most_of(const PipelinePlan& plan, const StepSettings& step) {
  return heaviest(facts_of(plan, step)).most;
}

/// Of preference training.
std::optional<RankMemory> in_bf16(const Backend& backend, const PlanArgs& args,
                                  const ModelConfig& model, const StepSettings& step) {
  if (!step.dpo) return {};
  return most_of({backend, model, Recipe::load("bf16"), args.layout, args.pipeline}, step);
}

/// How training goes by each recipe that the authors of a published model compared.
std::vector<Fit> fits_of(const Backend& backend, const PlanArgs& args, const ModelConfig& model,
                         const StepSettings& step, uint64_t device) {
  if (find_published_shape(args.model) == nullptr) return {};
  std::vector<Fit> fits;
  for (const char* name : {"bf16", "fp8-lm"}) {
    const PipelinePlan plan(backend, model, Recipe::load(name), args.layout, args.pipeline);
    fits.push_back({.recipe = name,
                    .bytes = most_of(plan, step).total(),
                    .largest_batch = plan.largest_batch(step, device)});
  }
  return fits;
}

void plan(const PlanArgs& args) {
  const ModelConfig model = config_of(args);
  const Recipe recipe = Recipe::load(args.recipe);
  const StepSettings step = step_of(args, model);
  require_layout(args, model, recipe, step);
  const uint64_t device = *parse_size(args.device_memory);  // checked by the flag
  const auto backend = make_backend("cpu", Threads{kPlannedThreads});
  const PipelinePlan pipeline(*backend, model, recipe, args.layout, args.pipeline);
  const std::vector<StageFacts> stages = facts_of(pipeline, step);
  const RankPlan& ranks = heaviest(stages).plan;
  const RankPlan one(*backend, model, recipe, {});
  const bool is_whole = args.pipeline == 1;
  const Json planned = plan_json({.model = args.model,
                                  .plan = ranks,
                                  .step = step,
                                  .memory = ranks.memory(step),
                                  .one = one.memory(step).most,
                                  .device_bytes = device,
                                  .largest_batch = pipeline.largest_batch(step, device),
                                  .traffic = step_traffic(ranks, step),
                                  .many = is_whole ? at_many_ranks(*backend, ranks) : std::nullopt,
                                  .published = find_published_shape(args.model),
                                  .in_bf16 = in_bf16(*backend, args, model, step),
                                  .stages = is_whole ? std::vector<StageFacts>() : stages,
                                  .fits = fits_of(*backend, args, model, step, device)});
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
  flags
      .setting("--pipeline P", args.pipeline,
               "stages that divide the blocks: planned alone, train has none")
      .range(1, int64_t{1} << 16);
  flags.setting("--device-memory SIZE", args.device_memory, "of each rank: 80GB, 64GiB")
      .check(is_size);
  add_recipe(flags, args.recipe);
  add_base(flags, args.base);
  flags.setting("--batch", args.batch, "sequences in a micro-batch of a rank")
      .range(1, int64_t{1} << 20);
  flags.setting("--accumulate N", args.accumulate, "micro-batches of each rank in a step")
      .range(1, int64_t{1} << 24);
  flags
      .option("--length", args.length,
              "tokens of a sequence; else the model's context, which those of papers exceed")
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
