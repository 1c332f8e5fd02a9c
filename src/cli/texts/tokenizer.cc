// narrowgauge tokenizer train FILE... OUT.json: a byte-level BPE of texts.
#include "base/files.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "data/text_files.h"
#include "tokenizer/known_patterns.h"
#include "tokenizer/tokenizer_file.h"

namespace ng::cli {
namespace {

struct TokenizerArgs {
  std::vector<std::string> files;  ///< texts, then the output
  BpeTraining training;
  int64_t threads = 0;
  bool json = false;
};

void train_bpe(const TokenizerArgs& args) {
  BpeTraining training = args.training;
  if (training.special_tokens.empty()) training.special_tokens = {"<|endoftext|>"};
  const std::string& out = args.files.back();
  const std::vector<std::string> texts =
      find_texts({args.files.begin(), args.files.end() - 1}, {.place = "FILE", .key = ""},
                 BinaryMeans::no_utf8)
          .paths();
  require_tokenizer_target(out, texts);
  TrainedBpe trained;
  {
    ProgressLine line("tokens");
    trained = train_bpe_of_files(texts, training, threads_of(args.threads),
                                 [&](int64_t done, int64_t total) { line.show(done, total); });
  }
  write_file_atomically(out, tokenizer_json_of(trained, training));
  const auto tokens = static_cast<int64_t>(trained.names.size());
  if (tokens < training.vocab)
    note(fmt::format("{}: the texts give no more than {} tokens", out, tokens));
  print_either(args.json, {{"out", out}, {"vocab", tokens}, {"merges", trained.merges.size()}},
               fmt::format("{}: {} tokens, {} merges\n", out, tokens, trained.merges.size()));
}

void declare_tokenizer_train(Flags flags, TokenizerArgs& args) {
  flags.option("FILES FILE... OUT", args.files, "texts, then the tokenizer.json to write")
      .required()
      .at_least(2)
      .check(not_empty);
  flags
      .option("--vocab N", args.training.vocab,
              "tokens, special ones and the 256 bytes included; fewer where the texts give no "
              "more")
      .required()
      .range(1, kMaxTrainedVocab);
  flags
      .option(fmt::format("--pattern {}", fmt::join(kKnownPatterns, "|")), args.training.pattern,
              "how texts are cut before: as in these models")
      .required()
      .one_of(std::vector<std::string>(std::begin(kKnownPatterns), std::end(kKnownPatterns)));
  flags
      .setting("--min-frequency N", args.training.min_frequency,
               "how often a pair occurs at least that becomes a token")
      .range(0, INT64_MAX);
  flags.flag("--nfc", args.training.compose, "normalize texts to NFC, as Qwen does");
  flags
      .option("--special TOKEN", args.training.special_tokens,
              "special tokens, which get the first ids; default: <|endoftext|>")
      .one_argument_at_a_time();
  add_threads(flags, args.threads);
  flags.flag("--json", args.json, "what was written, as JSON");
  flags.footer(
      "Each FILE is one text, or what data.train takes: a folder of texts, a pattern, kjv.\n"
      "The result is that of the BpeTrainer of Hugging Face's tokenizers, id for id. Give it to a\n"
      "run as data.tokenizer.");
}

const Command kBelow[] = {{"train", "a byte-level BPE of texts",
                           with_flags<TokenizerArgs, declare_tokenizer_train, train_bpe>}};

}  // namespace

const Command kTokenizer{"tokenizer", "train a tokenizer",
                         [](Flags flags) { return with_commands(flags, "tokenizer", kBelow); }};

}  // namespace ng::cli
