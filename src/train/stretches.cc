#include "train/stretches.h"

#include <utility>

#include "base/files.h"
#include "recipe/recipe.h"
#include "train/run_keys.h"

namespace ng {
namespace {

const std::string kRecipe = "recipe.";

Json member(const Json& object, const std::string& key) {
  return object.is_object() ? object.value(key, Json()) : Json();
}

// A value as TOML: where JSON writes it so too it is that, else a text.
Json value_of(const std::string& toml) {
  Json value = parse_json_line(toml);
  return value.is_discarded() ? Json(toml) : value;
}

void put_recipe(Json& settings, const Recipe& recipe) {
  for (auto item = settings.begin(); item != settings.end();)
    item = item.key().starts_with(kRecipe) ? settings.erase(item) : std::next(item);
  for (const auto& [key, value] : recipe.values()) settings[kRecipe + key] = value_of(value);
}

}  // namespace

Json settings_of(const RunConfig& config, const Recipe& recipe, int ranks) {
  Json settings = {{"ranks", ranks}};
  for (const auto& key : run_keys())
    if (const std::string value = key.print(config); !value.empty())
      settings[key.path] = value_of(value);
  put_recipe(settings, recipe);
  return settings;
}

Json changed_settings(const Json& before, const Json& now) {
  Json changed = Json::object();
  for (const Json* side : {&before, &now})
    for (const auto& [key, value] : side->items()) {
      const Json was = member(before, key), is = member(now, key);
      if (was != is) changed[key] = {{"before", was}, {"now", is}};
    }
  return changed;
}

void add_stretch(std::vector<Stretch>& stretches, Stretch stretch) {
  while (!stretches.empty() && stretches.back().first >= stretch.first) stretches.pop_back();
  stretches.push_back(std::move(stretch));
}

void take_stretch(std::vector<Stretch>& stretches, const Json& line) {
  const Json event = member(line, "event"), step = member(line, "step");
  if ((event != "start" && event != "resume") || !step.is_number_integer()) return;
  add_stretch(stretches, {step.get<int64_t>(), member(line, "settings"), member(line, "changed")});
}

std::vector<Stretch> read_stretches(const std::string& path) {
  std::vector<Stretch> stretches;
  if (!is_file(path)) return stretches;
  const MappedFile file(path);
  const std::string_view text = file.text();
  for (size_t begin = 0, end = text.find('\n'); end != std::string_view::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find("\"event\"") != std::string_view::npos)  // others take long to parse
      take_stretch(stretches, parse_json_line(line));
  }
  return stretches;
}

Json settings_before(const std::vector<Stretch>& stretches, int64_t step,
                     const std::map<std::string, std::string>& saved, const Recipe& recipe,
                     const Json& now) {
  Json before;
  for (const Stretch& stretch : stretches)
    if (stretch.first < step) before = stretch.settings;
  const bool is_known = before.is_object();
  if (!is_known) before = now;  // of an older version: what nobody noted is taken for the same
  put_recipe(before, recipe);
  if (!is_known && before != now) before["recipe"] = recipe.name();
  for (const auto& [key, value] : saved)
    if (now.contains(key)) before[key] = value_of(value);
  return before;
}

std::string setting_text(const Json& value) { return value.is_null() ? "none" : json_text(value); }

std::string history_text(const std::vector<Stretch>& stretches) {
  std::string text;
  for (const Stretch& stretch : stretches) {
    if (!stretch.changed.is_object()) continue;
    for (const auto& [key, sides] : stretch.changed.items())
      text +=
          fmt::format("after step {}: {}: {} -> {}\n", stretch.first, key,
                      setting_text(member(sides, "before")), setting_text(member(sides, "now")));
  }
  return text;
}

}  // namespace ng
