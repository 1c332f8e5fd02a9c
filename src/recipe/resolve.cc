#include "recipe/resolve.h"

#include <algorithm>

#include "base/error.h"
#include "base/glob.h"
#include "recipe/gemm_rules.h"
#include "recipe/layer_names.h"
#include "recipe/noise_keys.h"
#include "recipe/operand_keys.h"
#include "recipe/settings_keys.h"
#include "recipe/stored_rules.h"

namespace ng {
namespace {

/// More than any study needs; bounds the work that a hostile file can ask for.
constexpr size_t kMaxPhases = 32;
constexpr size_t kMaxOverrides = 64;

const std::string kOverridePrefix = "override.";
const std::string kPhasePrefix = "phase.";
constexpr std::string_view kSliceExpected =
    "a slice of blocks such as \"-8:\", \":2\" or \"-15%:\"";
const std::string kBf16Beside = "linear = \"bf16\"";
const KeyRow kNameRow = {.path = "name",
                         .expected = "a string",
                         .doc = "what tables and files call the recipe",
                         .example = "\"mine\""};
const KeyRow kInheritRow = {.path = "inherit",
                            .expected = "a recipe's name or path",
                            .doc = "the recipe whose keys hold where this one says nothing",
                            .example = "\"nvfp4\""};
const KeyRow kOverrideRow = {
    .path = "override",
    .expected = "a list of tables",
    .doc = "linear, weight_noise and weights keys for some layers; later ones win",
    .type = "tables",
    .example = "[{blocks = \"-2:\", linear = \"bf16\"}]"};
const KeyRow kPhaseRow = {.path = "phase",
                          .expected = "a list of tables",
                          .doc = "compute and linear keys that hold from a point of training on",
                          .type = "tables",
                          .example = "[{start = 0.8, linear = \"bf16\"}]"};
const KeyRow kLayersRow = {.path = "layers",
                           .expected = "a list of layer patterns",
                           .doc = "layers that an override means; without it, all but the head",
                           .type = "strings",
                           .example = "[\"blocks.*.attn.*\"]",
                           .beside = kBf16Beside};
const KeyRow kBlocksRow = {.path = "blocks",
                           .expected = std::string(kSliceExpected),
                           .doc = "blocks that an override means",
                           .example = "\"-8:\"",
                           .beside = kBf16Beside};
const KeyRow kOptionalRow = {
    .path = "optional",
    .expected = "true or false",
    .doc = "whether an override may mean no layer of a model, which is an error else",
    .type = "boolean",
    .example = "true",
    .beside = kBf16Beside};
const KeyRow kStartRow = {.path = "start",
                          .expected = "a number above 0 and below 1",
                          .doc = "share of training before it",
                          .type = "number",
                          .equation = "the phase holds from step = start · train.steps on",
                          .example = "0.8",
                          .beside = kBf16Beside};

/// Of a recipe; of a table of `override`; of one of `phase`: each beside settings_keys().
const std::vector<const KeyRow*> kRecipeRows = {&kNameRow, &kInheritRow, &kOverrideRow, &kPhaseRow};
const std::vector<const KeyRow*> kOverrideRows = {&kLayersRow, &kBlocksRow, &kOptionalRow};
const std::vector<const KeyRow*> kPhaseRows = {&kStartRow};

std::vector<const KeyRow*> rows_with(std::vector<const KeyRow*> all, bool override_keys_only) {
  for (const KeyRow* row : rows_of(settings_keys()))
    if (!override_keys_only || is_override_key(row->path)) all.push_back(row);
  return all;
}

/// A list of tables: [[key]] or key = [{...}, ...].
std::vector<const toml::table*> read_tables(const TomlItem& item, size_t most) {
  const std::string expected = fmt::format("a list of at most {} tables", most);
  const toml::array* array = item.value->as_array();
  if (array == nullptr || array->size() > most) item.refuse_value(expected);
  std::vector<const toml::table*> tables;
  for (const toml::node& element : *array) {
    if (!element.is_table()) item.refuse_value(expected);
    tables.push_back(element.as_table());
  }
  return tables;
}

/// Reads keys that hold for all layers: each must have an effect.
void read_settings(RecipeSettings& settings, const toml::table& patch, const std::string& prefix) {
  read_keys(settings, patch, settings_keys(), prefix);
  check_operands(settings, patch, prefix);
  for (const Error& error : unused_keys(settings, patch, prefix)) throw Error(error);
}

void refuse_lasting_keys(const toml::table& patch, const std::string& prefix) {
  for (const KeyRow* row : rows_of(settings_keys()))
    if (const auto item = find_key(patch, *row, prefix); item && !is_phase_key(row->path))
      item->refuse("cannot change in the middle of a run",
                   fmt::format("{} outside of [[phase]], which takes compute and linear keys only",
                               row->path));
}

void read_phases(ResolvedRecipe& recipe) {
  const auto item = last_item(recipe.source.documents, kPhaseRow.path);
  if (!item) return;
  static const std::vector<const KeyRow*> rows = rows_with(kPhaseRows, false);
  const std::string prefix = item->path + ".";
  for (const toml::table* patch : read_tables(*item, kMaxPhases)) {
    check_known_keys(*patch, rows, prefix);
    refuse_lasting_keys(*patch, prefix);
    const auto start = find_item(*patch, kStartRow.path, prefix);
    if (!start)
      throw Error({place_of(patch->source()), prefix + kStartRow.path, "missing",
                   "the share of training after which the phase begins, e.g. 0.82"});
    const double share = read_number(*start, {0, 1, true, true});
    if (share <= recipe.phase_starts.back())
      start->refuse_value("phases in ascending order of start");
    RecipeSettings settings = recipe.phases.back();
    read_settings(settings, *patch, prefix);
    check_gemms(settings, start->place);
    recipe.phase_starts.push_back(share);
    recipe.phases.push_back(std::move(settings));
    recipe.phase_patches.push_back(patch);
  }
}

BlockSlice read_slice(const TomlItem& item) {
  std::optional<BlockSlice> slice;
  if (item.value->is_string()) slice = BlockSlice::parse(item.value->as_string()->get());
  if (!slice) item.refuse_value(std::string(kSliceExpected));
  return *slice;
}

RecipeOverride read_override(const toml::table& patch, const std::string& prefix) {
  static const std::vector<const KeyRow*> rows = rows_with(kOverrideRows, true);
  check_known_keys(patch, rows, prefix);
  RecipeOverride result;
  result.patch = &patch;
  result.prefix = prefix;
  result.place = place_of(patch.source());
  const auto layers = find_item(patch, kLayersRow.path, prefix);
  const auto blocks = find_item(patch, kBlocksRow.path, prefix);
  const auto optional = find_item(patch, kOptionalRow.path, prefix);
  if (layers) result.layers = read_texts(*layers);
  if (blocks)
    result.blocks = read_slice(*blocks);
  else if (!layers)
    result.blocks = BlockSlice::parse(":");
  result.is_optional = optional && read_boolean(*optional);
  RecipeSettings any;
  result.read_into(any);  // each value is one, whatever it is to change
  return result;
}

void read_overrides(ResolvedRecipe& recipe) {
  const auto item = last_item(recipe.source.documents, kOverrideRow.path);
  if (!item) return;
  for (const toml::table* patch : read_tables(*item, kMaxOverrides))
    recipe.overrides.push_back(read_override(*patch, item->path + "."));
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob_matches(pattern, name); });
}

/// NIPQ learns 2 to 14 bits for a tensor. [recipes.md §1.3]
void check_proxy(const WeightNoise& noise, const std::string& place) {
  if (noise.kind != NoiseKind::nipq) return;
  if (noise.block.kind != Block::Kind::tensor)
    throw Error(
        {place, "weight_noise.block",
         fmt::format("{} beside nipq, which learns for whole tensors", print_block(noise.block)),
         "\"tensor\""});
  for (const auto& [key, bits] : {std::pair("b_init", noise.b_init), {"b_target", noise.b_target}})
    if (!(bits > 2 && bits < 14))
      throw Error({place, fmt::format("weight_noise.{}", key),
                   fmt::format("{} beside nipq", print_value(bits)), "above 2 and below 14"});
}

/// Rule (f): noise is added to weights that the GEMM then reads unscaled. [recipes.md §7]
void check_noise(const RecipeSettings& settings, const LayerPlace& layer,
                 const std::string& place) {
  if (!has_noise(settings, layer)) return;
  check_proxy(settings.weight_noise, place);
  const Operand& weight = settings.linear.fprop.right;
  const bool is_bf16 = weight == operand_of("bf16");
  const Operand* const narrow = narrow_noise_cast(settings);
  const bool is_taken =  // its codes and scales, as they are stored
      narrow != nullptr && settings.linear.fprop.hadamard == 0 &&
      weight == narrow->rounded_by(Rounding::nearest);
  if (!weight.is_fp32() && !is_bf16 && !is_taken)
    throw Error(
        {place, "weight_noise.kind",
         fmt::format("noise on {}, whose linear.fprop.weight is {}", layer.name, describe(weight)),
         narrow == nullptr
             ? "linear.fprop.weight = \"bf16\" or \"fp32\" for these layers"
             : "linear.fprop.weight = \"bf16\", \"fp32\" or what weight_noise.cast says"});
  if (is_bf16 && narrow != nullptr && !narrow->is_exact_in_bf16())
    throw Error({place, kNoiseCast,
                 fmt::format("{} of {}, which linear.fprop.weight, bf16, would round once more",
                             describe(*narrow), layer.name),
                 "at most 8 bits with powers of two as scales, or linear.fprop.weight = \"fp32\""});
}

/// The same error with the layer, the model's depth and the phase it arises in.
Error in_layer(const Error& error, const LayerPlace& layer, double start) {
  Error::Parts parts = error.parts();
  parts.problem += fmt::format(", in {}", layer.name);
  if (layer.block >= 0) parts.problem += fmt::format(" (depth {})", layer.depth);
  if (start > 0) parts.problem += fmt::format(" from {} of training on", print_value(start));
  return Error(std::move(parts));
}

/// Of the base, the GEMMs of the head read `compute` and nothing else.
void set_head(RecipeSettings& settings) {
  const Operand numbers = operand_of(settings.compute == Compute::bf16 ? "bf16" : "fp32");
  for (GemmRecipe* gemm :
       {&settings.linear.fprop, &settings.linear.dgrad, &settings.linear.wgrad}) {
    *gemm = GemmRecipe{};
    gemm->left = gemm->right = numbers;
  }
  settings.fprop_output = settings.dgrad_output = {};
}

void set_output(GemmRecipe& gemm, const OutputNumbers& said, Compute compute) {
  const bool follows = said.kind == OutputKind::compute || said.kind == OutputKind::narrow;
  gemm.output = follows ? compute : said.kind == OutputKind::bf16 ? Compute::bf16 : Compute::fp32;
  gemm.narrow_output = said.narrow;
}

void set_outputs(RecipeSettings& settings) {
  set_output(settings.linear.fprop, settings.fprop_output, settings.compute);
  set_output(settings.linear.dgrad, settings.dgrad_output, settings.compute);
  settings.linear.wgrad.output = Compute::fp32;
}

}  // namespace

std::vector<KeyRow> structure_rows() {
  std::vector<KeyRow> all;
  const auto add = [&](const std::string& prefix, const std::vector<const KeyRow*>& rows) {
    for (const KeyRow* row : rows) {
      all.push_back(*row);
      all.back().path = prefix + row->path;
    }
  };
  add("", kRecipeRows);
  add(kOverridePrefix, kOverrideRows);
  add(kPhasePrefix, kPhaseRows);
  return all;
}

bool has_noise(const RecipeSettings& settings, const LayerPlace& layer) {
  const WeightNoise& noise = settings.weight_noise;
  return noise.kind != NoiseKind::none && layer.block >= 0 && any_matches(noise.layers, layer.name);
}

bool RecipeOverride::matches(const LayerPlace& layer) const {
  const bool in_blocks =
      !blocks || (layer.block >= 0 && blocks->contains(layer.block, layer.depth));
  return in_blocks && any_matches(layers, layer.name);
}

void RecipeOverride::read_into(RecipeSettings& settings) const {
  read_keys(settings, *patch, settings_keys(), prefix);
}

std::vector<Error> RecipeOverride::unused_keys(const RecipeSettings& settings) const {
  return ng::unused_keys(settings, *patch, prefix);
}

RecipeSettings ResolvedRecipe::settings_of(const LayerPlace& layer, int phase,
                                           const AfterOverride& after) const {
  NG_CHECK(phase >= 0 && size_t(phase) < phases.size(), phase, phases.size());
  RecipeSettings settings = phases[size_t(phase)];
  if (layer.name == layers::kHead) set_head(settings);
  // Weights with scales are those of linear layers in the blocks. [recipes.md §7]
  if (layer.block < 0 && !settings.weights.storage.is_unscaled())
    settings.weights = LayerRecipe().weights;
  for (size_t i = 0; i < overrides.size(); ++i) {
    if (!overrides[i].matches(layer)) continue;
    try {
      overrides[i].read_into(settings);
      check_operands(settings, *overrides[i].patch, overrides[i].prefix);
      check_stored(settings, overrides[i].place);
      check_gemms(settings, overrides[i].place);
      if (layer.name == layers::kHead) check_head(settings, overrides[i].place);
    } catch (const Error& error) {
      throw in_layer(error, layer, phase_starts[size_t(phase)]);
    }
    if (after) after(i, settings);
  }
  check_noise(settings, layer, source.place);
  WeightNoise& noise = settings.weight_noise;  // by the table it is stored as GEMMs read it
  if (noise.casts_by_table && settings.linear.fprop.right.is_fp32())
    noise.cast = settings.linear.fprop.right;
  set_outputs(settings);
  return settings;
}

ResolvedRecipe resolve_recipe(RecipeSource source) {
  static const std::vector<const KeyRow*> rows = rows_with(kRecipeRows, false);
  ResolvedRecipe recipe;
  recipe.source = std::move(source);
  RecipeSettings base;
  for (const RecipeDocument& document : recipe.source.documents) {
    check_known_keys(*document.table, rows, document.prefix);
    read_settings(base, *document.table, document.prefix);
  }
  check_stored(base, recipe.source.place);
  check_gemms(base, recipe.source.place);
  recipe.phases.push_back(std::move(base));
  recipe.phase_starts.push_back(0);
  read_phases(recipe);
  read_overrides(recipe);
  return recipe;
}

}  // namespace ng
