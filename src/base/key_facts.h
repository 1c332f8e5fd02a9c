// What a vocabulary's table says of its keys, as data: for pages, commands and JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/keys.h"

namespace ng {

/// One key by its full path.
struct KeyFacts {
  std::string key;
  std::string of;  ///< whose: "run file" or "recipe"
  std::string type;
  std::string values;
  std::string standard;  ///< the default as TOML; empty: none
  std::string meaning;
  std::string equation;  ///< empty: none
  std::string since;
  std::string example;  ///< a value as TOML
  std::string line;     ///< TOML that says it and loads by itself; of some several lines
};

/// `train.lr = 0.001`; with keys beside it `weights = {storage = "bf16", update = "kahan"}`, in a
/// list of tables `phase = [{linear = "bf16", start = 0.8}]`.
[[nodiscard]] inline std::string example_line(const KeyRow& row, const std::string& key,
                                              const std::string& example, bool is_in_list) {
  const std::string said = " = " + example;
  if (row.beside.empty() && !is_in_list) return row.before + key + said;
  const size_t dot = key.rfind('.');
  const std::string comma = row.beside.empty() ? "" : ", ";
  const std::string table = "{" + row.beside + comma + key.substr(dot + 1) + said + "}";
  return row.before + key.substr(0, dot) + " = " + (is_in_list ? "[" + table + "]" : table);
}

/// Of a row whose path ends a key; `above` is what stands before it.
[[nodiscard]] inline KeyFacts facts_of(const KeyRow& row, std::string of, std::string standard,
                                       const std::string& above = "", bool is_in_list = false) {
  const std::string key = above + row.path;
  const std::string example = row.example.empty() ? standard : row.example;
  return {.key = key,
          .of = std::move(of),
          .type = std::string(row.type),
          .values = row.expected,
          .standard = std::move(standard),
          .meaning = row.doc,
          .equation = row.equation,
          .since = std::string(row.since),
          .example = example,
          .line = example_line(row, key, example, is_in_list)};
}

}  // namespace ng
