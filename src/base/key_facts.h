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
};

[[nodiscard]] inline KeyFacts facts_of(const KeyRow& row, std::string of, std::string standard) {
  return {.key = row.path,
          .of = std::move(of),
          .type = std::string(row.type),
          .values = row.expected,
          .standard = standard,
          .meaning = row.doc,
          .equation = row.equation,
          .since = std::string(row.since),
          .example = row.example.empty() ? standard : row.example};
}

}  // namespace ng
