// narrowgauge bench step: how fast whole training steps are on this machine, also of ranks.
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/json.h"
#include "base/machine.h"
#include "cli/bench/bench.h"
#include "cli/models/open_model.h"
#include "cli/run_tables.h"
#include "cli/shared_flags.h"
#include "comm/launch.h"
#include "model/weights.h"
#include "report/recipe_text.h"
#include "run/backends.h"
#include "speed/machine.h"
#include "speed/step_limit.h"
#include "speed/step_speed.h"
#include "train/metrics.h"
#include "train/run_files.h"

namespace ng::cli {
namespace {

constexpr uint64_t kSeed = 1;  // of weights and draws

struct BenchStepArgs {
  StepFlags step{.model = "char-gpt"};
  std::string recipe = "fp32";
  std::string phase;
  MachineFlags machine;
  int64_t steps = BenchShape{}.steps;
  std::string probe;  ///< empty: none
  RecomputePolicy recompute = RecomputePolicy::none;
  bool json = false;
};

constexpr size_t kMaxProbeBytes = size_t{1} << 20;

/// Of the card that was probed; none: nobody asks.
std::optional<CardRates> probed_rates(const std::string& file) {
  if (file.empty()) return {};
  return rates_of_probe(read_json_file(file, kMaxProbeBytes), file);
}

/// Adds what a card allows of such a step, and how much of it was reached; null: nobody knows.
void add_limit(Json& json, const StepWork& work, const CardRates& rates) {
  const Json& limit = json["limit"] = limit_json(work, rates);
  json["share_of_limit"] = limit.is_null() ? Json()
                                           : Json(json["tokens_per_second"].get<double>() /
                                                  limit["tokens_per_second"].get<double>());
}

std::string limit_text(const Json& limit, const Json& share) {
  if (limit.is_null()) return "limit       not known: the probe has no rate of some products\n";
  std::string parts;
  for (const auto& [name, seconds] : limit["seconds"].items())
    parts += fmt::format("{}{} {:.3g} s", parts.empty() ? "" : ", ", name, seconds.get<double>());
  return fmt::format("limit       {:.0f} tokens/s on {} ({}): {:.0f} % of it are reached\n",
                     limit["tokens_per_second"].get<double>(), limit["card"].get<std::string>(),
                     parts, 100 * share.get<double>());
}

/// Of a step, on rank 0; bytes are those of all ranks.
Json exchange_json(const BenchStepArgs& args, const BenchResult& result) {
  const auto steps = static_cast<double>(args.steps);
  const auto [busy, waited] = result.exchange;
  return {{"seconds", busy / steps},
          {"waited", waited / steps},
          {"hidden", busy > 0 ? std::max(0.0, 1 - waited / busy) : 0.0},
          {"bytes", std::accumulate(result.sent.begin(), result.sent.end(), uint64_t{0})},
          {"sent", sent_json(result.sent)}};
}

Json result_json(const BenchStepArgs& args, const Recipe& recipe, const MeasuredPhase& phase,
                 const Backend& backend, Threads threads, Model& model, const BenchResult& result) {
  Json by_kind = time_json(result.seconds_by_kind);
  by_kind["rest"] = result.rest_seconds();
  Json json = {{"model", args.step.model},
               {"parameters", model.parameter_count()},
               {"recipe_hash", recipe.hash()},
               {"backend", args.machine.backend},
               {"batch", args.step.batch},
               {"seq", args.step.length},
               {"seed", kSeed},
               {"steps", args.steps},
               {"ranks", world().ranks()},
               {"seconds_per_step", result.median_seconds},
               {"tokens_per_second", result.tokens_per_second},
               {"first_loss", result.first_loss},
               {"skipped_steps", result.skipped},
               {"peak_bytes", peak_resident_bytes()},
               {"planned_bytes", result.planned.total},
               {"planned_bytes_by_kind", most_json(result.planned)},
               {"planned_bytes_at_peak", memory_json(result.planned)},
               {"planned_bytes_stored", stored_json(result.planned)},
               {"seconds_by_kind", by_kind},
               {"exchange", exchange_json(args, result)}};
  json.update(machine_json(backend, threads));
  if (backend.device_name().empty()) {
    const double peak = measured_peak_flops(threads) * world().ranks();  // ranks at once
    json["peak_flops"] = peak;
    json["percent_of_peak"] = 100 * result.tokens_per_second * result.flops_per_token / peak;
  }
  json.update(report::numbers_json(recipe, phase, model.config()));
  return json;
}

void print_exchange(const Json& exchange) {
  print("exchange    {:.3f} s per step, of which {:.0f} % are hidden behind computing; {} sent\n",
        exchange["seconds"].get<double>(), 100 * exchange["hidden"].get<double>(),
        size_text(exchange["bytes"]));
}

void bench_step(BenchStepArgs args) {
  const ModelConfig config = args.step.config();
  const Recipe recipe = Recipe::load(args.recipe);
  const MeasuredPhase phase = measured_phase(
      recipe, {.word = args.phase, .otherwise = PhaseChoice::End::first, .steps = [&] {
                 return steps_of_model(args.step.model);
               }});
  const std::optional<CardRates> rates = probed_rates(args.probe);
  const Threads threads = args.machine.use();
  Comm& ranks = world();
  Run run(make_backend(args.machine.backend, threads, args.machine.thread_order), kSeed, 0, &ranks);
  Model model(run, config, recipe, args.recompute);
  const BenchShape shape{.batch = args.step.batch,
                         .length = args.step.length,
                         .steps = args.steps,
                         .phase = phase.index};
  const BenchResult result = bench_steps(run, model, recipe, shape);
  Json json = result_json(args, recipe, phase, run.backend(), threads, model, result);
  if (rates) {
    const cuda::Card& card = cuda::card_like(rates->sm);
    add_limit(json, work_of_step(run.backend(), card, config, recipe, shape), *rates);
  }
  note_phase(recipe, phase);
  if (args.json) {
    print_json(json);
    return;
  }
  print("model       {}, {} parameters, recipe {}\n", args.step.model,
        count_text(model.parameter_count()), text_of(recipe, phase));
  print("{}", report::matches_text(recipe.matches(layers_of(config))));
  print("step        {} x {} tokens on {}{}\n", args.step.batch, args.step.length,
        machine_text(run.backend(), threads),
        ranks.ranks() > 1 ? fmt::format(", on each of {} ranks", ranks.ranks()) : std::string());
  print("speed       {:.1f} tokens/s, {:.3f} s per step{}\n", result.tokens_per_second,
        result.median_seconds,
        json.contains("percent_of_peak") ? fmt::format(", {:.1f} % of the measured FP32 peak",
                                                       json["percent_of_peak"].get<double>())
                                         : "");
  if (rates) print("{}", limit_text(json["limit"], json["share_of_limit"]));
  print("memory      {} planned, {} at the peak of the process\n",
        size_text(static_cast<double>(result.planned.total)), size_text(json["peak_bytes"]));
  if (ranks.ranks() > 1) print_exchange(json["exchange"]);
  if (result.skipped > 0)
    print("skipped     {} of {} steps: something was not finite\n", result.skipped, args.steps);
  print("{}", time_table(result.seconds_by_kind, {{"rest", result.rest_seconds()}}));
}

void add_recompute(Flags& flags, RecomputePolicy& recompute) {
  std::vector<std::string> words;
  for (const auto& row : kRecomputeWords) words.emplace_back(row.first);
  flags
      .read_option("--recompute WORD", "what backward makes again; default none",
                   [&recompute](const std::string& word) {
                     for (const auto& [name, policy] : kRecomputeWords)
                       if (name == word) recompute = policy;
                   })
      .one_of(words);
}

void declare_bench_step(Flags flags, BenchStepArgs& args) {
  args.step.declare(flags);
  add_recipe(flags, args.recipe);
  add_phase(flags, args.phase);
  flags.setting("--steps", args.steps, "timed steps, after 2 others").range(1, 1 << 20);
  flags.option("--probe FILE", args.probe,
               "what benchmarks/card/probe found of a card: the share of its limit");
  add_recompute(flags, args.recompute);
  args.machine.declare(flags);
  flags.flag("--json", args.json, "print one JSON object");
}

}  // namespace

const Command kBenchStep{"step", "whole training steps on random tokens",
                         with_flags<BenchStepArgs, declare_bench_step, bench_step>, true};

}  // namespace ng::cli
