#include "io/model_files.h"

#include "base/error.h"
#include "base/files.h"
#include "io/gguf/model.h"
#include "io/hf/peft_folder.h"

namespace ng::io {

void require_model(const std::string& model) {
  if (is_folder(model) || is_gguf(model)) return;
  throw Error({.place = model,
               .key = "",
               .problem = is_file(model) ? "is no folder and no GGUF file" : "no such folder",
               .remedy = "a model folder: config.json, model.safetensors, tokenizer.json; or a "
                         ".gguf file"});
}

std::string sizes_place(const std::string& model) {
  return is_peft_folder(model) ? peft_base(model) : model;
}

std::string tokenizer_place(const std::string& model) {
  return is_file(join_path(model, "tokenizer.json")) ? model : sizes_place(model);
}

ModelConfig read_model_config(const std::string& model) {
  require_model(model);
  return is_gguf(model) ? read_gguf_config(Gguf(model)) : read_hf_config(sizes_place(model));
}

ParameterReader open_model_weights(const std::string& model, const ModelConfig& config) {
  if (is_gguf(model)) return open_gguf_weights(model, config);
  return is_peft_folder(model) ? open_peft_weights(model, config) : open_hf_weights(model, config);
}

}  // namespace ng::io
