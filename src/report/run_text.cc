#include "report/run_text.h"

#include <fmt/format.h>

#include "base/units.h"
#include "compare/compare.h"
#include "format/operand.h"
#include "model/architecture.h"
#include "model/weights.h"
#include "report/recipe_text.h"

namespace ng::report {

std::string model_text(const ModelConfig& c) {
  std::string heads = fmt::format("{} of {}", counted(c.heads, "head"), c.head_dim);
  if (c.kv_heads != c.heads) heads += fmt::format(", {} of keys and values", c.kv_heads);
  const std::string windows =
      c.windows.any() ? fmt::format(", windows of {}", text_of(c.windows)) : "";
  return fmt::format("{}: {}, width {}, {}, ffn {}, context {}{}, vocabulary {}, {} head",
                     parts_of(c.architecture).name, counted(c.layers, "layer"), c.width, heads,
                     c.ffn, c.context, windows, c.vocab, c.tie_embeddings ? "tied" : "untied");
}

std::string data_text(const TrainingData& data) {
  return fmt::format("{}: {}", data.size_text(), validation_text(data.origin()));
}

std::string schedule_text(const RunConfig& config, const StepSettings& step, int ranks) {
  constexpr const char* kKinds[] = {"cosine", "linear", "wsd", "constant"};
  const Schedule schedule = config.schedule();
  const int64_t tokens = step.sequences * step.length * step.micros * ranks;
  std::string batch = fmt::format("{} x {}", step.sequences, step.length);
  if (step.micros > 1) batch = fmt::format("{} x {}", step.micros, batch);
  const char* const who = config.train.tensor_parallel > 1 ? "groups of ranks" : "ranks";
  if (ranks > 1) batch = fmt::format("{} {} x {}", ranks, who, batch);
  std::string lr = fmt::format("lr {:g}", schedule.lr);
  if (schedule.kind != ScheduleKind::constant) lr += fmt::format(" to {:g}", schedule.min_lr);
  const char* longer = schedule.warmup >= schedule.steps ? ", which is all of the run" : "";
  return fmt::format("{} steps of {} = {} tokens; {}, {}, {} steps of warm-up{}",
                     count_text(schedule.steps), batch, count_text(tokens), lr,
                     kKinds[static_cast<size_t>(schedule.kind)], schedule.warmup, longer);
}

std::string twin_text(Session& session) {
  const uint64_t twin = session.config().twin;
  if (twin == 0) return "";
  const char* const means =
      draws_rounding(session.recipe())
          ? "weights and batches of this seed, other draws of rounding and noise"
          : "the same run as every twin of this seed: its recipe draws neither rounding nor noise";
  return fmt::format(", twin {} ({})", twin, means);
}

std::string recipe_text(Session& session) {
  const Recipe& recipe = session.recipe();
  LayerGroups groups;
  for (const Linear* linear : session.model().linears())
    groups.add(linear->name(), linear->recipe());
  std::string text = fmt::format("{} (hash {})\n", recipe.name(), recipe.hash());
  return text + gemm_lines(groups.groups(), session.config().train.backend);
}

std::string matches_text(Session& session) {
  return matches_text(session.recipe().matches(layers_of(session.model().config())));
}

std::string forward_text(Session& session, int phase) {
  if (session.recipe().settings(phase).weight_noise.kind == NoiseKind::nipq)
    return "";  // whose weights are quantized before
  const Operand bf16 = operand_of("bf16");
  const auto is_bf16 = [&](const GemmRecipe& gemm) {
    return gemm.left == bf16 && gemm.right == bf16;
  };
  bool is_narrow_backward = false;
  for (const Linear* linear : session.model().linears()) {
    const LinearRecipe& numbers = linear->phases().at(static_cast<size_t>(phase));
    if (!is_bf16(numbers.fprop)) return "";
    is_narrow_backward |= !is_bf16(numbers.dgrad) || !is_bf16(numbers.wgrad);
  }
  return is_narrow_backward ? ", forward in BF16" : "";
}

}  // namespace ng::report
