#include "tools/export_model.h"

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/output_file.h"
#include "io/gguf/export.h"
#include "io/gguf/gguf.h"
#include "io/gguf/model.h"
#include "io/hf/export.h"
#include "io/model_of_run.h"
#include "train/run_files.h"

namespace ng {
namespace {

/// A run's name, of RUN/model; else the model's own.
std::string name_of(const std::string& model) {
  const std::filesystem::path run_file = run_file_beside(model);
  if (is_file(run_file.string())) return run_file.parent_path().filename().string();
  std::error_code unknown;
  const auto whole = std::filesystem::weakly_canonical(model, unknown);
  return is_folder(model) ? whole.filename().string() : whole.stem().string();
}

/// The recipe asked for, else that of the run whose model this is.
TrainedNumbers trained_numbers(const ExportRequest& request) {
  const std::string run_file = run_file_beside(request.model);
  std::optional<Recipe> recipe;
  if (!request.recipe.empty())
    recipe = Recipe::load(request.recipe);
  else if (is_file(run_file))
    recipe = recipe_of_run_file(run_file);
  if (!recipe)
    throw Error({.place = request.model,
                 .key = "--weights trained",
                 .problem = "lies in no run folder whose recipe is known",
                 .remedy = "--recipe R"});
  const MeasuredPhase phase = measured_phase(
      *recipe, {.word = request.phase, .steps = [&] { return steps_of_model(request.model); }});
  return {.recipe = *recipe, .shown = "recipe " + text_of(*recipe, phase), .phase = phase};
}

}  // namespace

ExportedModel export_model(ExportRequest request) {
  request.model = io::model_path(request.model);
  refuse_input(request.out, request.model);
  refuse_files_of(request.model, request.out);
  if (io::is_gguf(request.model)) {
    const io::Gguf file(request.model);
    for (const std::string& part : file.paths()) refuse_input(request.out, part);
  }
  if (request.to == "gguf")
    require_target(request.out, "a GGUF file of this program", io::is_own_gguf);
  std::optional<TrainedNumbers> trained;
  if (request.trained) trained = trained_numbers(request);
  if (request.to == "hf")
    return {export_hf({.model = {request.model, request.base},
                       .out = request.out,
                       .type = request.type,
                       .block = request.block,
                       .share_scales = request.share_scales,
                       .trained = trained,
                       .threads = request.threads}),
            trained};
  return {export_gguf({.model = {request.model, request.base},
                       .out = request.out,
                       .name = name_of(request.model),
                       .type = request.type,
                       .keep = request.keep,
                       .trained = trained,
                       .threads = request.threads}),
          trained};
}

}  // namespace ng
