#include "io/hf/names.h"

#include "base/error.h"
#include "base/glob.h"

namespace ng::io {

std::vector<HfTensor> hf_tensors(const ModelConfig& config) {
  const std::vector<ParameterSpec> own = parameter_table(config);
  ModelConfig stored = config;
  if (config.architecture == Architecture::gpt2)
    stored.attention_bias = stored.mlp_bias = stored.norm_bias = true;
  std::vector<HfTensor> tensors;
  size_t next = 0;
  for (ParameterSpec& spec : parameter_table(stored)) {
    const bool is_own = next < own.size() && own[next].name == spec.name;
    const int64_t parameter = is_own ? static_cast<int64_t>(next++) : -1;
    tensors.push_back({.spec = std::move(spec), .parameter = parameter});
  }
  NG_CHECK(next == own.size(), next, own.size());
  return tensors;
}

std::vector<int64_t> hf_shape(const ParameterSpec& spec) {
  if (spec.is_vector) return {spec.cols};
  if (spec.hf_transposed) return {spec.cols, spec.rows};
  return {spec.rows, spec.cols};
}

std::string_view without_prefix(std::string_view name, Architecture architecture) {
  const std::string_view prefix = architecture == Architecture::gpt2 ? "transformer." : "model.";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

bool is_known_buffer(std::string_view name, Architecture architecture) {
  const std::string_view own = without_prefix(name, architecture);
  if (architecture == Architecture::gpt2)
    return glob_matches("h.*.attn.bias", own) || glob_matches("h.*.attn.masked_bias", own);
  return glob_matches("layers.*.self_attn.rotary_emb.inv_freq", own) ||
         own == "rotary_emb.inv_freq";
}

}  // namespace ng::io
