// narrowgauge keys [KEY]: what a run file and a recipe may say, by the tables that read them.
#include "base/glob.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/shared_flags.h"
#include "tools/keys_page.h"

namespace ng::cli {
namespace {

struct KeysArgs {
  std::string key;
  bool markdown = false;
  bool json = false;
};

/// Keys of recipes stand behind this in run files and --set.
constexpr std::string_view kInRunFiles = "recipe.";

/// The key of that name; else those that a pattern means or that begin so, else those that end so.
std::vector<KeyFacts> found(std::string_view words) {
  if (words.starts_with(kInRunFiles)) words.remove_prefix(kInRunFiles.size());
  const std::vector<KeyFacts> all = all_key_facts();
  const auto those = [&](const auto& means) {
    std::vector<KeyFacts> some;
    for (const KeyFacts& facts : all)
      if (!words.empty() && means(facts.key)) some.push_back(facts);
    return some;
  };
  const bool is_pattern = words.find_first_of("*?") != words.npos;
  std::vector<KeyFacts> some = those([&](const std::string& key) { return key == words; });
  if (some.empty())
    some = those([&](const std::string& key) {
      return is_pattern ? glob_matches(words, key) : key.starts_with(words);
    });
  const std::string ending = fmt::format(".{}", words);
  if (some.empty()) some = those([&](const std::string& key) { return key.ends_with(ending); });
  if (!some.empty()) return some;
  std::vector<std::string_view> known;
  for (const KeyFacts& facts : all) known.push_back(facts.key);
  refuse("keys", fmt::format("unknown {}", json_text(words.substr(0, 60))),
         fmt::format("the nearest known key is {}; narrowgauge keys lists all",
                     nearest_path(words, known)));
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json json_of(const KeyFacts& facts) {
  return {{"key", facts.key},
          {"of", facts.of},
          {"type", facts.type},
          {"values", facts.values},
          // Defaults are printed in what TOML and JSON have in common.
          {"default", facts.standard.empty() ? Json() : parse_json(facts.standard, facts.key)},
          {"meaning", facts.meaning},
          {"equation", or_null(facts.equation)},
          {"since", facts.since},
          {"example", facts.line}};
}

Json json_of(const std::vector<KeyFacts>& all) {
  Json rows = Json::array();
  for (const KeyFacts& facts : all) rows.push_back(json_of(facts));
  return rows;
}

std::string text_of(const KeyFacts& facts, const Json& row) {
  std::string text = facts.key + "\n";
  const auto line = [&](std::string_view what, std::string value) {
    for (size_t end = value.find('\n'); end != value.npos; end = value.find('\n', end + 1))
      value.insert(end + 1, 12, ' ');
    if (!value.empty()) text += fmt::format("  {:<9} {}\n", what, value);
  };
  line("of", facts.of == "recipe"
                 ? fmt::format("a recipe; in run files and --set: {}{}", kInRunFiles, facts.key)
                 : "a " + facts.of);
  line("type", facts.type);
  line("values", facts.values);
  line("default", facts.standard.empty() ? "none" : facts.standard);
  for (const char* what : {"meaning", "equation", "since", "example"})
    if (row[what].is_string()) line(what, row[what].get<std::string>());
  if (facts.type == kOperandType)
    text += fmt::format("  narrowgauge keys {}. lists the keys of its table\n", facts.key);
  return text;
}

std::string table_text(const std::vector<KeyFacts>& all) {
  Table table({"key", "default", "meaning"}, 3);
  for (const KeyFacts& facts : all) table.row({facts.key, facts.standard, facts.meaning});
  return table.text();
}

void keys(const KeysArgs& args) {
  if (args.markdown) return print("{}", keys_page());
  const bool any = args.key.empty();
  const std::vector<KeyFacts> all = any ? all_key_facts() : found(args.key);
  const Json rows = json_of(all);
  if (args.json) return print_json(rows);
  if (all.size() == 1) return print("{}", text_of(all.front(), rows.front()));
  print("{}{}", table_text(any ? without_operands_keys(all) : all),
        "narrowgauge keys KEY says all of one: values, equation, example.\n");
}

void declare_keys(Flags flags, KeysArgs& args) {
  flags
      .option("KEY", args.key,
              "one key of a run file or a recipe; or a beginning, an ending or a pattern of "
              "several: train., prescale, *.block")
      .check(not_empty);
  const Flag markdown = flags.flag("--markdown", args.markdown,
                                   "the page docs/keys.md, with all that is said of each");
  flags.flag("--json", args.json, "print a JSON list").excludes(markdown);
  flags.check([&args] {
    if (args.markdown && !args.key.empty())
      throw WrongFlags("--markdown prints the page of all keys: without KEY");
  });
}

}  // namespace

const Command kKeys{"keys", "what a run file and a recipe may say: values, defaults, meanings",
                    with_flags<KeysArgs, declare_keys, keys>};

}  // namespace ng::cli
