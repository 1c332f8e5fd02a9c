// Which recipes a search looks at: a base with keys over it, every combination of their values, and
// others by name.
#pragma once

#include <string>
#include <vector>

#include "compare/grid.h"

namespace ng::search {

struct Candidate {
  std::string label;     ///< "c3" of one that the grid made, else the recipe's
  std::string recipe;    ///< a name or a file, as Recipe::load() takes it
  GridSettings changes;  ///< over the base; none of a recipe by name
  std::string text;      ///< TOML of which `recipe` is to be made; empty: it is there

  /// As Recipe::load() takes it before `recipe` is there.
  [[nodiscard]] const std::string& loadable() const { return text.empty() ? recipe : text; }
};

struct CandidateWords {
  std::string base;                  ///< a name or a file
  std::vector<std::string> axes;     ///< "recipe.KEY=VALUE,VALUE"; "{a,b}" in a key means both
  std::vector<std::string> recipes;  ///< names or files
  bool skips_invalid = false;        ///< combinations that are no recipe are left out
  std::string folder;                ///< of the files of those that the grid makes
};

struct Candidates {
  std::vector<Candidate> all;         ///< those of the grid first
  std::vector<std::string> left_out;  ///< combinations, each with the reason
};

/// Throws Error where there is none, for an axis that is no recipe's, for combinations that are no
/// recipe, naming each, and for a recipe that is missing, the base, bf16 or another candidate, or
/// is called as one of them.
[[nodiscard]] Candidates candidates_of(const CandidateWords& words);

/// Throws Error where a file of one of them is there and says something else.
void require_own_recipes(const std::vector<Candidate>& candidates);

/// Makes the files of those that have none yet.
void write_recipes(const std::vector<Candidate>& candidates);

}  // namespace ng::search
