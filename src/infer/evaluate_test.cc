// The token before a text, by the golden file's logits; an evaluation leaves nothing behind.
#include "infer/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "infer/open_model.h"
#include "support/lettered_model.h"
#include "support/scratch_folder.h"
#include "support/tiny_run.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

constexpr int64_t kSequence = 25;  // of the golden file: tokens, of which each predicts the next

class EvaluateBegin : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    const std::vector<int64_t> tokens = golden_.integers("tokens");
    begin_ = tokens.front();
    ids_.assign(tokens.begin() + 1, tokens.begin() + kSequence);
    make_folders(folder_);
    write_file_atomically(in("text.txt"), letters(ids_));
    write_file_atomically(in("text.jsonl"), json_text(Json{{"text", letters(ids_)}}) + "\n");
  }

  /// Of the golden logits, from target `first` of the sequence on.
  [[nodiscard]] double golden_loss(size_t first) const {
    const std::vector<double> logits = golden_.doubles("logits_f64");
    double sum = 0;
    for (size_t i = first; i < ids_.size(); ++i) {
      const std::span<const double> of(&logits[i * kLetters], kLetters);
      double partition = 0;
      for (const double logit : of) partition += std::exp(logit);
      sum += std::log(partition) - of[static_cast<size_t>(ids_[i])];
    }
    return sum / static_cast<double>(ids_.size() - first);
  }

  [[nodiscard]] Evaluation evaluation(const Json& tokenizer, const Json& config, Prefix prefix,
                                      TextBegin begin, const char* text = "text.txt") const {
    write_lettered_model(in("model"), tokenizer, config);
    const auto own = open_model_tokenizer(in("model"));
    const OpenModel open = open_model(in("model"), Recipe::load("fp32"), {});
    const TextRules rules{.documents = {.begin = begin}};
    const Corpus corpus = corpus_to_evaluate(in(text), *own, rules, prefix);
    return evaluate(*open.run, *open.model, corpus, 1, open.model->config().context);
  }

  const GoldenFile golden_{std::string(kLetteredModel) + "reference"};
  int64_t begin_ = 0;
  std::vector<int64_t> ids_;
};

constexpr double kBound = 1e-5;  // FP32 against FP64: logits are off by 2.2e-6 there

TEST_F(EvaluateBegin, LmEvalsPrefixIsTheBeginToken) {
  const Json plain = lettered_tokenizer();
  const auto loss = [&](const Json& config) {
    const Evaluation seen = evaluation(plain, config, Prefix::as_lm_eval, TextBegin::bare);
    EXPECT_EQ(seen.tokens, std::ssize(ids_));
    return seen.loss;
  };
  const Json both = {{"bos_token", letter(begin_)}, {"eos_token", letter(3)}};
  EXPECT_NEAR(loss(both), golden_loss(0), kBound);
  EXPECT_NEAR(loss({{"eos_token", letter(begin_)}}), golden_loss(0), kBound) << "none but the end";
  EXPECT_GT(std::fabs(loss({{"eos_token", letter(3)}}) - golden_loss(0)), 1e-3);
  EXPECT_EQ(error_of([&] { (void)loss(Json::object()); }),
            "--prefix-end: the tokenizer sentencepiece-bpe has neither a begin nor an end token: a "
            "bos_token or an eos_token in its tokenizer_config.json");
}

// A post-processor, or add_bos_token; and neither, where that says no.
TEST_F(EvaluateBegin, TextsBeginAsTheTokenizerSays) {
  Json processed = lettered_tokenizer();
  processed["post_processor"] = template_of(begin_);
  const Json bos = {{"bos_token", letter(begin_)}};
  Json adding = bos, leaving = bos;
  adding["add_bos_token"] = true;
  leaving["add_bos_token"] = false;
  const auto expect_begun = [&](const Json& tokenizer, const Json& config) {
    for (const Prefix prefix : {Prefix::none, Prefix::as_lm_eval}) {
      for (const char* text : {"text.txt", "text.jsonl"}) {
        const Evaluation seen =
            evaluation(tokenizer, config, prefix, TextBegin::as_the_tokenizer_says, text);
        EXPECT_EQ(seen.tokens, std::ssize(ids_)) << text;
        EXPECT_NEAR(seen.loss, golden_loss(0), kBound) << text;
      }
    }
  };
  expect_begun(processed, Json::object());
  expect_begun(processed, bos);
  expect_begun(lettered_tokenizer(), adding);
  const auto bare = [&](const Json& tokenizer, const Json& config, TextBegin begin) {
    return evaluation(tokenizer, config, Prefix::none, begin).tokens;
  };
  EXPECT_EQ(bare(processed, leaving, TextBegin::as_the_tokenizer_says), std::ssize(ids_) - 1);
  EXPECT_EQ(bare(lettered_tokenizer(), bos, TextBegin::as_the_tokenizer_says),
            std::ssize(ids_) - 1);
  EXPECT_EQ(bare(processed, adding, TextBegin::bare), std::ssize(ids_) - 1);
}

// A text that has the token itself gets no second one.
TEST_F(EvaluateBegin, TextsThatBeginSoStayAsTheyAre) {
  const int64_t special[] = {begin_};
  Json processed = lettered_tokenizer(special);
  processed["post_processor"] = template_of(begin_);
  write_file_atomically(in("text.txt"), letter(begin_) + letters(ids_));
  const Evaluation seen =
      evaluation(processed, Json::object(), Prefix::none, TextBegin::as_the_tokenizer_says);
  EXPECT_EQ(seen.tokens, std::ssize(ids_));
  EXPECT_NEAR(seen.loss, golden_loss(0), kBound);
}

using Evaluations = ScratchFolder;

// An evaluation leaves nothing behind.
TEST_F(Evaluations, TakeNoMoreMemoryTheMoreThereAre) {
  make_folders(folder_);
  write_file_atomically(in("text.txt"), std::string(300, 'a') + "bc");
  ModelConfig config = tiny_llama();
  config.vocab = 256;
  ng::Run run(make_backend("cpu", {1}), 7);
  Model model(run, config, Recipe::parse("name='x'\ninherit='mxfp8'", "t.toml"),
              RecomputePolicy::none);
  model.initialize(run);
  const MemoryByKind before = run.persistent_by_kind();
  for (const Documents documents : {Documents::joined, Documents::apart}) {
    const Corpus corpus =
        corpus_to_evaluate(in("text.txt"), ByteTokenizer(), {}, Prefix::none, documents);
    const double loss = evaluate(run, model, corpus, 4, 12).loss;
    const size_t after = run.allocated_bytes();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(evaluate(run, model, corpus, 4, 12).loss, loss);
    EXPECT_EQ(run.allocated_bytes(), after);
    EXPECT_EQ(run.persistent_by_kind(), before);
  }
}

}  // namespace
}  // namespace ng
