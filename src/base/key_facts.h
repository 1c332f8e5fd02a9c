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
  std::string line;     ///< TOML that says it, and nothing beside it is needed
};

/// `train.lr = 0.001`; with keys beside it `weights = {storage = "bf16", update = "kahan"}`, in a
/// list of tables `phase = [{linear = "bf16", start = 0.8}]`.
[[nodiscard]] inline std::string example_line(const std::string& key, const std::string& beside,
                                              const std::string& example, bool is_in_list) {
  const std::string said = " = " + example;
  if (beside.empty() && !is_in_list) return key + said;
  const size_t dot = key.rfind('.');
  const std::string table = beside + (beside.empty() ? "" : ", ") + key.substr(dot + 1) + said;
  return key.substr(0, dot) + (is_in_list ? " = [{" + table + "}]" : " = {" + table + "}");
}

/// Of a row whose path ends a key; `above` is what stands before it.
[[nodiscard]] inline KeyFacts facts_of(const KeyRow& row, std::string of, std::string standard,
                                       const std::string& above = "", bool is_in_list = false) {
  const std::string example = row.example.empty() ? standard : row.example;
  return {.key = above + row.path,
          .of = std::move(of),
          .type = std::string(row.type),
          .values = row.expected,
          .standard = std::move(standard),
          .meaning = row.doc,
          .equation = row.equation,
          .since = std::string(row.since),
          .example = example,
          .line = example_line(above + row.path, row.beside, example, is_in_list)};
}

}  // namespace ng
