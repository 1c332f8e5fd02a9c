#include "infer/generator.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "run/transfer.h"

namespace ng {

// Tokens one at a time. The first makes the operands of the weights, which the others read, too.
class Generator::Steps {
 public:
  Steps(Generator& generator, const Batch& batch)
      : generator_(generator), replay_(generator.run_, program(generator, batch)) {
    keep_weights(generator_, true);
  }
  ~Steps() { keep_weights(generator_, false); }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  void take(const Batch& batch) {
    if (std::exchange(is_first_, false)) return generator_.pass(batch);
    replay_.turn([&] { generator_.pass(batch); });
  }

 private:
  static void keep_weights(Generator& generator, bool keeps) {
    const EvaluationMode mode(generator.run_);
    for (Linear* linear : generator.model_.linears()) linear->keep_weights(generator.run_, keeps);
  }

  // The same for every position: what depends on it lies in the cache.
  static const Program& program(Generator& generator, const Batch& batch) {
    std::optional<Program>& made = generator.step_program_;
    if (!made)
      made = generator.run_.record([&] {
        keep_weights(generator, true);
        generator.pass(batch);
        generator.run_.repeat(2, [&](int64_t) { generator.pass(batch); });
        keep_weights(generator, false);
      });
    generator.run_.reserve({&*made});
    return *made;
  }

  Generator& generator_;
  Run::OpenReplay replay_;
  bool is_first_ = true;
};

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

Generator::~Generator() = default;

void Generator::pass(const Batch& batch) {
  const EvaluationMode mode(run_);
  run_.execute(Copy{.y = logits_, .x = model_.logits(run_, batch, /*last_only=*/true)});
}

std::vector<float> Generator::forward(std::span<const int32_t> tokens, int64_t first) {
  Batch batch;
  batch.inputs = {tokens_, tokens.size()};
  batch.at = {.sequences = 1, .length = static_cast<int64_t>(tokens.size()), .first = first};
  batch.cache = &cache_;
  if (tokens.size() == 1) {
    if (!steps_) steps_ = std::make_unique<Steps>(*this, batch);
    run_.upload(tokens_, tokens);
    steps_->take(batch);
    return download(run_.backend(), logits_);
  }
  steps_.reset();
  const auto body = [&] { pass(batch); };
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
  const auto forget = [](Generator* self) { self->steps_.reset(); };  // weights may change
  const std::unique_ptr<Generator, decltype(forget)> at_end(this, forget);
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
