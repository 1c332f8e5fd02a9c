#include "io/hf/quantized_layout.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/files.h"
#include "io/hf/names.h"

namespace ng::io {
namespace {

constexpr int64_t kMaxBlock = 1 << 20;
constexpr const char* kMethods = "compressed-tensors, fp8, fbgemm_fp8, modelopt or mxfp4";
constexpr const char* kFormats =
    "nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp8-quantized, float-quantized or "
    "naive-quantized";
constexpr const char* kMixedFormat = "mixed-precision";

/// An algorithm of modelopt by which weights are codes and scales.
struct Algorithm {
  std::string_view name;
  bool has_blocks = false;  ///< of 128 × 128
};
// [modelopt torch/export/model_config.py]
constexpr Algorithm kAlgorithms[] = {{"FP8"},
                                     {"FP8_PER_CHANNEL_PER_TOKEN"},
                                     {"FP8_PB_WO", true},
                                     {"NVFP4"},
                                     {"NVFP4_AWQ"},
                                     {"W4A16_NVFP4"},
                                     {"MXFP8"},
                                     {"MXFP4"}};
constexpr const char* kAlgorithmNames =
    "FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, W4A16_NVFP4, MXFP8, MXFP4 or "
    "MIXED_PRECISION";
constexpr ScaleBlock kModelOptBlock = {128, 128};

void add_block(const ScaleBlock& block, QuantizedLayout* layout) {
  if (std::ranges::find(layout->blocks, block) == layout->blocks.end())
    layout->blocks.push_back(block);
}

/// A list of two sizes.
void read_block(const JsonObject& object, std::string_view key, QuantizedLayout* layout) {
  const Json& block = object.at(key);
  const auto is_size = [&](const Json& size) {
    return size.is_number_unsigned() && size > 0 && size <= kMaxBlock;
  };
  if (!block.is_array() || block.size() != 2 || !is_size(block[0]) || !is_size(block[1]))
    object.refuse(key, brief(block), "two sizes, of rows and columns");
  add_block({block[0].get<int64_t>(), block[1].get<int64_t>()}, layout);
}

std::string known_format(const JsonObject& object) {
  std::string format = object.text("format");
  if (std::ranges::find(kCompressedFormats, format, &CompressedFormat::name) ==
      std::end(kCompressedFormats))
    object.refuse("format", fmt::format("\"{}\" is not supported", format), kFormats);
  return format;
}

/// A group of modules: those of activations alone have no weights.
void read_group(const JsonObject& group, bool has_own_format, QuantizedLayout* layout) {
  if (!group.has("weights")) return;
  if (has_own_format || group.has("format")) (void)known_format(group);
  const JsonObject weights = group.object("weights");
  if (const std::string type = weights.text_or("type", "float"); type != "float")
    weights.refuse("type", fmt::format("\"{}\" is not supported", type), "\"float\"");
  const std::string strategy = weights.text_or("strategy", "");
  if (strategy == "block") read_block(weights, "block_structure", layout);
  if (strategy == "group") add_block({1, weights.integer("group_size", 1, kMaxBlock)}, layout);
}

QuantizedLayout compressed_tensors(const JsonObject& object) {
  QuantizedLayout layout{.is_quantized = true};
  const bool is_mixed = object.text("format") == kMixedFormat;
  if (!is_mixed) (void)known_format(object);
  if (!is_mixed && !object.has("config_groups")) return layout;
  const JsonObject groups = object.object("config_groups");
  for (const auto& [name, group] : groups.value().items())
    read_group(groups.object(name), is_mixed, &layout);
  return layout;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

void read_algorithm(const JsonObject& object, QuantizedLayout* layout) {
  const std::string name = upper(object.text("quant_algo"));
  const auto* known = std::ranges::find(kAlgorithms, name, &Algorithm::name);
  if (known == std::end(kAlgorithms))
    object.refuse("quant_algo", brief(object.at("quant_algo")) + " is not supported",
                  kAlgorithmNames);
  layout->is_quantized = true;
  if (known->has_blocks) add_block(kModelOptBlock, layout);
}

/// Without an algorithm the KV cache alone is quantized.
QuantizedLayout modelopt(const JsonObject& object) {
  QuantizedLayout layout;
  if (!object.has("quant_algo")) return layout;
  if (upper(object.text("quant_algo")) != "MIXED_PRECISION") {
    read_algorithm(object, &layout);
    return layout;
  }
  const JsonObject layers = object.object("quantized_layers");
  for (const auto& [name, layer] : layers.value().items())
    read_algorithm(layers.object(name), &layout);
  return layout;
}

QuantizedLayout layout_of(const JsonObject& object) {
  if (!object.has("quant_method") && object.has("quant_algo")) return modelopt(object);
  const std::string method = object.text("quant_method");
  if (method == "compressed-tensors") return compressed_tensors(object);
  if (method.starts_with("modelopt"))
    return modelopt(object.has("quantization") ? object.object("quantization") : object);
  QuantizedLayout layout{.is_quantized = true, .has_experts = method == "mxfp4"};
  if (method == "mxfp4" || method == "fbgemm_fp8") return layout;
  if (method != "fp8")
    object.refuse("quant_method", fmt::format("\"{}\" is not supported", method), kMethods);
  if (object.has("weight_block_size")) read_block(object, "weight_block_size", &layout);
  return layout;
}

/// Where config.json says it; older files of compressed-tensors have the second.
constexpr const char* kConfigKeys[] = {"quantization_config", "compression_config"};

bool says_layout(const JsonObject& config) {
  return std::ranges::any_of(kConfigKeys, [&](const char* key) { return config.has(key); });
}

}  // namespace

QuantizedLayout parse_quantized_layout(const JsonObject& config) {
  for (const char* key : kConfigKeys)
    if (config.has(key)) return layout_of(config.object(key));
  return {};
}

QuantizedLayout read_quantized_layout(const std::string& folder) {
  const std::string path = join_path(folder, kHfConfig);
  const Json json = read_json_file(path, kMaxHfConfigBytes);
  const JsonObject config(json, path);
  const std::string beside = join_path(folder, kHfQuantConfig);
  if (says_layout(config) || !is_file(beside)) return parse_quantized_layout(config);
  const Json modelopt_json = read_json_file(beside, kMaxQuantConfigBytes);
  return modelopt(JsonObject(modelopt_json, beside).object("quantization"));
}

}  // namespace ng::io
