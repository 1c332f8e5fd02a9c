#include "io/model_files.h"

#include "io/gguf_model.h"

namespace ng::io {

ModelConfig read_model_config(const std::string& model) {
  return is_gguf(model) ? read_gguf_config(Gguf(model)) : read_hf_config(model);
}

ParameterReader open_model_weights(const std::string& model, const ModelConfig& config) {
  return is_gguf(model) ? open_gguf_weights(model, config) : open_hf_weights(model, config);
}

}  // namespace ng::io
