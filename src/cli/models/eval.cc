// narrowgauge eval MODEL --data FILE: how well a model predicts a text.
#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/models/open_model.h"
#include "cli/progress_line.h"
#include "cli/texts/tokenizer_flag.h"
#include "infer/evaluate.h"
#include "io/hf/folder.h"
#include "report/recipe_text.h"

namespace ng::cli {
namespace {

struct EvalArgs {
  ModelFlags model;
  std::string data;
  std::string text_key = "text", chat = "none";  // of .jsonl files
  std::vector<std::string> ignored_keys;
  std::string special = "recognized";
  int64_t batch = 8;
  std::string from = "auto";
  bool prefix_end = false;
  bool no_bos = false;
  bool document_mask = false;
  bool json = false;
};

TextRules rules_of(const EvalArgs& args) {
  return {.documents = {.text_key = args.text_key,
                        .chat = *find_chat_template(args.chat),
                        .chat_name = "--template",
                        .special = *find_special_tokens(args.special),
                        .begin = args.no_bos ? TextBegin::bare : TextBegin::as_the_tokenizer_says,
                        .ignored_keys = args.ignored_keys,
                        .ignored_name = "--ignore-keys"},
          .bare_uint16 = args.from == "uint16"};
}

Evaluation evaluated(const EvalArgs& args, const OpenModel& open, const Corpus& corpus) {
  ProgressLine line("windows");
  return evaluate(*open.run, *open.model, corpus, args.batch, open.model->config().context,
                  [&](int64_t done, int64_t windows) { line.show(done, windows); });
}

void eval(const EvalArgs& args) {
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer_of(args.model);
  ProgressLine reading("MB");
  const Corpus corpus = corpus_to_evaluate(
      args.data, *tokenizer, rules_of(args), args.prefix_end ? Prefix::as_lm_eval : Prefix::none,
      args.document_mask ? Documents::apart : Documents::joined,
      [&](int64_t done, int64_t bytes) { reading.show_bytes(done, bytes); });
  reading.clear();
  const OpenModel open = open_model(args.model);
  note_numbers(open);
  io::require_vocabulary(args.model.folder, open.model->config(), tokenizer->vocab());
  const int64_t context = open.model->config().context;
  require_batch(open.model->config(), {.sequences = args.batch, .length = context}, "--batch", "");
  const Evaluation result = evaluated(args, open, corpus);
  if (!std::isfinite(result.loss))
    refuse(args.model.folder,
           fmt::format("its loss in recipe {} is not a number", open.recipe.name()),
           "weights that are finite, and small enough for the recipe's formats");
  const FoundTexts& texts = corpus.origin().validation;
  Json json = evaluation_json(result, context);
  json["data"] = list_of(texts);
  json.update(report::numbers_json(open.recipe, open.phase, open.model->config()));
  print_either(
      args.json, json,
      fmt::format("loss           {:.6f} nats per token\n"
                  "perplexity     {:.4f} per token, {:.4f} per byte\n"
                  "bits per byte  {:.6f}\n"
                  "tokens         {} in windows of {}, recipe {}\n{}"
                  "text           {}: {}\n",
                  result.loss, result.perplexity, result.byte_perplexity, result.bits_per_byte,
                  count_text(result.tokens), context, text_of(open.recipe, open.phase),
                  matches_text(open), on_one_line(args.data), text_of(texts)));
}

void declare_eval(Flags flags, EvalArgs& args) {
  args.model.declare(flags);
  add_phase(flags, args.model.phase);
  flags
      .option("--data FILE", args.data,
              "file, folder, pattern or prepared name: text, token ids; *.jsonl: documents")
      .required();
  flags.setting("--text-key KEY", args.text_key, "of a .jsonl file: the key of a plain text");
  add_template(flags, args.chat);
  add_ignored_keys(flags, args.ignored_keys);
  add_special_tokens(flags, args.special);
  flags.setting("--from", args.from, "uint16: FILE is bare ids of two bytes")
      .one_of({"auto", "uint16"});
  flags.setting("--batch", args.batch, "windows computed at once").range(1, 65536);
  flags.flag("--prefix-end", args.prefix_end,
             "the begin token before the text, or where there is none the end token, so that its "
             "first token counts too: as lm-eval");
  flags.flag("--no-bos", args.no_bos,
             "texts without the token (BOS) that the tokenizer puts before them");
  flags.flag("--document-mask", args.document_mask,
             "no token sees one of another document: as runs with train.document_mask");
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(
      "Windows as long as the model's context cover every token but the first once; the loss is\n"
      "the mean over those that are targets: of documents, completions and assistants' messages.");
}

}  // namespace

const Command kEval{"eval", "loss, perplexity and bits per byte over a text",
                    with_flags<EvalArgs, declare_eval, eval>};

}  // namespace ng::cli
