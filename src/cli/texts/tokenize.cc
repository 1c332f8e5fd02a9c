// narrowgauge tokenize IN OUT|-: texts, documents and chats as token ids.
#include <algorithm>
#include <limits>

#include "base/json.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "cli/texts/tokenizer_flag.h"
#include "data/jsonl.h"
#include "data/masked_tokens.h"
#include "data/prepared_texts.h"
#include "data/text_files.h"
#include "data/text_pattern.h"
#include "data/token_file_source.h"
#include "data/token_writer.h"

namespace ng::cli {
namespace {

struct TokenizeArgs {
  std::string in, out, tokenizer;
  std::string text_key = "text", chat = "none", special = "recognized", from = "auto", as;
  std::vector<std::string> ignored_keys;
  bool no_end = false, generation_prompt = false, json = false;
  int64_t vocab = 0;  // 0: not said
  int64_t threads = 0;
};

/// Where ids go, document by document; the mask is empty where a document has none.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void document(const MaskedTokens& tokens, bool has_mask, const std::string* text) = 0;
  virtual void finish() = 0;
};

/// One JSON object a line and document.
class JsonSink final : public Sink {
 public:
  explicit JsonSink(int64_t vocab) : vocab_(vocab) {}
  void document(const MaskedTokens& tokens, bool has_mask, const std::string* text) override {
    const auto foreign = std::find_if(tokens.ids.begin(), tokens.ids.end(),
                                      [&](int32_t id) { return id < 0 || id >= vocab_; });
    if (foreign != tokens.ids.end())
      refuse("--vocab", fmt::format("{}, and an id is {}", vocab_, *foreign), "more than every id");
    OrderedJson line = {{"ids", tokens.ids}};
    if (has_mask) line["mask"] = tokens.is_target;
    if (text != nullptr) line["text"] = *text;
    print_json_line(line);
  }
  void finish() override {}

 private:
  int64_t vocab_;
};

/// A token file.
class FileSink final : public Sink {
 public:
  FileSink(const std::string& path, TokenFileKind kind, int64_t vocab, bool json)
      : path_(path),
        keeps_mask_(kind == TokenFileKind::bintok),
        vocab_(vocab),
        json_(json),
        writer_(path, kind, vocab) {}
  void document(const MaskedTokens& tokens, bool has_mask, const std::string*) override {
    writer_.add(tokens.ids, tokens.is_target);
    loses_mask_ = loses_mask_ || (has_mask && !keeps_mask_);
  }
  void finish() override {
    writer_.finish();
    if (loses_mask_) note(path_ + ": files of this kind have no loss mask: --as bintok keeps it");
    if (json_)
      print_json({{"out", path_}, {"tokens", writer_.tokens()}, {"vocab", vocab_}});
    else
      print("{}  {} tokens\n", path_, count_text(writer_.tokens()));
  }

 private:
  std::string path_;
  bool keeps_mask_;
  int64_t vocab_;
  bool json_;
  TokenWriter writer_;
  bool loses_mask_ = false;
};

TokenFileKind kind_of(const TokenizeArgs& args) {
  const std::string name = !args.as.empty()             ? args.as
                           : args.out.ends_with(".npy") ? std::string("npy")
                                                        : std::string("llmc");
  const auto* const known = std::find_if(std::begin(kTokenFileKinds), std::end(kTokenFileKinds),
                                         [&](const auto& kind) { return kind.first == name; });
  return known->second;
}

/// A file of bare ids begins as none; texts have no zero bytes.
bool may_be_bare_ids(const std::string& path) {
  constexpr uint64_t kLook = 4096;
  const ReadFile file(path);
  std::string begin(std::min(file.size(), kLook), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return begin.find('\0') != std::string::npos;
}

std::unique_ptr<Sink> open_sink(const TokenizeArgs& args, const std::vector<std::string>& paths,
                                int64_t vocab) {
  if (args.out == "-") return std::make_unique<JsonSink>(vocab);
  const TokenFileKind kind = kind_of(args);
  for (const std::string& path : paths) refuse_input(args.out, path);
  require_target(args.out, "a file of token ids", [&](const std::string& path) {
    return is_token_file(path) || (kind == TokenFileKind::uint16 && may_be_bare_ids(path));
  });
  return std::make_unique<FileSink>(args.out, kind, vocab, args.json);
}

/// f(ids and mask) of a token file, piece by piece. Throws Error for an id of more than 31 bits.
void each_piece(const ReadFile& file, const TokenFileLayout& layout, size_t piece,
                const std::function<void(const MaskedTokens&)>& f) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto all = static_cast<size_t>(layout.tokens);
  MaskedTokens tokens;
  for (size_t done = 0; done < all; done += tokens.ids.size()) {
    const size_t count = std::min(piece, all - done);
    tokens.ids.resize(count);
    tokens.is_target.assign(count, 1);
    const auto first = static_cast<int64_t>(done);
    const std::span ids(reinterpret_cast<uint32_t*>(tokens.ids.data()), count);
    read_token_ids(file, layout, first, ids);
    require_ids_below(kMost, file, layout, first, ids, fmt::format("ids below {}", kMost));
    if (layout.mask) read_token_mask(file, layout, first, tokens.is_target);
    f(tokens);
  }
}

/// One more than the largest id of a token file.
int64_t vocab_of(const ReadFile& file, const TokenFileLayout& layout) {
  int32_t most = 0;
  each_piece(file, layout, 1 << 16, [&](const MaskedTokens& tokens) {
    for (const int32_t id : tokens.ids) most = std::max(most, id);
  });
  return int64_t{most} + 1;
}

bool holds_ids(const TokenizeArgs& args, const std::string& path) {
  return !is_jsonl(path) && (args.from == "uint16" || is_token_file(path));
}

void copy_ids(const TokenizeArgs& args, const std::string& path, Sink& sink) {
  const ReadFile file(path);
  const TokenFileLayout layout = token_layout_of(file, args.from == "uint16");
  constexpr size_t kPiece = 1 << 20;
  each_piece(file, layout, kPiece, [&](const MaskedTokens& tokens) {
    sink.document(tokens, layout.mask.has_value(), nullptr);
  });
}

/// One more than the largest id of token files.
int64_t vocab_of(const TokenizeArgs& args, const std::vector<std::string>& paths) {
  int64_t vocab = 0;
  for (const std::string& path : paths) {
    const ReadFile file(path);
    vocab = std::max(vocab, vocab_of(file, token_layout_of(file, args.from == "uint16")));
  }
  return vocab;
}

DocumentRules tokenizing_rules(const TokenizeArgs& args) {
  return {.text_key = args.text_key,
          .chat = *find_chat_template(args.chat),
          .chat_name = "--template",
          .special = *find_special_tokens(args.special),
          .generation_prompt = args.generation_prompt,
          .ignored_keys = args.ignored_keys,
          .ignored_name = "--ignore-keys"};
}

void tokenize_lines(const TokenizeArgs& args, const std::string& path, const Tokenizer& tokenizer,
                    Sink& sink) {
  const MappedFile file(path);
  ProgressLine line("MB");
  for_each_document(file.text(), path, tokenizer, tokenizing_rules(args),
                    args.no_end ? EndToken::never : EndToken::as_the_kind_says,
                    threads_of(args.threads),
                    [&](const Document& document, const MaskedTokens& tokens, size_t done) {
                      const bool is_chat = document.kind == DocumentKind::chat;
                      sink.document(tokens, document.kind != DocumentKind::text,
                                    is_chat ? &document.text : nullptr);
                      line.show_bytes(static_cast<int64_t>(done), std::ssize(file.bytes()));
                    });
}

void tokenize_text(const TokenizeArgs& args, const std::string& path, const Tokenizer& tokenizer,
                   Sink& sink) {
  MaskedTokens tokens;
  if (!tokenizer.ids_are_bytes()) {
    ProgressLine line("MB");
    const auto all = static_cast<int64_t>(file_size(path));
    tokens = tokens_of_texts({path}, tokenizer, tokenizing_rules(args), threads_of(args.threads),
                             [&](int64_t done) { line.show_bytes(done, all); });
  } else {  // as training reads them: no byte is anything else
    const MappedFile file(path);
    for (const char byte : file.text()) tokens.ids.push_back(static_cast<uint8_t>(byte));
    tokens.is_target.assign(tokens.ids.size(), 1);
  }
  sink.document(tokens, false, nullptr);
}

/// The files of IN; what a folder or pattern means is said.
std::vector<std::string> inputs_of(const TokenizeArgs& args) {
  if (!is_prepared_text(args.in) && !is_folder(args.in) && !is_pattern(args.in)) return {args.in};
  const BinaryMeans binary = args.from == "uint16"       ? BinaryMeans::nothing
                             : args.tokenizer == "bytes" ? BinaryMeans::nul
                                                         : BinaryMeans::no_utf8;
  const FoundTexts found = find_texts({args.in}, {.place = "IN", .key = ""}, binary);
  if (found.by_pattern) note(fmt::format("{}: {}", args.in, text_of(found)));
  return found.paths();
}

void tokenize(const TokenizeArgs& args) {
  const std::vector<std::string> paths = inputs_of(args);
  const auto text = std::find_if(paths.begin(), paths.end(),
                                 [&](const std::string& path) { return !holds_ids(args, path); });
  std::unique_ptr<Tokenizer> tokenizer;
  if (text == paths.end() && !args.tokenizer.empty())
    refuse("--tokenizer", fmt::format("{} holds token ids already", args.in),
           "a file of token ids is copied without a tokenizer");
  if (text != paths.end()) {
    if (args.tokenizer.empty())
      refuse("--tokenizer", fmt::format("missing, and {} holds no token ids", *text),
             "a tokenizer.json, a folder with one, or bytes");
    for (const std::string& path : paths) (void)ReadFile(path);  // before a tokenizer is read
    tokenizer = open_named_tokenizer(args.tokenizer);
  }
  const int64_t known = tokenizer != nullptr ? tokenizer->vocab() : 0;
  const int64_t vocab = args.vocab > 0 ? args.vocab : known > 0 ? known : vocab_of(args, paths);
  const auto sink = open_sink(args, paths, vocab);
  for (const std::string& path : paths) {
    if (holds_ids(args, path))
      copy_ids(args, path, *sink);
    else if (is_jsonl(path))
      tokenize_lines(args, path, *tokenizer, *sink);
    else
      tokenize_text(args, path, *tokenizer, *sink);
  }
  sink->finish();
}

constexpr const char* kTokenizeFooter =
    R"(IN is a text (one document; kjv is one by name), JSONL (a document a line: {"text"},
{"prompt","completion"}, {"messages"}, {"conversations"} or {"instruction","output"}), a file of
token ids, whose ids and mask are copied, or several of these, one behind the other, as data.train
takes them: a folder, whose *.txt are meant, or a pattern ('texts/**/*.md').
OUT "-": a JSON object a line and document: ids; mask where some tokens are no targets; text of
chats as rendered. OUT a file: llm.c's kind, .npy by that ending, or as --as says; two bytes an id
where the vocabulary is at most 65,536.
The end token follows documents of JSONL but chats; a plain text has none.)";

void declare_tokenize(Flags flags, TokenizeArgs& args) {
  flags.option("IN", args.in, "text, JSONL or token file to read, a folder or a pattern of them")
      .required();
  flags.option("OUT", args.out, "token file to write, or - for JSON lines").required();
  add_tokenizer(flags, args.tokenizer);
  flags.flag("--no-end", args.no_end, "no end token behind documents");
  add_template(flags, args.chat);
  add_ignored_keys(flags, args.ignored_keys);
  flags.flag("--generation-prompt", args.generation_prompt,
             "behind chats, what begins the assistant's answer");
  flags.setting("--text-key KEY", args.text_key, "the key of a plain text in JSONL");
  add_special_tokens(flags, args.special);
  flags.setting("--from", args.from, "uint16: IN is bare ids of two bytes")
      .one_of({"auto", "uint16"});
  flags.option("--as", args.as, "kind of OUT, else by its name")
      .one_of({"llmc", "bintok", "npy", "uint16"});
  flags.option("--vocab", args.vocab, "all ids are below it; else the tokenizer's or the largest")
      .range(1, int64_t{std::numeric_limits<int32_t>::max()});
  add_threads(flags, args.threads);
  flags.flag("--json", args.json, "what was written to a file, as JSON");
  flags.footer(kTokenizeFooter);
}

}  // namespace

const Command kTokenize{"tokenize", "texts, documents and chats as token ids",
                        with_flags<TokenizeArgs, declare_tokenize, tokenize>};

}  // namespace ng::cli
