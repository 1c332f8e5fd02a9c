#include "tools/export_model.h"

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/output_file.h"
#include "io/gguf/export.h"
#include "io/gguf/gguf.h"
#include "io/hf/export.h"
#include "io/model_of_run.h"
#include "train/run_files.h"

namespace ng {
namespace {

/// The folder that a model is in, without dots and links: RUN of RUN/model.
std::filesystem::path folder_around(const std::string& model) {
  std::error_code unknown;
  const auto whole = std::filesystem::weakly_canonical(model, unknown);
  return (unknown ? std::filesystem::path(model) : whole).parent_path();
}

/// A run's name, of RUN/model; else the model's own.
std::string name_of(const std::string& model) {
  const std::filesystem::path around = folder_around(model);
  if (is_file(join_path(around.string(), kRunFile))) return around.filename().string();
  std::error_code unknown;
  const auto whole = std::filesystem::weakly_canonical(model, unknown);
  return is_folder(model) ? whole.filename().string() : whole.stem().string();
}

/// The recipe asked for, else that of the run whose model this is.
TrainedNumbers trained_numbers(const ExportRequest& request) {
  if (!request.recipe.empty()) {
    Recipe recipe = Recipe::load(request.recipe);
    std::string shown = "recipe " + recipe.name();
    return {.recipe = std::move(recipe), .shown = std::move(shown)};
  }
  const std::string run_file = join_path(folder_around(request.model).string(), kRunFile);
  std::optional<Recipe> recipe;
  if (is_file(run_file)) recipe = recipe_of_run_file(run_file);
  if (!recipe)
    throw Error({.place = request.model,
                 .key = "--weights trained",
                 .problem = "lies in no run folder whose recipe is known",
                 .remedy = "--recipe R"});
  return {.recipe = *recipe, .shown = "recipe " + recipe->name()};
}

}  // namespace

std::vector<std::string> export_model(ExportRequest request) {
  request.model = io::model_path(request.model);
  refuse_input(request.out, request.model);
  refuse_files_of(request.model, request.out);
  if (io::is_gguf(request.model)) {
    const io::Gguf file(request.model);
    for (const std::string& part : file.paths()) refuse_input(request.out, part);
  }
  if (request.to == "gguf") require_target(request.out, "a GGUF file", io::is_gguf);
  std::optional<TrainedNumbers> trained;
  if (request.trained) trained = trained_numbers(request);
  if (request.to == "hf")
    return export_hf({.model = {request.model, request.base},
                      .out = request.out,
                      .type = request.type,
                      .block = request.block,
                      .share_scales = request.share_scales,
                      .trained = trained,
                      .threads = request.threads});
  return export_gguf({.model = {request.model, request.base},
                      .out = request.out,
                      .name = name_of(request.model),
                      .type = request.type,
                      .keep = request.keep,
                      .trained = trained,
                      .threads = request.threads});
}

}  // namespace ng
