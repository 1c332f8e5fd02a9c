#include "train/sample.h"

#include <vector>

#include "infer/generator.h"

namespace ng {
namespace {

constexpr int64_t kTokens = 300;
constexpr double kTemperature = 0.5;  // low enough for a small model to spell words

}  // namespace

std::string sample_text(Run& run, Model& model, const TrainingData& data,
                        const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens = data.sample_prompt(run.seed(), model.config().context);
  SamplingSettings sampling;
  sampling.temperature = kTemperature;
  sampling.vocab = tokenizer.vocab();
  sampling.seed = run.seed();
  Generator generator(run, model, std::ssize(tokens) + kTokens);
  generator.generate(std::vector<int32_t>(tokens), kTokens, sampling, [&](int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokenizer.decode(tokens);
}

}  // namespace ng
