#include "data/line_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace ng {
namespace {

// What data sets say of a line beside its content: which one it is, where it comes from, when, by
// whom and of what kind. Nothing that ranks or weighs lines, and no part of a data set that is not
// to be trained on, has its name here.
constexpr std::string_view kBookkeeping[] = {"_id",         "author",
                                             "category",    "comment",
                                             "created",     "created_at",
                                             "dataset",     "date",
                                             "domain",      "dump",
                                             "file",        "file_name",
                                             "file_path",   "filename",
                                             "hash",        "id",
                                             "idx",         "index",
                                             "info",        "lang",
                                             "language",    "language_score",
                                             "license",     "meta",
                                             "metadata",    "model",
                                             "origin",      "path",
                                             "repo",        "source",
                                             "subset",      "tags",
                                             "task",        "time",
                                             "timestamp",   "title",
                                             "token_count", "topic",
                                             "uid",         "uri",
                                             "url",         "uuid"};

// Where messages stand in a line.
constexpr std::string_view kMessageLists[] = {"messages", "conversations", "prompt", "chosen",
                                              "rejected"};

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void leave_out_ignored(Json& line, const DocumentRules& rules) {
  if (rules.ignored_keys.empty() || !line.is_object()) return;
  const auto leave_out = [&](Json& object) {
    if (!object.is_object()) return;
    for (const std::string& key : rules.ignored_keys) object.erase(key);
  };
  leave_out(line);
  for (const std::string_view key : kMessageLists)
    if (const auto list = line.find(key); list != line.end() && list->is_array())
      for (Json& message : *list) leave_out(message);
}

void require_known_keys(const JsonObject& object, std::span<const std::string_view> known,
                        const DocumentRules& rules) {
  for (const auto& [key, value] : object.value().items()) {
    if (value.is_null() || is_in(known, key) || is_in(kBookkeeping, key)) continue;
    object.refuse(
        key, brief(value) + ", a key that is not read here",
        fmt::format("{}, or {} with its name", fmt::join(known, ", "), rules.ignored_name));
  }
}

void refuse_without_template(const JsonObject& line, std::string_view key, std::string_view what,
                             const DocumentRules& rules) {
  line.refuse(key,
              fmt::format("{}, and {}", what,
                          rules.has_own_chat ? "the model's own template is none that is known here"
                                             : "no template that says how it becomes text"),
              fmt::format("{}: {}", rules.chat_name, chat_templates_with(has_messages)));
}

}  // namespace ng
