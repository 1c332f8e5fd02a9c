#include "train/sample.h"

#include <algorithm>
#include <vector>

#include "train/generator.h"

namespace ng {
namespace {

constexpr int64_t kPrompt = 16, kTokens = 300;
constexpr double kTemperature = 0.5;  // low enough for a small model to spell words

// The beginning of the first training window.
std::vector<int32_t> prompt_of(const Corpus& corpus, uint64_t seed, int64_t context) {
  std::vector<int32_t> inputs(static_cast<size_t>(context)), targets(inputs);
  std::vector<float> mask(inputs.size());
  corpus.train_batch(seed, 0, {.first = 0, .count = 1, .context = context},
                     {.inputs = inputs, .targets = targets, .mask = mask});
  inputs.resize(static_cast<size_t>(std::min(kPrompt, context)));
  return inputs;
}

}  // namespace

std::string sample_text(Run& run, Model& model, const Corpus& corpus, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens = prompt_of(corpus, run.seed(), model.config().context);
  SamplingSettings sampling;
  sampling.temperature = kTemperature;
  sampling.vocab = tokenizer.vocab();
  sampling.seed = run.seed();
  Generator generator(run, model);
  generator.generate(std::vector<int32_t>(tokens), kTokens, sampling, [&](int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokenizer.decode(tokens);
}

}  // namespace ng
