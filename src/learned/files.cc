#include "learned/files.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "io/hf/folder.h"
#include "learned/learned.h"
#include "recipe/matches.h"
#include "train/run_files.h"

namespace ng {
namespace {

constexpr std::string_view kMark = "# narrowgauge learned: ";  // a recipe.toml begins with
constexpr std::string_view kJsonFile = "learned.json";

Json json_of(const LearnedRow& row) {
  Json blocks = Json::object();
  for (size_t i = 0; i < row.blocks_in.size(); ++i)
    if (row.blocks_in[i] > 0) blocks[std::string(learned_formats()[i].name)] = row.blocks_in[i];
  const auto parameters = static_cast<double>(row.rows * row.cols);
  return {{"layer", row.layer},
          {"shape", {row.rows, row.cols}},
          {"blocks", row.blocks},
          {"b_t", {{"mean", row.mean_bits}, {"max", row.most_bits}}},
          {"format", row.format},
          {"narrowed", row.narrowed},
          {"bytes_per_parameter", row.bytes_by_layer / parameters},
          {"by_block",
           {{"formats", blocks}, {"bytes_per_parameter", row.bytes_by_block / parameters}}}};
}

}  // namespace

double LearnedReport::bytes_per_parameter(const LearnedLoss& loss) const {
  return loss.bytes / static_cast<double>(noised);
}

double LearnedReport::bytes_per_parameter_of_model(const LearnedLoss& loss) const {
  const auto others = static_cast<double>(parameters - noised);
  return (loss.bytes + 4 * others) / static_cast<double>(parameters);
}

Json learned_json(const LearnedReport& report) {
  Json layers = Json::array(), losses = Json::array();
  for (const LearnedRow& row : report.layers) layers.push_back(json_of(row));
  const double uncast = report.losses.front().evaluation.loss;
  for (const LearnedLoss& loss : report.losses)
    losses.push_back({{"run", loss.run},
                      {"cast", loss.cast},
                      {"numbers", loss.numbers},
                      {"bytes_per_parameter", report.bytes_per_parameter(loss)},
                      {"bytes_per_parameter_of_model", report.bytes_per_parameter_of_model(loss)},
                      {"loss", loss.evaluation.loss},
                      {"to_uncast", loss.evaluation.loss - uncast},
                      {"bits_per_byte", loss.evaluation.bits_per_byte}});
  return {{"run", report.settings.run},
          {"step", report.step},
          {"recipe", report.recipe},
          {"phase", report.phase.index},
          {"matches", matches_json(report.matches)},
          {"data", report.data},
          {"tokens", report.losses.front().evaluation.tokens},
          {"model_cast", report.settings.by_block ? "by block" : "by layer"},
          {"least_bits", report.settings.least_bits},
          {"parameters", report.parameters},
          {"parameters_with_noise", report.noised},
          {"layers", layers},
          {"losses", losses}};
}

std::string learned_recipe_path(const std::string& out) {
  return join_path(out, kLearnedRecipeFile);
}

void require_own_learned(const std::string& out) {
  const auto refuse = [&](const std::string& problem) {
    throw Error({.place = out,
                 .key = "",
                 .problem = problem,
                 .remedy = "another --out, or that moved out of the way"});
  };
  if (is_file(out)) refuse("is a file, not a folder");
  if (!is_folder(out)) return;
  const std::vector<std::string> names = list_folder(out);
  for (const std::string& name : names)
    if (name != kLearnedRecipeFile && name != kJsonFile && name != kModelFolder)
      refuse(fmt::format("holds \"{}\", which is no part of learned formats", name));
  if (names.empty()) return;
  const std::string recipe = learned_recipe_path(out);
  if (!is_file(recipe) || !begins_with(recipe, kMark))
    refuse(fmt::format("has no {} of learned formats, but other files", kLearnedRecipeFile));
  io::require_replaceable(join_path(out, kModelFolder));
}

std::string learned_recipe_comment(const std::string& run, int64_t step, int least_bits) {
  const std::string least =
      least_bits > 0 ? fmt::format(", of {} bits or more", least_bits) : std::string();
  return fmt::format(
      "{}what weights of {} stand at step {}, by their largest b_t{}.\n"
      "# Source: \"Gaussian Weight Sampling for Scalable, Efficient and Stable Pseudo-Quantization "
      "Training\" (2025), Table C.1.\n"
      "# Evaluation reads what is stored; masters are what training updates.\n",
      kMark, on_one_line(run), step, least);
}

void write_learned(const LearnedResult& result) {
  const std::string& out = result.report.settings.out;
  require_own_learned(out);
  FolderWriter folder(out);
  const auto read = [&](size_t index, int64_t row, std::span<float> values) {
    const std::vector<float>& from = result.weights.at(index);
    std::copy_n(from.begin() + row * std::ssize(values), values.size(), values.begin());
  };
  io::write_hf_folder(
      join_path(folder.path(), kModelFolder), result.model, read,
      {.dtype = "F32", .tokenizer = result.tokenizer.get(), .settings = result.settings.get()});
  write_file_atomically(join_path(folder.path(), kLearnedRecipeFile), result.recipe);
  write_file_atomically(join_path(folder.path(), kJsonFile),
                        json_text(learned_json(result.report), 2) + "\n");
  folder.publish(Replace::always);
}

}  // namespace ng
