// narrowgauge tokenizer train FILE... OUT.json: a byte-level BPE of texts.
#include "base/files.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "data/text_files.h"
#include "tokenizer/split_pattern.h"
#include "tokenizer/tokenizer_file.h"

namespace ng::cli {
namespace {

struct Args {
  std::vector<std::string> files;  ///< texts, then the output
  BpeTraining training;
  int64_t threads = 0;
  bool json = false;
};

int train(const Args& args) {
  BpeTraining training = args.training;
  if (training.special_tokens.empty()) training.special_tokens = {"<|endoftext|>"};
  const std::string& out = args.files.back();
  const std::vector<std::string> texts =
      find_texts({args.files.begin(), args.files.end() - 1}, {.place = "FILE", .key = ""});
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
  if (args.json)
    print_json({{"out", out}, {"vocab", tokens}, {"merges", trained.merges.size()}});
  else
    print("{}: {} tokens, {} merges\n", out, tokens, trained.merges.size());
  return 0;
}

std::function<int()> declare_train(CLI::App& app) {
  auto args = std::make_shared<Args>();
  Args& a = *args;
  app.add_option("FILES", a.files, "texts, then the tokenizer.json to write")
      ->required()
      ->expected(2, -1)
      ->check(not_empty)
      ->type_name("FILE... OUT");
  app.add_option("--vocab", a.training.vocab,
                 "tokens, special ones and the 256 bytes included; fewer where the texts give no "
                 "more")
      ->required()
      ->check(CLI::Range(int64_t{1}, kMaxTrainedVocab))
      ->type_name("N");
  app.add_option("--pattern", a.training.pattern, "how texts are cut before: as in these models")
      ->required()
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(kKnownPatterns), std::end(kKnownPatterns))))
      ->type_name(fmt::format("{}", fmt::join(kKnownPatterns, "|")));
  app.add_option("--min-frequency", a.training.min_frequency,
                 "how often a pair occurs at least that becomes a token")
      ->check(CLI::Range(int64_t{0}, INT64_MAX))
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--nfc", a.training.compose, "normalize texts to NFC, as Qwen does");
  app.add_option("--special", a.training.special_tokens,
                 "special tokens, which get the first ids; default: <|endoftext|>")
      ->take_all()
      ->allow_extra_args(false)
      ->check(not_empty)
      ->type_name("TOKEN");
  add_threads(app, a.threads);
  app.add_flag("--json", a.json, "what was written, as JSON");
  app.footer(
      "Each FILE is one text, or what data.train takes: a folder of texts, a pattern, kjv.\n"
      "The result is that of the BpeTrainer of Hugging Face's tokenizers, id for id. Give it to a\n"
      "run as data.tokenizer.");
  return [args] { return train(*args); };
}

std::function<int()> declare(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* train = app.add_subcommand("train", "a byte-level BPE of texts");
  train->fallthrough();  // --isa is the program's
  return declare_train(*train);
}

}  // namespace

extern const Command kTokenizer;
const Command kTokenizer{"tokenizer", "train a tokenizer", declare};

}  // namespace ng::cli
