#include "search/candidates.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "base/units.h"
#include "compare/compare.h"
#include "recipe/recipe.h"
#include "recipe/said_recipe.h"

namespace ng::search {
namespace {

/// "a.{b,c}.d=e" is "a.b.d=e" and "a.c.d=e".
std::vector<std::string> expanded(const std::string& word) {
  const size_t open = word.find('{'), close = word.find('}');
  if (open == std::string::npos || close == std::string::npos || open > word.find('='))
    return {word};
  std::vector<std::string> words;
  for (const std::string& part : split_at_commas(word.substr(open + 1, close - open - 1)))
    for (const std::string& rest : expanded(word.substr(close + 1)))
      words.push_back(word.substr(0, open) + part + rest);
  return words;
}

std::vector<std::string> recipe_words(const GridSettings& changes) {
  std::vector<std::string> words;
  for (const std::string& word : words_of(changes))
    for (std::string& one : expanded(word)) words.push_back(std::move(one));
  return words;
}

void require_recipe_keys(const GridSettings& changes) {
  for (const auto& [key, value] : changes)
    if (!key.starts_with(kRecipePrefix))
      throw Error({.place = "--grid",
                   .key = key,
                   .problem = "no key of a recipe",
                   .remedy = "recipe.KEY=VALUE,VALUE, e.g. recipe.linear.wgrad.hadamard=0,16"});
}

/// A file that a recipe in another folder inherits from.
std::string from_anywhere(const std::string& recipe) {
  const bool is_path = recipe.ends_with(".toml") || recipe.find('/') != std::string::npos;
  return is_path ? std::filesystem::absolute(recipe).string() : recipe;
}

/// Combinations that are no recipe, by what is wrong with them.
using Refused = std::map<std::string, std::vector<std::string>>;

std::string refusal_text(const Refused& refused) {
  constexpr size_t kMostNamed = 4;
  std::string text;
  for (const auto& [problem, combinations] : refused) {
    const size_t named = std::min(combinations.size(), kMostNamed);
    text += fmt::format(
        "{}{}", text.empty() ? "" : "; ",
        fmt::join(combinations.begin(), combinations.begin() + ptrdiff_t(named), " and "));
    if (combinations.size() > named)
      text += fmt::format(" and {} more", combinations.size() - named);
    text += ": " + problem;
  }
  return text;
}

[[noreturn]] void refuse(const Refused& refused, int64_t combinations) {
  size_t count = 0;
  for (const auto& [problem, of] : refused) count += of.size();
  throw Error({.place = "--grid",
               .key = "",
               .problem = fmt::format("{} of {} {} no recipe: {}", count,
                                      counted(combinations, "combination"),
                                      count == 1 ? "is" : "are", refusal_text(refused)),
               .remedy = "other values, or --skip-invalid"});
}

/// Makes candidates of a grid and of names, each recipe once, each with a label of its own: by
/// labels gradients, runs and fates are told apart.
class Maker {
 public:
  explicit Maker(const CandidateWords& words) : words_(words) {
    const Recipe bf16 = Recipe::load("bf16"), base = Recipe::load(words.base);
    const std::string label = recipe_labels({words.base}).front();
    if (label == "bf16" && base.hash() != bf16.hash())
      throw Error({"--base", words.base, "called bf16, which it is not", "another file name"});
    known_[bf16.hash()] = "bf16";
    known_[base.hash()] = words.base;
    named_ = recipe_labels(words.recipes);
    taken_ = {"bf16", label};
  }

  void add_grid() {
    const std::vector<GridSettings> grid = grid_settings(words_.axes);
    Refused refused;
    for (const GridSettings& changes : grid) {
      require_recipe_keys(changes);
      try {
        add(changes);
      } catch (const Error& error) {
        refused[error.what()].push_back(text_of(changes));
      }
    }
    if (refused.empty()) return;
    if (!words_.skips_invalid) refuse(refused, std::ssize(grid));
    for (const auto& [problem, combinations] : refused)
      for (const std::string& combination : combinations)
        found_.left_out.push_back(combination + ": " + problem);
  }

  void add_named() {
    for (size_t i = 0; i < named_.size(); ++i) {
      const std::string& recipe = words_.recipes[i];
      if (const std::string same = put_in(Recipe::load(recipe), named_[i]); !same.empty())
        throw Error({"--recipes", recipe, "the same recipe as " + same, "each recipe once"});
      if (taken_.contains(named_[i]))
        throw Error(
            {"--recipes", recipe, "another recipe is called " + named_[i], "another file name"});
      found_.all.push_back({.label = named_[i], .recipe = recipe, .changes = {}, .text = {}});
    }
  }

  [[nodiscard]] Candidates found() const { return found_; }

 private:
  void add(const GridSettings& changes) {
    std::string text = recipe_with(from_anywhere(words_.base), recipe_words(changes));
    const std::string label = free_label();
    if (const std::string same = put_in(Recipe::load(text), label); !same.empty()) {
      found_.left_out.push_back(text_of(changes) + ": the same recipe as " + same);
      return;
    }
    taken_.insert(label);
    const std::string comment =
        fmt::format("# {} with {}.\n", words_.base, on_one_line(text_of(changes)));
    found_.all.push_back({.label = label,
                          .recipe = join_path(words_.folder, label + ".toml"),
                          .changes = changes,
                          .text = comment + text});
  }

  /// "c1", "c2", ...: the first that nothing else is called, as a base of an earlier search is.
  [[nodiscard]] std::string free_label() const {
    for (size_t number = 1;; ++number)
      if (const std::string label = fmt::format("c{}", number);
          !taken_.contains(label) && std::ranges::find(named_, label) == named_.end())
        return label;
  }

  /// Of which other the recipe is another name; empty: of none.
  std::string put_in(const Recipe& recipe, const std::string& label) {
    const auto [place, is_new] = known_.emplace(recipe.hash(), label);
    return is_new ? "" : place->second;
  }

  const CandidateWords& words_;
  std::map<std::string, std::string> known_;  // by hash
  std::vector<std::string> named_;            // labels of words_.recipes
  std::set<std::string> taken_;               // all other labels
  Candidates found_;
};

}  // namespace

Candidates candidates_of(const CandidateWords& words) {
  Maker maker(words);
  if (!words.axes.empty()) maker.add_grid();
  maker.add_named();
  Candidates found = maker.found();
  if (found.all.empty())
    throw Error({.place = "recipes search",
                 .key = "",
                 .problem = "no candidate",
                 .remedy = "--grid recipe.KEY=VALUE,VALUE or --recipes A,B,C"});
  return found;
}

void require_own_recipes(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates)
    if (!candidate.text.empty() && is_file(candidate.recipe) &&
        read_file(candidate.recipe, kMaxTomlBytes) != candidate.text)
      throw Error({.place = candidate.recipe,
                   .key = "",
                   .problem = "is not what this search says there",
                   .remedy = "that file removed or under another name, or another --out"});
}

void write_recipes(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    if (candidate.text.empty() || is_file(candidate.recipe)) continue;
    make_folders(std::filesystem::path(candidate.recipe).parent_path().string());
    write_file_atomically(candidate.recipe, candidate.text);
  }
}

}  // namespace ng::search
