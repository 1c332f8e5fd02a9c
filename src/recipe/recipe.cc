#include "recipe/recipe.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "recipe/layer_trial.h"
#include "recipe/matches.h"
#include "recipe/resolve.h"
#include "recipe/settings_keys.h"
#include "recipe/warnings.h"

namespace ng {

struct Recipe::Data {
  ResolvedRecipe recipe;
  std::vector<std::string> warnings;
  bool is_frozen = false;
  std::optional<Operand> frozen_as{};  // none: as the recipe says
};

namespace {

/// FNV-1a, 64 bits.
std::string hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

/// What a document says by a name that the key had before.
std::optional<TomlItem> old_item(const RecipeDocument& document, const KeyRow& row) {
  if (row.formerly.empty()) return {};
  return find_item(*document.table, row.formerly, document.prefix);
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

/// A patch as dotted lines without the keys that say where it holds.
std::string patch_lines(const toml::table& patch, std::initializer_list<std::string_view> without) {
  std::string lines;
  for (const auto& [key, value] : patch) {
    if (std::find(without.begin(), without.end(), key.str()) != without.end()) continue;
    if (const toml::table* table = value.as_table())
      lines += toml_lines(*table, toml_key(key.str()) + ".");
    else
      lines += toml_key(key.str()) + " = " + toml_text(value) + "\n";
  }
  return lines;
}

std::string text_of_override(const RecipeOverride& override_) {
  std::string text = "\n[[override]]\nlayers = " + print_value(override_.layers) + "\n";
  if (override_.blocks) text += "blocks = " + toml_quote(override_.blocks->text()) + "\n";
  if (override_.is_optional) text += "optional = true\n";
  return text + patch_lines(*override_.patch, {"layers", "blocks", "optional"});
}

std::string overrides_text(const ResolvedRecipe& recipe) {
  std::string text;
  for (const RecipeOverride& override_ : recipe.overrides) text += text_of_override(override_);
  return text;
}

/// Whether something may mean no layer changes no bit of a run.
ResolvedRecipe without_optional(ResolvedRecipe recipe) {
  for (RecipeOverride& override_ : recipe.overrides) override_.is_optional = false;
  for (RecipeSettings& phase : recipe.phases) phase.weight_noise.is_optional = false;
  return recipe;
}

std::string phase_header(double start) {
  return "\n[[phase]]\nstart = " + print_value(start) + "\n";
}

/// All but the name, of the base those keys.
std::string body_of(const ResolvedRecipe& recipe,
                    const Keys<RecipeSettings>& keys = settings_keys()) {
  std::string text = print_keys(recipe.phases.front(), keys) + overrides_text(recipe);
  for (size_t i = 0; i < recipe.phase_patches.size(); ++i)
    text +=
        phase_header(recipe.phase_starts[i + 1]) + patch_lines(*recipe.phase_patches[i], {"start"});
  return text;
}

/// What the recipe is in any vocabulary that has its keys: a key that a later version adds, and
/// this recipe does not say, must not make it another one.
std::string identity_of(const ResolvedRecipe& recipe) {
  std::string text = differing_keys(recipe.phases.front()) + overrides_text(recipe);
  for (size_t i = 1; i < recipe.phases.size(); ++i)
    text += phase_header(recipe.phase_starts[i]) + differing_keys(recipe.phases[i]);
  return text;
}

// Nothing moves any more.
void freeze(LayerRecipe& layer, const std::optional<Operand>& storage, bool is_in_block) {
  WeightStorage frozen{.storage = storage.value_or(layer.weights.storage), .is_frozen = true};
  if (storage && !storage->is_unscaled() && !is_in_block) frozen.storage = operand_of("fp32");
  layer.weights = frozen;
  layer.weight_noise = WeightNoise{};
}

}  // namespace

Recipe Recipe::load(const std::string& name_or_path, const std::string& folder) {
  if (name_or_path.find('\n') != std::string::npos)
    return parse(name_or_path, std::string(kRecipeText));
  const std::string path = find_recipe(name_or_path, folder);
  return parse(read_file(path, kMaxTomlBytes), path);
}

Recipe Recipe::parse(std::string_view toml, const std::string& place) {
  return of(read_recipe_source(toml, place));
}

Recipe Recipe::of(RecipeSource source) {
  auto data = std::make_shared<Data>();
  data->recipe = resolve_recipe(std::move(source));
  for (const RecipeDocument& document : data->recipe.source.documents)
    for (const KeyRow* row : rows_of(settings_keys()))
      if (const auto old = old_item(document, *row))
        add_once(data->warnings, fmt::format("{}: {}: now called {}{}", old->place, old->path,
                                             document.prefix, row->path));
  const std::vector<size_t> idle = try_layers(data->recipe, [&](const RecipeSettings& settings) {
    for (std::string& warning : warnings_of(settings)) add_once(data->warnings, std::move(warning));
  });
  for (const size_t i : idle)
    if (!data->recipe.overrides[i].is_optional)
      add_once(data->warnings,
               fmt::format("override {} of {} means no layer of a model of up to 128 blocks", i + 1,
                           data->recipe.overrides.size()));
  return Recipe(std::move(data));
}

const std::string& Recipe::name() const { return data_->recipe.source.name; }
const std::string& Recipe::place() const { return data_->recipe.source.place; }
const std::vector<std::string>& Recipe::warnings() const { return data_->warnings; }
const std::vector<double>& Recipe::phase_starts() const { return data_->recipe.phase_starts; }

std::vector<RecipeMatch> Recipe::matches(const ModelLayers& model) const {
  return matches_of(data_->recipe, model);
}

std::string Recipe::resolved_toml() const {
  return "name = " + toml_quote(name()) + "\n" + body_of(data_->recipe);
}

std::vector<std::pair<std::string, std::string>> Recipe::values() const {
  const ResolvedRecipe& recipe = data_->recipe;
  std::vector<std::pair<std::string, std::string>> values;
  const auto add_lines = [&](const std::string& prefix, const std::string& lines) {
    for (size_t begin = 0, end = 0; begin < lines.size(); begin = end + 1) {
      end = lines.find('\n', begin);
      const size_t is = lines.find(" = ", begin);
      if (is < end)  // no empty line or header
        values.emplace_back(prefix + lines.substr(begin, is - begin),
                            lines.substr(is + 3, end - is - 3));
    }
  };
  add_lines("", print_keys(recipe.phases.front(), settings_keys()));
  for (size_t i = 0; i < recipe.overrides.size(); ++i)
    add_lines(fmt::format("override[{}].", i + 1), text_of_override(recipe.overrides[i]));
  for (size_t i = 1; i < recipe.phases.size(); ++i)
    add_lines(fmt::format("phase[{}].", i),
              phase_header(recipe.phase_starts[i]) +
                  patch_lines(*recipe.phase_patches[i - 1], {"start"}));
  return values;
}

std::string Recipe::hash() const { return hash_of(identity_of(without_optional(data_->recipe))); }
std::string Recipe::hash_of_all_keys() const {
  const ResolvedRecipe recipe = without_optional(data_->recipe);
  Keys<RecipeSettings> older = settings_keys(), newer;
  std::erase_if(older, [&](const auto& key) {
    const bool is_newer = key.path == "gradient.auto_scale_start" ||
                          key.path == "gradient.auto_scale_growth_after" ||
                          key.path == "weights.search" || key.path.starts_with("attention.") ||
                          key.path.starts_with("saved.") || key.path.ends_with(".sum") ||
                          key.path.ends_with(".center");
    if (is_newer) newer.push_back(key);
    return is_newer || key.path == "communication.sums" || key.path == "weight_noise.optional";
  });
  // No older checkpoint is of a recipe that says one of those.
  if (print_keys(recipe.phases.front(), newer) != print_keys(RecipeSettings(), newer)) return "";
  for (auto& key : older) key.path = key.first_path();
  return hash_of(body_of(recipe, older));
}

int Recipe::phase_at(double progress) const {
  const std::vector<double>& starts = phase_starts();
  const auto after = std::upper_bound(starts.begin(), starts.end(), progress);
  return std::max(int(after - starts.begin()) - 1, 0);
}

int64_t steps_before(double start, int64_t steps) {
  const auto progress = [&](int64_t step) { return double(step) / double(steps); };
  // The product rounds: 0.07 · 100 is above 7, and 7 / 100 is 0.07.
  auto step = static_cast<int64_t>(start * double(steps));
  while (step > 0 && progress(step - 1) >= start) --step;
  while (step < steps && progress(step) < start) ++step;
  return step;
}

const RecipeSettings& Recipe::settings(int phase) const {
  NG_CHECK(phase >= 0 && size_t(phase) < data_->recipe.phases.size(), phase);
  return data_->recipe.phases[size_t(phase)];
}

Compute Recipe::compute(int phase) const { return settings(phase).compute; }

LayerRecipe Recipe::layer(const LayerPlace& place, int phase) const {
  RecipeSettings settings = data_->recipe.settings_of(place, phase);
  if (!has_noise(settings, place)) settings.weight_noise = WeightNoise{};
  if (data_->is_frozen) freeze(settings, data_->frozen_as, place.block >= 0);
  return settings;  // sliced: what holds for the whole run stays here
}

Recipe Recipe::frozen(const std::optional<Operand>& storage) const {
  auto data = std::make_shared<Data>(*data_);
  data->is_frozen = true;
  data->frozen_as = storage;
  for (RecipeSettings& phase : data->recipe.phases) phase.gradient = RecipeSettings().gradient;
  return Recipe(std::move(data));
}

bool Recipe::is_frozen() const { return data_->is_frozen; }
bool Recipe::is_stored_as_trained() const { return data_->is_frozen && !data_->frozen_as; }

LinearRecipe Recipe::linear(const LayerPlace& place, int phase) const {
  return layer(place, phase).linear;
}

std::vector<LinearRecipe> Recipe::linears(const LayerPlace& place) const {
  std::vector<LinearRecipe> phases;
  for (size_t phase = 0; phase < phase_starts().size(); ++phase)
    phases.push_back(linear(place, static_cast<int>(phase)));
  return phases;
}

}  // namespace ng
