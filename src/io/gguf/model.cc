#include "io/gguf/model.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "io/gguf/rope.h"
#include "recipe/layer_names.h"

namespace ng::io {
namespace {

struct PartName {
  std::string_view own, gguf;
};
constexpr std::array<PartName, 16> kParts = {{{layers::kEmbed, "token_embd"},
                                              {layers::kPos, "position_embd"},
                                              {layers::kNorm, "output_norm"},
                                              {layers::kHead, "output"},
                                              {layers::kNorm1, "attn_norm"},
                                              {layers::kQkv, "attn_qkv"},
                                              {layers::kQ, "attn_q"},
                                              {layers::kK, "attn_k"},
                                              {layers::kV, "attn_v"},
                                              {layers::kQNorm, "attn_q_norm"},
                                              {layers::kKNorm, "attn_k_norm"},
                                              {layers::kAttnOut, "attn_output"},
                                              {layers::kNorm2, "ffn_norm"},
                                              {layers::kGate, "ffn_gate"},
                                              {layers::kUp, "ffn_up"},
                                              {layers::kDown, "ffn_down"}}};

/// Of "blocks.3.mlp.up.weight": "blk.3.ffn_up.weight".
std::string gguf_name(std::string_view parameter) {
  const std::string_view layer = layers::layer_of(parameter);
  const std::string_view kind = parameter.substr(layer.size());
  const layers::Place place = layers::place_of(layer);
  const auto* part = std::find_if(kParts.begin(), kParts.end(),
                                  [&](const PartName& each) { return each.own == place.part; });
  NG_CHECK(part != kParts.end(), parameter);
  const std::string block = place.block < 0 ? "" : fmt::format("blk.{}.", place.block);
  return fmt::format("{}{}{}", block, part->gguf, kind);
}

bool is_permuted(const ModelConfig& config, const std::string& parameter) {
  const std::string_view part = layers::place_of(layers::layer_of(parameter)).part;
  const bool turns_neighbours = gguf_architecture(config.architecture) == "llama";
  return turns_neighbours && (part == layers::kQ || part == layers::kK);
}

/// Parameters read from the tensors of a file.
class GgufWeights {
 public:
  GgufWeights(const std::string& path, const ModelConfig& config) : file_(path) {
    std::map<std::string_view, const SafetensorsEntry*> left;
    for (const SafetensorsEntry& entry : file_.entries()) left.emplace(entry.name, &entry);
    if (has_rope_factors(config.architecture)) left.erase(kGgufRopeFactors);
    for (GgufModelTensor& tensor : gguf_model_tensors(config)) {
      const auto found = left.find(tensor.name);
      const bool is_zeros = tensor.tensor.parameter < 0;
      if (found == left.end() && is_zeros) continue;
      if (found == left.end())
        refuse(tensor.name, "missing",
               fmt::format("a tensor of shape {}", json_text(tensor.shape())));
      const SafetensorsEntry* entry = found->second;
      if (entry->shape != tensor.shape())
        entry->refuse("shape " + json_text(entry->shape),
                      fmt::format("{} by the file's keys", json_text(tensor.shape())));
      left.erase(found);
      if (entry->dtype == "NVFP4") left.erase(std::string_view(scale_of(tensor.name)));
      if (!is_zeros) tensors_.push_back({std::move(tensor), entry});
    }
    if (!left.empty())
      left.begin()->second->refuse("is not a tensor of this model",
                                   fmt::format("a file of architecture {} that has no others",
                                               gguf_architecture(config.architecture)));
  }

  void read(size_t parameter, int64_t row, std::span<float> values) {
    const auto& [tensor, entry] = tensors_.at(parameter);
    if (held_ != parameter) reader_.emplace(*entry);
    held_ = parameter;
    if (tensor.tensor.spec.is_vector)
      read_vector(tensor, values);
    else
      reader_->read(row_in_file(tensor, row) * tensor.tensor.spec.cols, values);
    entry->require_finite(values);
  }

 private:
  struct Found {
    GgufModelTensor tensor;
    const SafetensorsEntry* entry;
  };

  void read_vector(const GgufModelTensor& tensor, std::span<float> values) {
    std::vector<float> stored(values.size());
    reader_->read(0, stored);
    for (size_t i = 0; i < stored.size(); ++i)
      values[static_cast<size_t>(tensor.row_of_parameter(static_cast<int64_t>(i)))] = stored[i];
  }
  static std::string scale_of(const std::string& weight) {
    return weight.substr(0, weight.rfind('.')) + ".scale";
  }
  static int64_t row_in_file(const GgufModelTensor& tensor, int64_t row) {
    const int64_t d = tensor.head_rows;
    if (d == 0) return row;
    const int64_t i = row % d;
    return row - i + (i < d / 2 ? 2 * i : 2 * (i - d / 2) + 1);
  }
  [[noreturn]] void refuse(std::string_view tensor, const std::string& problem,
                           const std::string& remedy) const {
    file_.refuse(json_text(Json(tensor)), problem, remedy);
  }

  Gguf file_;
  std::vector<Found> tensors_;  ///< by parameter
  size_t held_ = SIZE_MAX;
  std::optional<FloatReader> reader_;
};

}  // namespace

std::vector<int64_t> GgufModelTensor::shape() const {
  const ParameterSpec& spec = tensor.spec;
  if (spec.is_vector) return {spec.cols};
  return {spec.rows, spec.cols};
}

int64_t GgufModelTensor::row_of_parameter(int64_t row) const {
  if (head_rows == 0) return row;
  const int64_t i = row % head_rows;
  return row - i + i / 2 + i % 2 * (head_rows / 2);
}

std::vector<GgufModelTensor> gguf_model_tensors(const ModelConfig& config) {
  std::vector<GgufModelTensor> tensors;
  for (HfTensor& tensor : hf_tensors(config)) {
    const int64_t head_rows = is_permuted(config, tensor.spec.name) ? config.head_dim : 0;
    std::string name = gguf_name(tensor.spec.name);
    tensors.push_back(
        {.name = std::move(name), .tensor = std::move(tensor), .head_rows = head_rows});
  }
  return tensors;
}

ParameterReader open_gguf_weights(const std::string& path, const ModelConfig& config) {
  const auto weights = std::make_shared<GgufWeights>(path, config);
  return [weights](size_t index, int64_t row, std::span<float> values) {
    weights->read(index, row, values);
  };
}

}  // namespace ng::io
