#include "infer/generator.h"

#include <algorithm>
#include <string_view>

#include "run/transfer.h"

namespace ng {

Generator::Generator(Run& run, Model& model, int64_t most) : run_(run), model_(model) {
  const ModelConfig& config = model.config();
  cache_.capacity = most == 0 ? config.context : std::min(most, config.context);
  const int64_t width = config.kv_heads * config.head_dim;
  const auto cache = [&](std::string_view what, int64_t block) {
    return run.persistent(
        {.name = fmt::format("cache{}.{}.{}", run.persistents().size(), what, block),
         .owner = "generator",
         .kind = MemoryKind::cache,
         .element = &element_of(model.compute()),
         .rows = cache_.capacity,
         .cols = width,
         .is_saved = false});
  };
  for (int64_t i = 0; i < config.layers; ++i) {
    cache_.keys.push_back(cache("keys", i));
    cache_.values.push_back(cache("values", i));
  }
  tokens_ = run.persistent_values<int32_t>("prompt", static_cast<size_t>(cache_.capacity));
  const auto vocab = static_cast<size_t>(config.vocab);
  logits_ = {run.persistent_values<float>("logits", vocab, MemoryKind::logits), 1, config.vocab,
             config.vocab};
}

std::vector<float> Generator::forward(std::span<const int32_t> tokens, int64_t first) {
  Batch batch;
  batch.inputs = {tokens_, tokens.size()};
  batch.at = {.sequences = 1, .length = static_cast<int64_t>(tokens.size()), .first = first};
  batch.cache = &cache_;
  const auto body = [&] {
    const EvaluationMode mode(run_);
    run_.execute(Copy{.y = logits_, .x = model_.logits(run_, batch, /*last_only=*/true)});
  };
  const Program program = run_.record(body);
  run_.reserve({&program});
  run_.upload(tokens_, tokens);
  run_.replay(program, body);
  return download(run_.backend(), logits_);
}

void Generator::generate(std::span<const int32_t> prompt, int64_t count,
                         const SamplingSettings& settings,
                         const std::function<bool(int32_t)>& sink) {
  NG_CHECK(!prompt.empty());
  validate(settings);
  Sampler sampler(settings);
  const auto context = static_cast<size_t>(cache_.capacity);
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());  // in the window
  if (tokens.size() > context)
    tokens.assign(prompt.end() - static_cast<int64_t>(context), prompt.end());
  size_t cached = 0;
  for (int64_t made = 0; made < count; ++made) {
    if (tokens.size() > context) {
      tokens.erase(tokens.begin(), tokens.end() - static_cast<int64_t>((context + 1) / 2));
      cached = 0;
    }
    const std::vector<float> logits =
        forward(std::span(tokens).subspan(cached), static_cast<int64_t>(cached));
    cached = tokens.size();
    tokens.push_back(sampler.pick(logits, static_cast<int64_t>(prompt.size()) + made));
    if (!sink(tokens.back())) return;
  }
}

}  // namespace ng
