// A recipe that a run file and a command line say together: one by name, and keys over it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "recipe/source.h"

namespace ng {

class SaidRecipe {
 public:
  /// A recipe by name or path, or TOML of several lines. Where it was said: "run.toml:3".
  struct Base {
    std::string recipe = "fp32";
    std::string place = {};
  };

  /// Another one: keys that were said before it are gone.
  void start(Base base);
  /// Keys over what there is.
  void add(RecipeDocument keys) { keys_.push_back(std::move(keys)); }
  [[nodiscard]] bool has_keys() const { return !keys_.empty(); }

  /// What Recipe::load() takes: without keys what it started with; else TOML of several lines. Keys
  /// that one document says stand there as in that document, of several what comes out. Throws
  /// Error, at the key, for what is no recipe.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::vector<RecipeDocument> documents() const;

  Base base_;
  bool is_started_ = false;  ///< base_ was said
  std::vector<RecipeDocument> keys_;
};

/// What leads to a recipe's keys in a run file and on a command line.
inline constexpr std::string_view kRecipePrefix = "recipe.";

/// The recipe of that name, path or text with settings over it: "recipe.linear.wgrad.hadamard=16".
/// As Recipe::load() takes it.
[[nodiscard]] std::string recipe_with(const std::string& recipe,
                                      std::span<const std::string> settings);

/// Of an error in a recipe's text, whose lines nobody wrote, the same at the last of these settings
/// that says the key or a table it is in, else without the line. Others are left alone.
[[nodiscard]] Error::Parts at_setting(Error::Parts parts, std::span<const std::string> settings);

/// Throws Error where a document of other keys says one of a recipe's as if it were its own: it
/// stands below `recipe`.
void refuse_bare_recipe_keys(const toml::table& document);

}  // namespace ng
