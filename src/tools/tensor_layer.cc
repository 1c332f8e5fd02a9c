#include "tools/tensor_layer.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "io/gguf/gguf.h"
#include "io/gguf/model.h"
#include "io/model_files.h"
#include "model/config.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "grad.X", "weight.X" and "step12.X" are X.
std::string_view bare(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('.'));
  const bool is_step = first.starts_with("step") && first.size() > 4 &&
                       first.find_first_not_of("0123456789", 4) == std::string_view::npos;
  const bool is_prefix = is_step || is_one_of(first, {"grad", "weight"});
  return is_prefix && first.size() < name.size() ? name.substr(first.size() + 1) : name;
}

// 0 where nothing says so.
int64_t blocks_of_capture(const std::string& file) {
  const io::Safetensors opened(file);
  const auto& metadata = opened.metadata();
  const auto found = metadata.find("blocks");
  return metadata.contains("capture") && found != metadata.end()
             ? std::strtoll(found->second.c_str(), nullptr, 10)
             : 0;
}

}  // namespace

bool is_norm_layer(std::string_view name) {
  return is_one_of(layers::place_of(name).part,
                   {layers::kNorm, layers::kNorm1, layers::kNorm2, layers::kQNorm, layers::kKNorm});
}

bool is_layer(std::string_view name) {
  const layers::Place place = layers::place_of(name);
  if (place.block < 0)
    return is_one_of(name, {layers::kEmbed, layers::kPos, layers::kNorm, layers::kHead});
  const auto& linears = layers::kLinearsOfBlocks;
  return is_norm_layer(name) ||
         std::find(linears.begin(), linears.end(), place.part) != linears.end();
}

const ParameterNames::OfFile& ParameterNames::model_of(const std::string& file) {
  const auto [found, is_new] = models_.try_emplace(file);
  OfFile& of = found->second;
  if (!is_new) return of;
  try {
    const bool is_gguf = io::is_gguf(file);
    if (!is_gguf) of.blocks = blocks_of_capture(file);
    const std::string folder = std::filesystem::absolute(file).parent_path().string();
    const ModelConfig model = io::read_model_config({is_gguf ? file : folder, ""});
    const auto add = [&](const std::string& stored, const ParameterSpec& spec, bool is_turned) {
      of.names[stored] = {
          .name = spec.name,
          .blocks = model.layers,
          .is_turned = is_turned,
          .is_vector = spec.is_vector,
          .is_head = model.tie_embeddings && spec.name == layers::weight_of(layers::kEmbed)};
    };
    for (const ParameterSpec& spec : parameter_table(model))
      add(spec.hf_name, spec, spec.hf_transposed);
    if (is_gguf)  // (out, in) whatever transformers stores
      for (const io::GgufModelTensor& tensor : io::gguf_model_tensors(model))
        add(tensor.name, tensor.tensor.spec, false);
  } catch (const Error&) {  // it is of no model that is known
    of.names.clear();
  }
  return of;
}

NamedParameter ParameterNames::of(const io::SafetensorsEntry& tensor) {
  const std::string_view name = bare(tensor.name);
  const OfFile& file = model_of(tensor.file);
  if (is_parameter(name))
    return {.name = std::string(name),
            .blocks = file.blocks,
            .is_vector = is_norm_layer(layers::layer_of(name)) || !name.ends_with(".weight")};
  const auto found = file.names.find(name);
  return found == file.names.end() ? NamedParameter{} : found->second;
}

bool is_parameter(std::string_view name) {
  const std::string_view layer = layers::layer_of(name);
  return layer.size() < name.size() && is_layer(layer) &&
         is_one_of(name.substr(layer.size()), {".weight", ".bias", ".b_i"});
}

LayerOfWeight layer_of_weight(const io::SafetensorsEntry& weight, const std::string& layer,
                              int64_t blocks) {
  const NamedParameter named = ParameterNames().of(weight);
  LayerOfWeight of{.name = layer, .blocks = blocks, .is_turned = named.is_turned};
  if (layer.empty()) of.name = named.name.empty() ? "blocks.0.mlp.up" : named.name;
  if (blocks == 0 && layer.empty()) of.blocks = named.blocks;
  return of;
}

LayerOfWeight layer_of_linear(const io::SafetensorsEntry& weight, const std::string& layer,
                              int64_t blocks) {
  LayerOfWeight of = layer_of_weight(weight, layer, blocks);
  if (of.name.ends_with(".weight")) of.name = layers::layer_of(of.name);
  return of;
}

LayerPlace linear_place(const LayerOfWeight& of, bool or_head) {
  const layers::Place place = layers::place_of(of.name);
  const auto& linears = layers::kLinearsOfBlocks;
  const bool is_of_block =
      place.block >= 0 && std::find(linears.begin(), linears.end(), place.part) != linears.end();
  if (!is_of_block && !(or_head && of.name == layers::kHead))
    throw Error({.place = "--layer",
                 .key = "",
                 .problem = fmt::format("unknown \"{}\"", of.name),
                 .remedy = fmt::format("a linear layer of a block (blocks.0.mlp.up, "
                                       "blocks.3.attn.qkv){}",
                                       or_head ? ", or head" : "")});
  if (of.blocks > 0 && of.blocks <= place.block)
    throw Error({.place = "--blocks",
                 .key = "",
                 .problem = fmt::format("{} blocks have no {}", of.blocks, of.name),
                 .remedy = fmt::format("{} or more", place.block + 1)});
  return {.name = of.name, .block = place.block, .depth = std::max(of.blocks, place.block + 1)};
}

}  // namespace ng
