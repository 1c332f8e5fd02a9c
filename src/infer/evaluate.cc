#include "infer/evaluate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "base/json.h"
#include "data/device_batch.h"
#include "data/prefixed_source.h"
#include "data/text_files.h"
#include "data/texts.h"

namespace ng {
namespace {

// The tokens of one batch of windows and the program that sums their losses.
class Evaluator {
 public:
  Evaluator(Run& run, Model& model, int64_t batch, int64_t length, bool with_documents)
      : run_(run),
        model_(model),
        at_{.sequences = batch, .length = length, .first = 0},
        tokens_(run, batch * length, 1, with_documents),
        loss_(run.persistent_values<double>("evaluation loss", 1)) {
    program_ = run_.record([&] { body(); });
    run_.reserve({&program_});
  }

  [[nodiscard]] BatchSpans tokens() { return tokens_.host(0); }
  /// Σ cross-entropy of the targets whose mask is 1.
  [[nodiscard]] double sum_of_losses() {
    const double none = 0;
    run_.upload(loss_, std::span(&none, 1));
    tokens_.upload(run_, 0, 1);
    run_.replay(program_, [&] { body(); });
    return run_.read(loss_);
  }

 private:
  void body() {
    const EvaluationMode mode(run_);
    model_.evaluate_batch(run_,
                          {.inputs = tokens_.inputs(0),
                           .targets = tokens_.targets(0),
                           .mask = tokens_.mask(0),
                           .at = at_,
                           .first_keys = tokens_.first_keys(0),
                           .target_count = 1,
                           .cache = nullptr},
                          loss_);
    model_.forget_step();
  }

  Run& run_;
  Model& model_;
  Positions at_;
  DeviceBatch tokens_;
  double* loss_;  // backend memory
  Program program_;
};

/// Whether a source begins with this token, put there: what a text has itself is a target.
bool has_in_front(const TokenSource& source, int32_t token) {
  int32_t first = 0;
  float is_target = 0;
  source.read(0, {&first, 1});
  source.read_mask(0, {&is_target, 1});
  return first == token && is_target == 0;
}

std::shared_ptr<const TokenSource> with_prefix(std::unique_ptr<TokenSource> source,
                                               const Tokenizer& tokenizer) {
  const std::span<const int32_t> begin = tokenizer.text_begin();
  std::optional<int32_t> prefix = tokenizer.bos_token();
  if (!prefix && !begin.empty()) prefix = begin.back();
  if (prefix && has_in_front(*source, begin.empty() ? *prefix : begin.front())) return source;
  if (!prefix) prefix = tokenizer.end_token();
  if (!prefix)
    throw Error({.place = "--prefix-end",
                 .key = "",
                 .problem = fmt::format("the tokenizer {} has neither a begin nor an end token",
                                        tokenizer.name()),
                 .remedy = "a bos_token or an eos_token in its tokenizer_config.json"});
  return std::make_shared<PrefixedSource>(*prefix, std::move(source));
}

}  // namespace

Corpus corpus_to_evaluate(const std::string& file, const Tokenizer& tokenizer,
                          const TextRules& rules, Prefix prefix, Documents documents,
                          const ReadProgress& progress) {
  FoundTexts found =
      find_texts({file}, {.place = "--data", .key = ""}, binary_for(tokenizer, rules));
  std::unique_ptr<TokenSource> opened = open_texts(found.paths(), tokenizer, rules, progress);
  const bool prefixed = prefix == Prefix::as_lm_eval;
  const int64_t tokens = opened->tokens(), least = prefixed ? 1 : 2;
  if (tokens < least)
    throw Error({.place = file,
                 .key = "",
                 .problem = fmt::format("{} tokens", tokens),
                 .remedy = fmt::format("a text of at least {}", least)});
  if (opened->target_tokens(least - 1, tokens - least + 1) == 0)
    throw Error({.place = file,
                 .key = "",
                 .problem = fmt::format("none of its {} tokens is a target", tokens),
                 .remedy = "completions, or messages of an assistant"});
  const std::shared_ptr<const TokenSource> source =
      prefixed ? with_prefix(std::move(opened), tokenizer) : std::move(opened);
  Corpus corpus(file, {source, {{0, 0}}}, {source, {{0, source->tokens()}}});
  corpus.set_origin(
      {.train = {}, .validation = std::move(found), .from = ValidationFrom::files, .blocks = 1});
  if (prefixed) corpus.fill_last_window();
  if (documents == Documents::apart) corpus.keep_documents_apart();
  return corpus;
}

Json evaluation_json(const Evaluation& evaluation, int64_t context) {
  return {{"loss", evaluation.loss},
          {"perplexity", evaluation.perplexity},
          {"bits_per_byte", evaluation.bits_per_byte},
          {"byte_perplexity", evaluation.byte_perplexity},
          {"tokens", evaluation.tokens},
          {"bytes", evaluation.bytes},
          {"context", context}};
}

std::optional<Evaluation> evaluate_windows(const TrainingData& data, const BatchSpans& tokens,
                                           int64_t batch, Comm& comm,
                                           const std::function<double()>& sum_of_losses,
                                           const EvaluationHooks& hooks) {
  const int64_t length = static_cast<int64_t>(tokens.inputs.size()) / batch;
  const int64_t windows = data.validation_windows(length);
  Evaluation result;
  double sum = 0;
  for (int64_t first = 0; first < windows; first += batch * comm.ranks()) {
    if (hooks.stops && hooks.stops()) return {};
    std::vector<double> losses(static_cast<size_t>(comm.ranks()));  // of this rank; others are 0
    uint64_t counted = 0;
    if (const int64_t own = first + comm.rank() * batch; own < windows) {
      counted = static_cast<uint64_t>(
          data.validation_batch({.first = own, .count = batch, .context = length}, tokens));
      losses[static_cast<size_t>(comm.rank())] = sum_of_losses();
    }
    comm.sum(std::span(losses));
    comm.sum(std::span(&counted, 1));
    for (const double loss : losses) sum += loss;  // in the order of batches
    result.tokens += static_cast<int64_t>(counted);
    if (hooks.progress) hooks.progress(std::min(first + batch * comm.ranks(), windows), windows);
  }
  result.bytes = data.validation_bytes();
  result.loss = sum / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.loss);
  result.bits_per_byte = sum / std::log(2.0) / static_cast<double>(result.bytes);
  result.byte_perplexity = std::exp2(result.bits_per_byte);
  return result;
}

std::optional<Evaluation> evaluate_data(Run& run, Model& model, const TrainingData& data,
                                        EvaluationShape shape, const EvaluationHooks& hooks) {
  const int64_t batch = std::min(shape.batch, data.validation_windows(shape.length));
  const Run::Lease lease(run);
  Evaluator evaluator(run, model, batch, shape.length, shape.documents == Documents::apart);
  return evaluate_windows(
      data, evaluator.tokens(), batch, run.comm(), [&] { return evaluator.sum_of_losses(); },
      hooks);
}

Evaluation evaluate(Run& run, Model& model, const Corpus& corpus, int64_t batch, int64_t length,
                    const EvaluationProgress& progress) {
  const Documents documents = corpus.keeps_documents_apart() ? Documents::apart : Documents::joined;
  return *evaluate_data(run, model, corpus, {batch, length, documents},
                        {.stops = {}, .progress = progress});
}

}  // namespace ng
