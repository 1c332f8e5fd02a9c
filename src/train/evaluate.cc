#include "train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "data/text_files.h"

namespace ng {
namespace {

// The tokens of one batch of windows and the program that sums their losses.
class Evaluator {
 public:
  Evaluator(Run& run, Model& model, int64_t batch, int64_t length)
      : run_(run),
        model_(model),
        at_{.sequences = batch, .length = length, .first = 0},
        inputs_(static_cast<size_t>(batch * length)),
        targets_(inputs_.size()),
        mask_(inputs_.size()),
        loss_(reinterpret_cast<double*>(run.persistent_bytes(sizeof(double), MemoryKind::state))) {
    program_ = run_.record([&] { body(); });
    run_.reserve({&program_});
  }

  [[nodiscard]] BatchSpans tokens() { return {inputs_, targets_, mask_}; }
  /// Σ cross-entropy of the targets whose mask is 1.
  [[nodiscard]] double sum_of_losses() {
    *loss_ = 0;
    run_.replay(program_, [&] { body(); });
    return *loss_;
  }

 private:
  void body() {
    const EvaluationMode mode(run_);
    model_.evaluate_batch(run_,
                          {.inputs = inputs_,
                           .targets = targets_,
                           .mask = mask_.data(),
                           .at = at_,
                           .target_count = 1,
                           .cache = nullptr},
                          loss_);
    model_.forget_step();
  }

  Run& run_;
  Model& model_;
  Positions at_;
  std::vector<int32_t> inputs_, targets_;
  std::vector<float> mask_;
  double* loss_;  // backend memory
  Program program_;
};

}  // namespace

Corpus corpus_to_evaluate(const std::string& file, const Tokenizer& tokenizer) {
  const std::vector<std::string> paths = find_texts({file}, {.place = "--data", .key = ""});
  const std::shared_ptr<const TokenSource> source = tokenizer.open(paths);
  if (source->tokens() < 2)
    throw Error({.place = file,
                 .key = "",
                 .problem = fmt::format("{} tokens", source->tokens()),
                 .remedy = "a text of at least 2"});
  return {file, {source, 0, 0}, {source, 0, source->tokens()}};
}

Evaluation evaluate_windows(const Corpus& corpus, const BatchSpans& tokens, int64_t batch,
                            const std::function<double()>& sum_of_losses,
                            const EvaluationProgress& progress) {
  const int64_t length = static_cast<int64_t>(tokens.inputs.size()) / batch;
  const int64_t windows = corpus.validation_windows(length);
  Evaluation result;
  double sum = 0;
  for (int64_t first = 0; first < windows; first += batch) {
    result.tokens +=
        corpus.validation_batch({.first = first, .count = batch, .context = length}, tokens);
    sum += sum_of_losses();
    if (progress) progress(std::min(first + batch, windows), windows);
  }
  result.bytes = corpus.validation_bytes();
  result.loss = sum / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.loss);
  result.bits_per_byte = sum / std::log(2.0) / static_cast<double>(result.bytes);
  return result;
}

Evaluation evaluate(Run& run, Model& model, const Corpus& corpus, int64_t batch, int64_t length,
                    const EvaluationProgress& progress) {
  batch = std::min(batch, corpus.validation_windows(length));
  Evaluator evaluator(run, model, batch, length);
  return evaluate_windows(
      corpus, evaluator.tokens(), batch, [&] { return evaluator.sum_of_losses(); }, progress);
}

}  // namespace ng
