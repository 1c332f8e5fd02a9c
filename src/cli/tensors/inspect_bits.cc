#include "cli/tensors/inspect.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/tensors/tensor_text.h"
#include "train/bit_widths.h"
#include "train/checkpoint.h"

namespace ng::cli {
namespace {

LearnedOfFile all_of(const io::Safetensors& file) {
  try {
    const std::string folder = std::filesystem::absolute(file.path()).parent_path().string();
    const std::optional<Recipe> recipe = recipe_of_checkpoint(folder);
    return {.recipe = recipe ? recipe->name() : "",
            .layers = learned_bits(file, recipe ? &*recipe : nullptr)};
  } catch (const Error&) {  // what lies beside the file is damaged, or of something else
    return {.recipe = "", .layers = learned_bits(file, nullptr)};
  }
}

const std::vector<float>& values_of(const LearnedBits& layer) {
  return layer.bits ? layer.bits->b_t : layer.b_i;
}

std::string table_text(const LearnedOfFile& learned) {
  const bool is_known = !learned.recipe.empty();
  std::vector<std::string> heading = {"layer", "blocks", is_known ? "b_t mean" : "b_i mean",
                                      "sd",    "min",    "max"};
  if (is_known) heading.insert(heading.end(), {"to 5", "to 9", "to 12"});
  const bool is_clipped = std::ranges::any_of(
      learned.layers, [](const LearnedBits& layer) { return layer.clip.has_value(); });
  if (is_clipped) heading.emplace_back("clip");
  Table table(heading);
  for (const LearnedBits& layer : learned.layers) {
    const BitWidths figures = figures_of(values_of(layer));
    std::vector<std::string> cells = {on_one_line(layer.layer),
                                      fmt::format("{} x {}", layer.rows, layer.cols)};
    for (const double value : {figures.mean, figures.sd, figures.least, figures.most})
      cells.push_back(fmt::format("{:.4f}", value));
    if (is_known)
      for (const double share : {figures.up_to_5, figures.up_to_9, figures.up_to_12})
        cells.push_back(percent_text(share));
    if (is_clipped) cells.push_back(layer.clip ? fmt::format("{:.4f}", *layer.clip) : "");
    table.row(cells);
  }
  return table.text();
}

/// Rows of blocks.
Json matrix_json(const LearnedBits& layer) {
  const std::vector<float>& values = values_of(layer);
  Json rows = Json::array();
  for (auto row = values.begin(); row != values.end(); row += layer.cols)
    rows.push_back(Json(std::vector<float>(row, row + layer.cols)));
  return rows;
}

Json layer_json(const LearnedBits& layer) {
  Json json = json_of(figures_of(values_of(layer)));
  if (!layer.bits)  // shares are of bits
    for (const char* share : {"up_to_5", "up_to_9", "up_to_12"}) json.erase(share);
  json["layer"] = layer.layer;
  json["blocks"] = {layer.rows, layer.cols};
  if (layer.clip) json["clip"] = *layer.clip;
  json[layer.bits ? "b_t" : "b_i"] = matrix_json(layer);
  return json;
}

}  // namespace

LearnedOfFile learned_of(const io::Safetensors& file, const std::string& names) {
  LearnedOfFile learned = all_of(file);
  std::erase_if(learned.layers,
                [&](const LearnedBits& layer) { return !glob_matches(names, layer.tensor); });
  return learned;
}

std::string learned_text(const LearnedOfFile& learned) {
  if (learned.layers.empty()) return "";
  if (learned.recipe.empty())
    return "What weight noise learned, as it is stored: b_t follows from b_i by the recipe, which "
           "is not\nknown without the run.toml of the run.\n" +
           table_text(learned) + '\n';
  const WeightShares shares = shares_of_weights(learned.layers);
  return fmt::format(
      "Bit-widths b_t that weight noise learned by {}, with the shares of blocks that have so few\n"
      "{}  Of {} weights {} have 5 bits or fewer, {} 9 or fewer, {} 12 or fewer.\n\n",
      on_one_line(learned.recipe), table_text(learned), count_text(shares.weights),
      percent_text(shares.up_to_5), percent_text(shares.up_to_9), percent_text(shares.up_to_12));
}

Json learned_json(const LearnedOfFile& learned) {
  Json layers = Json::array();
  for (const LearnedBits& layer : learned.layers) layers.push_back(layer_json(layer));
  if (learned.recipe.empty()) return {{"recipe", nullptr}, {"layers", layers}};
  const WeightShares shares = shares_of_weights(learned.layers);
  return {{"recipe", learned.recipe},  {"layers", layers},          {"weights", shares.weights},
          {"up_to_5", shares.up_to_5}, {"up_to_9", shares.up_to_9}, {"up_to_12", shares.up_to_12}};
}

}  // namespace ng::cli
