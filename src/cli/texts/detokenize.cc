// narrowgauge detokenize IN OUT|-: token ids as text.
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/texts/tokenizer_flag.h"
#include "data/jsonl.h"
#include "data/masked_tokens.h"
#include "data/token_file_source.h"

namespace ng::cli {
namespace {

struct DetokenizeArgs {
  std::string in, out, tokenizer, from = "auto";
  bool json = false;
};

using Ids = std::vector<int32_t>;

Ids ids_of_line(std::string_view line, const std::string& place) {
  const Json json = parse_json(line, place);
  const JsonObject object(json, place);
  const char* const expected = "a list of token ids";
  const Json& list = object.at("ids", expected);
  if (!list.is_array()) object.refuse("ids", brief(list), expected);
  Ids ids;
  for (const Json& id : list) {
    const bool fits = id.is_number_integer() && id.get<int64_t>() >= 0 &&
                      id.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) object.refuse("ids", brief(id), "token ids");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Ids ids_of_file(const std::string& path, bool bare_uint16, const Tokenizer& tokenizer) {
  const TokenFileSource source(path, bare_uint16, tokenizer);
  Ids ids(static_cast<size_t>(source.tokens()));
  source.read(0, ids);
  return ids;
}

/// f(ids) of each document of IN, a token file being one.
void each_document(const DetokenizeArgs& args, const Tokenizer& tokenizer,
                   const std::function<void(const Ids&)>& f) {
  if (!is_jsonl(args.in)) {
    f(ids_of_file(args.in, args.from == "uint16", tokenizer));
    return;
  }
  const MappedFile file(args.in);
  for_each_line(file.text(), args.in, [&](std::string_view line, const std::string& place) {
    const Ids ids = ids_of_line(line, place);
    for (const int32_t id : ids)
      if (id >= tokenizer.vocab())
        throw Error(
            {.place = place,
             .key = "ids",
             .problem = fmt::format("{}", id),
             .remedy = fmt::format("ids below {}, which the tokenizer has", tokenizer.vocab())});
    f(ids);
  });
}

void detokenize(const DetokenizeArgs& args) {
  (void)ReadFile(args.in);
  const auto tokenizer = open_named_tokenizer(args.tokenizer);
  if (args.out == "-") {
    each_document(args, *tokenizer, [&](const Ids& ids) {
      print_json_line({{"text", tokenizer->decode_text(ids)}});
    });
    return;
  }
  refuse_input(args.out, args.in);
  require_target(args.out, "a text", [](const std::string&) { return true; });
  FileWriter file(args.out);
  uint64_t bytes = 0;
  each_document(args, *tokenizer, [&](const Ids& ids) {
    const std::string text = tokenizer->decode(ids);
    file.write(text);
    bytes += text.size();
  });
  file.commit();
  print_either(args.json, {{"out", args.out}, {"bytes", bytes}},
               fmt::format("{}  {} bytes\n", args.out, count_text(static_cast<int64_t>(bytes))));
}

void declare_detokenize(Flags flags, DetokenizeArgs& args) {
  flags.option("IN", args.in, "token file, or JSONL of {\"ids\": [...]}").required();
  flags.option("OUT", args.out, "text to write, or - for JSON lines of {\"text\": ...}").required();
  add_tokenizer(flags, args.tokenizer).required();
  flags.setting("--from", args.from, "uint16: IN is bare ids of two bytes")
      .one_of({"auto", "uint16"});
  flags.flag("--json", args.json, "what was written to a file, as JSON");
  flags.footer(
      "A text holds the bytes that the ids stand for, one document behind the other; JSON lines\n"
      "hold one document each, with U+FFFD for bytes that are no UTF-8.");
}

}  // namespace

const Command kDetokenize{"detokenize", "token ids as text",
                          with_flags<DetokenizeArgs, declare_detokenize, detokenize>};

}  // namespace ng::cli
