// What the comment that a recipe's file begins with says of it.
#pragma once

#include <string>
#include <string_view>

namespace ng {

/// Each on one line, without its label; empty where the comment has none. Its paragraphs begin with
/// "Source:", "Claim:" and "Deviates:"; the first has no label.
struct RecipeNotes {
  std::string summary;   ///< the first sentence
  std::string source;    ///< where the method was published
  std::string claim;     ///< what was claimed of it there
  std::string deviates;  ///< in what the file is not what was published
};

[[nodiscard]] RecipeNotes notes_in(std::string_view file);

}  // namespace ng
