#include "recipe/said_recipe.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/keys.h"
#include "base/setting.h"
#include "recipe/recipe.h"
#include "recipe/resolve.h"
#include "recipe/settings_keys.h"

namespace ng {
namespace {

const KeyRow kRecipeRow = {.path = "recipe",
                           .expected = "keys of a recipe: recipe.linear.wgrad.hadamard=16",
                           .doc = "",
                           .takes_table = true};

/// Whether setting `linear` to a format's name says that key, too.
bool follows_linear(std::string_view path) {
  return path.starts_with("linear.") && !path.ends_with("_signs") && !path.ends_with(".output");
}

bool says(const RecipeDocument& document, const KeyRow& row) {
  const auto linear = find_item(*document.table, "linear", "");
  if (linear && linear->value->is_string() && follows_linear(row.path)) return true;
  return find_key(*document.table, row, "").has_value();
}

/// `inherit`: of a path, the file that was found.
std::string inherit_line(const std::vector<RecipeDocument>& documents) {
  const auto item = last_item(documents, "inherit");
  if (!item) return "";
  const std::string name = read_text(*item);
  const bool is_path = name.ends_with(".toml") || name.find('/') != std::string::npos;
  return fmt::format("inherit = {}\n", toml_quote(is_path ? find_inherited(*item) : name));
}

/// Keys of several documents: lists and the name as the last says them, others as they come out.
std::string merged_lines(const std::vector<RecipeDocument>& documents, const Recipe& whole) {
  std::string text;
  for (const char* key : {"name", "override", "phase"})
    if (const auto item = last_item(documents, key))
      text += fmt::format("{} = {}\n", key, toml_text(*item->value));
  for (const Key<RecipeSettings>& row : settings_keys()) {
    const bool is_said = std::any_of(documents.begin(), documents.end(),
                                     [&](const auto& document) { return says(document, row); });
    if (const std::string value = row.print(whole.settings(0)); is_said && !value.empty())
      text += fmt::format("{} = {}\n", row.path, value);
  }
  return text;
}

/// The keys of one as they stand there, but `inherit`.
std::string own_lines(const RecipeDocument& document) {
  std::string text;
  for (const auto& [path, value] : toml_values(*document.table))
    if (path != "inherit") text += fmt::format("{} = {}\n", path, value);
  return text;
}

/// Puts keys over those of a table. A format's name is what a table of it begins with; a table that
/// says its format replaces what was there.
void merge(toml::table& into, const toml::table& changes, const TomlItem& at) {
  for (const auto& [key, value] : changes) {
    const toml::table* below = value.as_table();
    const auto found = into.find(key.str());
    if (found == into.end() || below == nullptr || below->contains("format")) {
      into.insert_or_assign(key.str(), value);
      continue;
    }
    if (!found->second.is_table()) {
      if (key.str() == "linear")
        at.refuse(fmt::format("linear is {} there", toml_text(found->second)),
                  "linear as a whole: a format name, or a table of fprop, dgrad and wgrad");
      toml::table format;
      format.insert("format", found->second);
      into.insert_or_assign(key.str(), std::move(format));
    }
    merge(*into.find(key.str())->second.as_table(), *below, at);
  }
}

/// A list of tables with changes to some, which "phase[1].start=0.9" says as phase.1.start.
toml::array changed_list(const std::optional<TomlItem>& list, const TomlItem& changes) {
  toml::array tables;
  if (list && list->value->is_array()) tables = *list->value->as_array();
  for (const auto& [key, value] : *changes.value->as_table()) {
    size_t number = 0;
    const std::string digits(key.str());
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const TomlItem at{&value, fmt::format("{}[{}]", changes.path, digits), changes.place};
    if (number == 0 || number > tables.size())
      at.refuse(fmt::format("the recipe has {}", tables.size()),
                tables.empty() ? "the whole list" : fmt::format("1 to {}", tables.size()));
    if (!value.is_table()) at.refuse_value("keys of one of the list: [1].KEY=VALUE");
    merge(*tables[number - 1].as_table(), *value.as_table(), at);
  }
  return tables;
}

/// Documents whose changes to tables of lists are the whole lists.
void write_lists_out(std::vector<RecipeDocument>& documents) {
  for (size_t i = 0; i < documents.size(); ++i)
    for (const std::string key : {"override", "phase"}) {
      const auto changes = find_item(*documents[i].table, key, documents[i].prefix);
      if (!changes || !changes->value->is_table()) continue;
      const std::vector<RecipeDocument> before(documents.begin(), documents.begin() + ptrdiff_t(i));
      const toml::array list =
          changed_list(last_item(recipe_source_of(before).documents, key), *changes);
      std::string text = fmt::format("{} = {}\n", key, toml_text(list));
      for (const auto& [path, value] : toml_values(*documents[i].table))
        if (!path.starts_with(key + ".")) text += fmt::format("{} = {}\n", path, value);
      documents[i].table = std::make_shared<const toml::table>(parse_toml(text, changes->place));
    }
}

RecipeDocument document_of(const SaidRecipe::Base& base) {
  const bool is_text = base.recipe.find('\n') != std::string::npos;
  if (!is_text) try {
      (void)find_recipe(base.recipe, "");
    } catch (const Error& error) {
      throw Error({base.place, "recipe", error.parts().problem, error.parts().remedy});
    }
  const std::string toml = is_text ? base.recipe : "inherit = " + toml_quote(base.recipe);
  return {std::make_shared<const toml::table>(parse_toml(toml, base.place))};
}

/// The table below `recipe` of a document.
RecipeDocument keys_in(const std::shared_ptr<const toml::table>& document) {
  const toml::table* keys = document->find("recipe")->second.as_table();
  return {{document, keys}, std::string(kRecipePrefix)};
}

}  // namespace

void SaidRecipe::start(Base base) {
  base_ = std::move(base);
  is_started_ = true;
  keys_.clear();
}

std::vector<RecipeDocument> SaidRecipe::documents() const {
  std::vector<RecipeDocument> all;
  if (is_started_) all.push_back(document_of(base_));
  all.insert(all.end(), keys_.begin(), keys_.end());
  write_lists_out(all);
  return all;
}

std::string SaidRecipe::text() const {
  if (keys_.empty()) return base_.recipe;
  const std::vector<RecipeDocument> all = documents();
  const Recipe whole = Recipe::of(recipe_source_of(all));  // all that is wrong is said here
  std::vector<std::string> own;
  for (const RecipeDocument& document : all)
    if (std::string lines = own_lines(document); !lines.empty()) own.push_back(std::move(lines));
  const std::string keys = own.size() > 1 ? merged_lines(all, whole)
                           : own.empty()  ? ""
                                          : own.front();
  return inherit_line(all) + keys + "\n";
}

std::string recipe_with(const std::string& recipe, std::span<const std::string> settings) {
  if (recipe.empty() && !settings.empty())
    throw Error({"--set", "", "of which recipe?", "name one beside it"});
  SaidRecipe said;
  said.start({recipe, "--recipe"});
  for (const std::string& setting : settings) {
    const auto document = std::make_shared<const toml::table>(parse_setting(setting));
    refuse_bare_recipe_keys(*document);
    const KeyRow* const row = &kRecipeRow;
    check_known_keys(*document, {&row, 1});
    const auto item = find_item(*document, "recipe", "");
    if (!item->value->is_table()) item->refuse_value(kRecipeRow.expected);
    said.add(keys_in(document));
  }
  return said.text();
}

Error::Parts at_setting(Error::Parts parts, std::span<const std::string> settings) {
  const std::string text(kRecipeText);
  if (parts.place != text && !parts.place.starts_with(text + ":")) return parts;
  parts.place = text;
  const auto is_in = [](std::string_view key, std::string_view table) {
    return key.starts_with(table) &&
           (key.size() == table.size() || key[table.size()] == '.' || key[table.size()] == '[');
  };
  for (const std::string& setting : settings) {
    const std::string_view said = std::string_view(setting).substr(0, setting.find('='));
    const std::string_view key = said.substr(0, said.find_last_not_of(' ') + 1);
    if (!key.starts_with(kRecipePrefix)) continue;
    const std::string_view own = key.substr(kRecipePrefix.size());
    if (is_in(parts.key, own) || is_in(own, parts.key)) parts.place = setting_place(setting);
  }
  return parts;
}

void refuse_bare_recipe_keys(const toml::table& document) {
  std::vector<std::string> known;
  for (const KeyRow& row : structure_rows()) known.push_back(row.path);
  for (const KeyRow* row : rows_of(settings_keys())) known.push_back(row->path);
  const auto is_recipes = [&](std::string_view word) {
    return word != "name" && std::any_of(known.begin(), known.end(), [&](const auto& path) {
             return path.substr(0, path.find('.')) == word;
           });
  };
  const auto leads_on = [&](const std::string& path) {
    return std::any_of(known.begin(), known.end(),
                       [&](const auto& other) { return other.starts_with(path + "."); });
  };
  const std::vector<std::string_view> views(known.begin(), known.end());
  for (const auto& [key, value] : document) {
    if (!is_recipes(key.str())) continue;
    std::string path(key.str());
    const toml::table* table = value.as_table();
    // As far as the words of one key go.
    while (table != nullptr && table->size() == 1 && leads_on(path)) {
      path += "." + toml_key(table->begin()->first.str());
      table = table->begin()->second.as_table();
    }
    throw Error({place_of(key.source()), path, "unknown key",
                 fmt::format("a recipe's keys stand below recipe: {}{}", kRecipePrefix,
                             nearest_path(path, views))});
  }
}

}  // namespace ng
