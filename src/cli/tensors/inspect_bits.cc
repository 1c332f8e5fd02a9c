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

/// All but the blocks themselves.
Json figures_json(const LearnedBits& layer) {
  Json json = json_of(figures_of(values_of(layer)));
  if (!layer.bits)  // shares are of bits
    for (const char* share : {"up_to_5", "up_to_9", "up_to_12"}) json.erase(share);
  json["layer"] = layer.layer;
  json["blocks"] = {layer.rows, layer.cols};
  if (layer.clip) json["clip"] = *layer.clip;
  return json;
}

std::string layer_cell(const Json& layer) { return on_one_line(layer.get<std::string>()); }
std::string blocks_cell(const Json& blocks) {
  return fmt::format("{} x {}", blocks[0].get<int64_t>(), blocks[1].get<int64_t>());
}

std::string table_text(const LearnedOfFile& learned) {
  const bool is_known = !learned.recipe.empty();
  std::vector<Column> columns = {{.heading = "layer", .key = "layer", .text = layer_cell},
                                 {.heading = "blocks", .key = "blocks", .text = blocks_cell},
                                 {is_known ? "b_t mean" : "b_i mean", "mean", "{:.4f}"},
                                 {"sd", "sd", "{:.4f}"},
                                 {"min", "min", "{:.4f}"},
                                 {"max", "max", "{:.4f}"}};
  if (is_known)
    columns.insert(columns.end(), {{.heading = "to 5", .key = "up_to_5", .text = percent_cell},
                                   {.heading = "to 9", .key = "up_to_9", .text = percent_cell},
                                   {.heading = "to 12", .key = "up_to_12", .text = percent_cell}});
  if (std::ranges::any_of(learned.layers,
                          [](const LearnedBits& layer) { return layer.clip.has_value(); }))
    columns.push_back({"clip", "clip", "{:.4f}"});
  Json rows = Json::array();
  for (const LearnedBits& layer : learned.layers) rows.push_back(figures_json(layer));
  return table_of(rows, columns);
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
  Json json = figures_json(layer);
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
