// The loss of a model on a text, without what training needs beside the weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "data/corpus.h"
#include "data/texts.h"
#include "model/model.h"
#include "run/run.h"
#include "tokenizer/tokenizer.h"

namespace ng {

struct Evaluation {
  double loss = 0;             ///< mean cross-entropy over the targets that count, nats
  double perplexity = 0;       ///< exp(loss)
  double bits_per_byte = 0;    ///< of the text behind the targets
  double byte_perplexity = 0;  ///< 2^bits_per_byte
  int64_t tokens = 0;          ///< targets that count
  int64_t bytes = 0;           ///< behind them
};

/// Its members under their names, and "context", the tokens of a window.
[[nodiscard]] Json evaluation_json(const Evaluation& evaluation, int64_t context);

/// How a text is cut into windows: as it is, its first token predicted by nothing, or as lm-eval
/// does: behind a token that begins it, so that each of its tokens counts.
enum class Prefix : uint8_t { none, as_lm_eval };

/// Whether attention goes from one document of a text to those before it.
enum class Documents : uint8_t { joined, apart };

/// All of a text as the validation part of a corpus. Throws Error where it has fewer than two
/// tokens, or none that is a target. Texts begin as rules.documents.begin says. With
/// Prefix::as_lm_eval there stands before them, unless they begin with it, the tokenizer's begin
/// token, or where it has none its end token; every target counts, and the last window, where it is
/// shorter, sees as much before it as a whole one: the windows of lm-eval's rolling likelihood.
/// [EleutherAI/lm-evaluation-harness, utils.get_rolling_token_windows, HFLM.prefix_token_id]
[[nodiscard]] Corpus corpus_to_evaluate(const std::string& file, const Tokenizer& tokenizer,
                                        const TextRules& rules, Prefix prefix = Prefix::none,
                                        Documents documents = Documents::joined,
                                        const ReadProgress& progress = {});

/// Hears how many of all windows are done.
using EvaluationProgress = std::function<void(int64_t done, int64_t windows)>;

/// What an evaluation asks and tells between batches; each may be empty.
struct EvaluationHooks {
  std::function<bool()> stops;  ///< true, on all ranks, ends it
  EvaluationProgress progress;
};

/// Over all windows of the validation part, `batch` windows at once on each rank: each
/// batch is put into `tokens`, then `sum_of_losses` returns Σ cross-entropy of the targets whose
/// mask is 1. Nothing where it was stopped. The same on all ranks, and for any number of them.
[[nodiscard]] std::optional<Evaluation> evaluate_windows(
    const TrainingData& data, const BatchSpans& tokens, int64_t batch, Comm& comm,
    const std::function<double()>& sum_of_losses, const EvaluationHooks& hooks);

/// How windows of a text are computed.
struct EvaluationShape {
  int64_t batch = 0;   ///< windows at once
  int64_t length = 0;  ///< tokens of a window
  Documents documents = Documents::joined;
};

/// Over all windows of the validation part, in the numbers of the model's phase, stochastic casts
/// to nearest. Nothing where it was stopped.
[[nodiscard]] std::optional<Evaluation> evaluate_data(Run& run, Model& model,
                                                      const TrainingData& data,
                                                      EvaluationShape shape,
                                                      const EvaluationHooks& hooks);

/// Over all windows of the corpus's validation part, `batch` windows of `length` tokens at once.
/// No token sees one of another document where the corpus keeps them apart. In the numbers of the
/// model's phase, stochastic casts to nearest.
[[nodiscard]] Evaluation evaluate(Run& run, Model& model, const Corpus& corpus, int64_t batch,
                                  int64_t length, const EvaluationProgress& progress = {});

}  // namespace ng
