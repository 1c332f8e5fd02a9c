// The rows of a comparison as CSV and JSON.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "compare/compare_table.h"
#include "train/run_keys.h"

namespace ng {
namespace {

Json list_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(value);
  return list;
}

void put_loss(Json& json, const std::string& suffix, const ComparedLoss& loss) {
  json["val_loss" + suffix] = loss.mean;
  json["val_loss" + suffix + "_sd"] = loss.sd;
  json["val_losses" + suffix] = list_of(loss.by_seed);
  json["difference" + suffix] = loss.difference.mean;
  json["difference" + suffix + "_sd"] = loss.difference.sd;
  json["difference" + suffix + "_half_95"] = loss.difference.half;
  json["p" + suffix] = loss.difference.p;
  json["p" + suffix + "_holm"] = loss.p_holm;
  json["verdict" + suffix] = loss.verdict;
}

Json settings_json(const GridSettings& settings) {
  Json json = Json::object();
  for (const auto& [key, value] : settings) json[key] = value;
  return json;
}

constexpr std::string_view kTwins[] = {"no", "draws", "weights"};
std::string twin_word(TwinOf twin) { return std::string(kTwins[static_cast<size_t>(twin)]); }

Json row_json(const CompareRow& row) {
  Json json = {{"recipe", row.of.label},
               {"twin", twin_word(row.of.twin)},
               {"settings", settings_json(row.of.settings)},
               {"against", row.against},
               {"seeds", row.seeds.size()},
               {"seed_list", row.seeds},
               {"bits_per_byte", row.bits_per_byte},
               {"tokens_per_second", row.tokens_per_second},
               {"skipped", row.skipped},
               {"diverged", row.diverged},
               {"bytes_per_parameter", bytes_json(row.bytes_per_parameter)}};
  put_loss(json, "", row.own);
  put_loss(json, "_bf16", row.bf16);
  return json;
}

std::string csv_text(const Json& value) {
  if (value.is_string()) return csv_field(value.get<std::string>());
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (!value.is_array()) return json_text(value);
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(csv_text(part));
  return fmt::format("{}", fmt::join(parts, " "));
}

Json scatter_json(const CompareTable& table, const CompareBlock& block,
                  const PairedScatter& scatter) {
  Json unlike;
  if (scatter.unlike >= 0)
    unlike = table.rows[block.rows[static_cast<size_t>(scatter.unlike)]].of.label;
  return {{"pooled", scatter.is_pooled},
          {"difference_sd", scatter.sd},
          {"degrees", scatter.degrees},
          {"scatters_unlike_others", unlike}};
}

Json statistics_json(const CompareTable& table) {
  Json json = {{"equal_within", table.equal},
               {"holm_tests", table.tests},
               {"intervals", Json::array()},
               {"noise_floors", Json::array()}};
  for (const CompareBlock& block : table.blocks)
    json["intervals"].push_back(
        {{"settings", settings_json(table.rows[block.rows.front()].of.settings)},
         {"against", table.rows[block.rows.front()].of.label},
         {"own", scatter_json(table, block, block.own)},
         {"bf16", scatter_json(table, block, block.bf16)}});
  for (const NoiseFloor& floor : table.floors)
    json["noise_floors"].push_back({{"recipe", table.rows[floor.row].of.label},
                                    {"settings", settings_json(table.rows[floor.row].of.settings)},
                                    {"twin", twin_word(table.rows[floor.row].of.twin)},
                                    {"own", floor.own},
                                    {"bf16", floor.bf16}});
  return json;
}

Json run_json(const CompareRun& run, const CompareResult& result) {
  Json json = result_json(result);
  json["folder"] = run.folder;
  json["twin"] = twin_word(run.of.twin);
  json["settings"] = settings_json(run.of.settings);
  return json;
}

}  // namespace

std::string compare_csv(const CompareTable& table) {
  std::vector<std::string> columns = {
      "recipe",     "seeds",         "val_loss",          "val_loss_sd", "bits_per_byte",
      "difference", "difference_sd", "tokens_per_second", "skipped",     "diverged"};
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    columns.push_back(
        fmt::format("{}_bytes_per_parameter", name_of(static_cast<MemoryKind>(kind))));
  for (const char* more :
       {"bytes_per_parameter", "twin", "against", "difference_half_95", "p", "p_holm", "verdict",
        "val_loss_bf16", "val_loss_bf16_sd", "difference_bf16", "difference_bf16_sd",
        "difference_bf16_half_95", "p_bf16", "p_bf16_holm", "verdict_bf16", "seed_list",
        "val_losses", "val_losses_bf16", "recipe_keys"})
    columns.emplace_back(more);
  if (!table.rows.empty())
    for (const auto& [key, value] : table.rows.front().of.settings) columns.push_back(key);
  std::string text = fmt::format("{}\n", fmt::join(columns, ","));
  for (const CompareRow& row : table.rows) {
    Json json = row_json(row);
    for (const auto& [kind, bytes] : json["bytes_per_parameter"].items())
      json[kind + "_bytes_per_parameter"] = bytes;
    json["bytes_per_parameter"] = row.bytes_per_parameter.total;
    json["recipe_keys"] = fmt::format("{}", fmt::join(table.recipe_keys, "; "));
    for (const auto& [key, value] : row.of.settings) json[key] = value;
    std::vector<std::string> fields;
    for (const std::string& column : columns) fields.push_back(csv_text(json[column]));
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

Json compare_json(const CompareTable& table, const std::vector<CompareRun>& runs,
                  const std::vector<CompareResult>& results) {
  Json json = {{"recipes", Json::array()},
               {"runs", Json::array()},
               {"settings", Json::object()},
               {"statistics", statistics_json(table)},
               {"unfinished", Json::array()}};
  for (const CompareRow& row : table.rows) json["recipes"].push_back(row_json(row));
  for (const CompareRun& run : runs) {
    const auto found = std::ranges::find_if(results, [&](const CompareResult& result) {
      return result.of == run.of && result.seed == run.config.seed;
    });
    if (found == results.end())
      json["unfinished"].push_back(run.folder);
    else
      json["runs"].push_back(run_json(run, *found));
  }
  for (const auto& key : run_keys())
    if (key.path != "recipe" && key.path != "seed")
      json["settings"][key.path] = key.print(runs.front().config);
  json["settings"]["recipe_keys"] = table.recipe_keys;
  return json;
}

}  // namespace ng
