#include "recipe/source.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/keys.h"
#include "base/nearest.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

/// Longer chains of `inherit` are a mistake.
constexpr size_t kMaxAncestors = 32;

constexpr std::string_view kSearch = "recipe";  // place of an error of find_recipe

bool is_path(const std::string& name) {
  return name.ends_with(".toml") || name.find('/') != std::string::npos;
}

/// "." for a name without one: a recipe of the current folder has neighbours too.
std::string folder_of(const std::string& place) {
  const std::string folder = fs::path(place).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// One spelling per file, so that a cycle is seen whatever way leads to it.
std::string identity(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  return error ? path : canonical.string();
}

void check_length(const TomlItem& inherit, const std::vector<std::string>& chain,
                  const std::string& parent) {
  const bool again = std::find(chain.begin(), chain.end(), identity(parent)) != chain.end();
  if (again || chain.size() > kMaxAncestors)
    inherit.refuse_value(again ? "a recipe that does not inherit from this one in turn"
                               : fmt::format("at most {} recipes in a row", kMaxAncestors));
}

bool is_recipe_file(const std::string& folder, const std::string& name) {
  return is_file(join_path(folder, name + ".toml"));
}

/// Whether one of recipe_folders() has it.
bool is_named(const std::string& name) {
  const std::vector<std::string> folders = recipe_folders();
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return is_recipe_file(folder, name); });
}

/// What is wrong with the file that a recipe asks for, said of both.
[[noreturn]] void refuse_parent(const TomlItem& inherit, const Error::Parts& parts) {
  const bool is_found = parts.place != kSearch;
  inherit.refuse((is_found ? toml_quote(parts.place) + ": " : "") + parts.problem, parts.remedy);
}

/// `place` is that of the document. Beside a file there may be others; a text has neighbours where
/// no named recipe is called so.
std::string find_parent(const TomlItem& inherit, const std::string& place) {
  const std::string name = read_text(inherit);
  const bool is_text = place == kRecipeText;
  try {
    if (is_text && !is_path(name) && is_named(name)) return find_recipe(name, "");
    return find_recipe(name, folder_of(place));
  } catch (const Error& error) {
    refuse_parent(inherit, error.parts());
  }
}

std::string read_parent(const TomlItem& inherit, const std::string& parent) {
  try {
    return read_file(parent, kMaxTomlBytes);
  } catch (const Error& error) {
    refuse_parent(inherit, error.parts());
  }
}

/// Puts the parent's ancestors and the parent at the end of `source`.
void add_parent(RecipeSource& source, const TomlItem& inherit, const std::string& parent,
                std::vector<std::string>& chain);

/// Reads `name`, then puts the ancestors' documents and this one at the end of `source`.
void add_document(RecipeSource& source, std::string_view text, const std::string& place,
                  std::vector<std::string>& chain) {
  const auto document = std::make_shared<const toml::table>(parse_toml(text, place));
  if (const auto name = find_item(*document, "name", "")) {
    source.name = read_text(*name);
    if (source.name.empty()) name->refuse_value("a name of at least one character");
  }
  if (const auto inherit = find_item(*document, "inherit", "")) {
    const std::string own_name = source.name;
    add_parent(source, *inherit, find_parent(*inherit, place), chain);
    source.name = own_name;
  }
  source.documents.push_back({document});
}

void add_parent(RecipeSource& source, const TomlItem& inherit, const std::string& parent,
                std::vector<std::string>& chain) {
  check_length(inherit, chain, parent);
  chain.push_back(identity(parent));
  add_document(source, read_parent(inherit, parent), parent, chain);
}

/// "nvfp4 with linear.wgrad.hadamard = 16", of keys that have no name.
std::string name_of_changes(const std::vector<RecipeDocument>& documents) {
  constexpr size_t kMostShown = 60;
  const auto inherit = last_item(documents, "inherit");
  std::string name = inherit ? fs::path(read_text(*inherit)).stem().string() : "fp32";
  std::string changes;
  int count = 0;
  for (const RecipeDocument& document : documents)
    for (const auto& [key, value] : toml_values(*document.table)) {
      if (key == "inherit" || key == "name") continue;
      changes += fmt::format("{}{} = {}", changes.empty() ? "" : ", ", key, value);
      ++count;
    }
  if (count == 0) return name;
  if (changes.size() > kMostShown) changes = fmt::format("{} keys changed", count);
  return name + " with " + changes;
}

/// Whoever compiled or installed the program may have kept its folders to himself.
bool is_reachable_folder(const std::string& folder) {
  try {
    return is_folder(folder);
  } catch (const SystemError&) {
    return false;
  }
}

std::string& package_folder() {
  static std::string folder;
  return folder;
}

/// The folder share/narrowgauge/recipes beside the folder of the running program.
std::string installed_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return "";
  return (program.parent_path().parent_path() / "share" / "narrowgauge" / "recipes").string();
}

}  // namespace

std::vector<std::string> recipe_folders() {
  std::vector<std::string> folders;
  if (const char* list = std::getenv("NARROWGAUGE_RECIPES")) {
    for (std::string_view rest = list; !rest.empty();) {
      const size_t colon = rest.find(':');
      if (std::string folder(rest.substr(0, colon)); !folder.empty() && is_folder(folder))
        folders.push_back(std::move(folder));
      rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
    }
  }
  for (const std::string& folder : {package_folder(), std::string(NG_RECIPES), installed_folder()})
    if (!folder.empty() && is_reachable_folder(folder)) folders.push_back(folder);
  return folders;
}

void set_recipe_folder(std::string folder) { package_folder() = std::move(folder); }

std::vector<std::string> recipe_names() {
  std::set<std::string> names;
  for (const std::string& folder : recipe_folders())
    for (const std::string& file : list_folder(folder))
      if (file.ends_with(".toml")) names.insert(file.substr(0, file.size() - 5));
  return {names.begin(), names.end()};
}

std::string find_recipe(const std::string& name_or_path, const std::string& folder) {
  if (is_path(name_or_path)) {
    const std::string beside = join_path(folder, name_or_path);
    return !is_file(name_or_path) && is_file(beside) ? beside : name_or_path;
  }
  if (!folder.empty() && is_recipe_file(folder, name_or_path))
    return join_path(folder, name_or_path + ".toml");
  for (const std::string& candidate : recipe_folders())
    if (is_recipe_file(candidate, name_or_path))
      return join_path(candidate, name_or_path + ".toml");
  const std::string shown = name_or_path.substr(0, 60);
  const std::vector<std::string> names = recipe_names();
  throw Error({.place = std::string(kSearch),
               .key = "",
               .problem = "unknown " + toml_quote(shown),
               .remedy = names.empty()
                             ? "no recipes were found: set NARROWGAUGE_RECIPES to their folder"
                             : did_you_mean(shown, names) + "narrowgauge recipes lists all"});
}

RecipeSource read_recipe_source(std::string_view text, const std::string& place) {
  RecipeSource source;
  source.place = place;
  std::vector<std::string> chain = {identity(place)};
  add_document(source, text, place, chain);
  if (source.name.empty())
    source.name = place == kRecipeText ? name_of_changes({source.documents.back()})
                                       : fs::path(place).stem().string();
  return source;
}

std::optional<TomlItem> last_item(const std::vector<RecipeDocument>& documents,
                                  std::string_view key) {
  for (auto document = documents.rbegin(); document != documents.rend(); ++document)
    if (auto item = find_item(*document->table, key, document->prefix)) return item;
  return std::nullopt;
}

std::string find_inherited(const TomlItem& inherit) {
  const std::string name = read_text(inherit);
  return find_parent(inherit, is_path(name) ? inherit.place : std::string(kRecipeText));
}

RecipeSource recipe_source_of(const std::vector<RecipeDocument>& documents) {
  RecipeSource source;
  source.place = kRecipeText;
  std::vector<std::string> chain;
  if (const auto inherit = last_item(documents, "inherit"))
    add_parent(source, *inherit, find_inherited(*inherit), chain);
  source.documents.insert(source.documents.end(), documents.begin(), documents.end());
  const auto name = last_item(documents, "name");
  source.name = name ? read_text(*name) : name_of_changes(documents);
  if (source.name.empty()) name->refuse_value("a name of at least one character");
  return source;
}

}  // namespace ng
