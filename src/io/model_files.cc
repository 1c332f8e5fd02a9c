#include "io/model_files.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/gguf/model.h"
#include "io/hf/peft_folder.h"

namespace ng::io {
namespace {

/// The whole model that the adapters of a PEFT folder stand beside.
std::string base_of(const ModelName& model) {
  const bool is_given = !model.base.empty();
  const std::string base = is_given ? model.base : peft_base(model.path);
  const auto refuse = [&](const std::string& problem) {
    throw Error({.place = is_given ? "--base" : join_path(model.path, kPeftConfig),
                 .key = is_given ? "" : "base_model_name_or_path",
                 .problem = problem,
                 .remedy = is_given ? "the folder of a whole model, or its .gguf file"
                                    : "--base FOLDER, a whole model: no hub is asked"});
  };
  if (base.empty()) refuse("missing");
  const std::string shown = json_text(Json(base));
  if (is_peft_folder(base)) refuse(fmt::format("{} holds adapters itself", shown));
  if (!is_folder(base) && !is_gguf(base)) refuse(fmt::format("no folder {}", shown));
  return base;
}

}  // namespace

void require_model(const ModelName& model) {
  const bool is_model = is_file(join_path(model.path, "config.json")) || is_peft_folder(model.path);
  if (!is_model && !is_gguf(model.path))
    throw Error({.place = model.path,
                 .key = "",
                 .problem = is_folder(model.path) ? "holds no model and no run"
                            : is_file(model.path) ? "is no folder and no GGUF file"
                                                  : "no such folder",
                 .remedy = fmt::format("a model folder: config.json, model.safetensors, "
                                       "tokenizer.json, or adapters with an {}; a run's folder: "
                                       "run.toml, model/; or a .gguf file",
                                       kPeftConfig)});
  if (!model.base.empty() && !is_peft_folder(model.path))
    throw Error({.place = "--base",
                 .key = "",
                 .problem = fmt::format("{} holds no adapters", json_text(Json(model.path))),
                 .remedy = fmt::format("beside a folder with an {}", kPeftConfig)});
}

std::string sizes_place(const ModelName& model) {
  return is_peft_folder(model.path) ? base_of(model) : model.path;
}

std::string tokenizer_place(const ModelName& model) {
  const bool is_own = is_file(join_path(model.path, "tokenizer.json"));
  return is_own ? model.path : sizes_place(model);
}

ModelConfig read_model_config(const ModelName& model) {
  require_model(model);
  if (is_gguf(model.path)) return read_gguf_config(Gguf(model.path));
  if (!is_peft_folder(model.path)) return read_hf_config(model.path);
  return peft_model_config(model.path, read_model_config(base_of(model)));
}

ParameterReader open_model_weights(const ModelName& model, const ModelConfig& config) {
  if (is_gguf(model.path)) return open_gguf_weights(model.path, config);
  if (!is_peft_folder(model.path)) return open_hf_weights(model.path, config);
  const std::string base = base_of(model);
  const ModelConfig of_base = read_model_config(base);
  return open_peft_weights(model.path, of_base, open_model_weights(base, of_base));
}

std::vector<std::string> left_out_of_model(const ModelName& model, const ModelConfig& config) {
  const std::string place = sizes_place(model);
  if (is_gguf(place)) return {};
  const bool has_adapters = place != model.path;
  return check_hf_weights(place, has_adapters ? read_model_config(place) : config);
}

}  // namespace ng::io
