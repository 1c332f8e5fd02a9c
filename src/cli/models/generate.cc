// narrowgauge generate MODEL --prompt TEXT: text, token by token as it comes.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/models/open_model.h"
#include "infer/generator.h"
#include "report/recipe_text.h"
#include "tokenizer/tokenizer.h"

namespace ng::cli {
namespace {

constexpr size_t kMaxPromptBytes = 64 << 20;

struct GenerateArgs {
  ModelFlags model;
  std::string prompt;
  std::vector<int32_t> prompt_ids;
  bool ids = false;
  bool json = false;
  bool ignore_eos = false;
  bool no_bos = false;
  int64_t tokens = 200;
  SamplingSettings sampling{.temperature = 0.8};
};

// "1,2,3" or "1 2 3"
std::vector<int32_t> ids_of(const std::string& list) {
  std::vector<int32_t> ids;
  const char* next = list.data();
  const char* const end = next + list.size();
  for (;;) {
    int32_t id = 0;
    const auto [behind, error] = std::from_chars(next, end, id);
    if (error != std::errc() || (behind != end && *behind != ',' && *behind != ' '))
      throw WrongFlags("--prompt-ids: " + list + ": numbers separated by one comma each");
    ids.push_back(id);
    if (behind == end) return ids;
    next = behind + 1;
  }
}

std::string read_input() {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t count = 1; count > 0;) {
    count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    if ((count < 0 && errno != EINTR) || text.size() > kMaxPromptBytes)
      throw Error({.place = "--prompt -",
                   .key = "standard input",
                   .problem = count < 0 ? std::strerror(errno) : "more than 64 MiB",
                   .remedy = "a text of at most 64 MiB"});
    if (count < 0) count = 1;
  }
  return text;
}

void require_ids(const std::vector<int32_t>& ids, const std::string& flag, int64_t vocab) {
  const auto refuse = [&](const std::string& problem) {
    cli::refuse(flag, problem, fmt::format("at least one id from 0 to {}", vocab - 1));
  };
  if (ids.empty()) refuse("empty");
  for (const int32_t id : ids)
    if (id < 0 || id >= vocab) refuse(std::to_string(id));
}

// Prints each token when it comes, or as JSON all of them at the end.
class Printer {
 public:
  /// `numbers`: what the JSON says of the model's.
  Printer(const Tokenizer* tokenizer, const GenerateArgs& args, Json numbers)
      : tokenizer_(tokenizer),
        ids_(args.ids),
        json_(args.json),
        numbers_(std::move(numbers)),
        seed_(args.sampling.seed) {}

  void token(int32_t id) {
    all_.push_back(id);
    if (json_) return;
    if (ids_)
      print("{}{}", first_ ? "" : ",", id);
    else
      write_output(filter_.push(tokenizer_->decode(std::span(&id, 1))));
    first_ = false;
    flush_output();
  }
  /// A token that ends the text and is none of it.
  void end_token(int32_t id) {
    if (ids_ && !json_) return token(id);
    ends_ = {id};
  }
  void end() {
    if (!json_) return print("{}\n", filter_.finish());
    Json json = {{"ended", !ends_.empty()}};
    if (tokenizer_ != nullptr) json["text"] = readable(tokenizer_->decode(all_));
    all_.insert(all_.end(), ends_.begin(), ends_.end());
    json["ids"] = all_;
    json["seed"] = seed_;
    json.update(numbers_);
    print_json(json);
  }

 private:
  const Tokenizer* tokenizer_;
  bool ids_, json_;
  Json numbers_;
  uint64_t seed_;
  std::vector<int32_t> all_, ends_;
  bool first_ = true;
  TextFilter filter_;
};

/// The prompt's text behind what the tokenizer says begins it, or its ids as they are.
std::vector<int32_t> prompt_of(const GenerateArgs& args, const Tokenizer* tokenizer) {
  if (!args.prompt_ids.empty()) return args.prompt_ids;
  std::vector<int32_t> ids = tokenizer->encode(args.prompt == "-" ? read_input() : args.prompt);
  if (args.no_bos) return ids;
  const std::span<const int32_t> begin = tokenizer->begin_of(ids);
  ids.insert(ids.begin(), begin.begin(), begin.end());
  return ids;
}

int generate(const GenerateArgs& args) {
  validate(args.sampling);
  const bool from_ids = !args.prompt_ids.empty();
  std::unique_ptr<Tokenizer> tokenizer;
  if (!from_ids || !args.ids) tokenizer = open_tokenizer_of(args.model);
  const std::vector<int32_t> prompt = prompt_of(args, tokenizer.get());
  const OpenModel open = open_model(args.model);
  const int64_t vocab = open.model->config().vocab;
  note_numbers(open);
  require_ids(prompt, from_ids ? "--prompt-ids" : "--prompt", vocab);
  std::vector<int32_t> ends;
  if (!args.ignore_eos) ends = end_tokens_of(args.model.name(), vocab);
  if (!args.json) note_chosen_numbers(args.model, open);
  Generator generator(*open.run, *open.model);
  Printer printer(tokenizer.get(), args,
                  report::numbers_json(open.recipe, open.phase, open.model->config()));
  SamplingSettings sampling = args.sampling;
  if (!args.ids) sampling.vocab = tokenizer->vocab();  // a model's vocabulary may be padded
  generator.generate(prompt, args.tokens, sampling, [&](int32_t id) {
    const bool ends_here = std::find(ends.begin(), ends.end(), id) != ends.end();
    ends_here ? printer.end_token(id) : printer.token(id);
    return !ends_here;
  });
  printer.end();
  return 0;
}

void declare_generate(Flags flags, GenerateArgs& args) {
  args.model.declare(flags);
  add_phase(flags, args.model.phase);
  const Flag text = flags.option("--prompt TEXT", args.prompt,
                                 "text to go on from; - reads it from standard input");
  const Flag ids =
      flags.read_option("--prompt-ids 1,2,3", "the prompt as token ids",
                        [&args](const std::string& list) { args.prompt_ids = ids_of(list); });
  text.excludes(ids);
  flags.flag("--ids", args.ids, "print token ids, separated by commas");
  flags.flag("--json", args.json, "print one JSON object when all is generated");
  flags.setting("--tokens", args.tokens, "how many to generate at most").range(0, int64_t{1} << 40);
  flags.flag("--ignore-eos", args.ignore_eos, "go on behind a token that ends a text");
  flags.flag("--no-bos", args.no_bos,
             "the prompt without the token (BOS) that the tokenizer puts before a text");
  flags.setting("--temperature", args.sampling.temperature, "0: always the most likely token");
  flags.setting("--top-k", args.sampling.top_k, "only the K most likely tokens; 0: all");
  flags.setting("--top-p", args.sampling.top_p, "only the likeliest that together reach P");
  add_seed(flags, args.sampling.seed, "of the draws");
  flags.check([text, ids] {
    if (!text.is_given() && !ids.is_given()) throw WrongFlags::missing("--prompt or --prompt-ids");
  });
  flags.footer(
      "Prints what follows the prompt, up to a token that ends a text: generation_config.json "
      "says\n"
      "which, else config.json, else the tokenizer; --ids and --json show it. Bytes that are no "
      "UTF-8\n"
      "and control characters other than newline and tab are printed as U+FFFD; --ids shows every\n"
      "token as it is.");
}

}  // namespace

const Command kGenerate{"generate", "text from a model, as it comes",
                        with_flags<GenerateArgs, declare_generate, generate>};

}  // namespace ng::cli
