#include "io/hf/quantized_layout.h"

#include "base/error.h"
#include "base/files.h"
#include "io/hf/names.h"

namespace ng::io {
namespace {

constexpr int64_t kMaxBlock = 1 << 20;
constexpr const char* kMethods = "compressed-tensors, fp8, modelopt or mxfp4";
constexpr const char* kFormats =
    "nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp8-quantized or float-quantized";

/// A list of two sizes.
void read_block(const JsonObject& object, std::string_view key, QuantizedLayout* layout) {
  const Json& block = object.at(key);
  const auto is_size = [&](const Json& size) {
    return size.is_number_unsigned() && size > 0 && size <= kMaxBlock;
  };
  if (!block.is_array() || block.size() != 2 || !is_size(block[0]) || !is_size(block[1]))
    object.refuse(key, brief(block), "two sizes, of rows and columns");
  layout->block_rows = block[0].get<int64_t>();
  layout->block_cols = block[1].get<int64_t>();
}

WeightLayout compressed_format(const JsonObject& object) {
  const std::string format = object.text("format");
  for (const auto& [name, layout] : kCompressedFormats)
    if (format == name) return layout;
  object.refuse("format", fmt::format("\"{}\" is not supported", format), kFormats);
}

QuantizedLayout compressed_tensors(const JsonObject& object) {
  QuantizedLayout layout{.kind = compressed_format(object)};
  if (layout.kind != WeightLayout::fp8) return layout;
  const JsonObject groups = object.object("config_groups");
  if (groups.value().size() != 1)
    object.refuse("config_groups", fmt::format("{} groups", groups.value().size()), "one group");
  const JsonObject weights = groups.object(groups.value().begin().key()).object("weights");
  if (weights.text("strategy") == "block") read_block(weights, "block_structure", &layout);
  return layout;
}

}  // namespace

QuantizedLayout parse_quantized_layout(const JsonObject& config) {
  if (!config.has("quantization_config")) return {};
  const JsonObject object = config.object("quantization_config");
  const std::string method = object.text("quant_method");
  if (method == "compressed-tensors") return compressed_tensors(object);
  if (method == "modelopt") {
    if (object.text("quant_algo").find("NVFP4") == std::string::npos)
      object.refuse("quant_algo", brief(object.at("quant_algo")), "W4A16_NVFP4 or NVFP4");
    return {.kind = WeightLayout::modelopt};
  }
  if (method == "mxfp4") return {.kind = WeightLayout::experts};
  if (method != "fp8")
    object.refuse("quant_method", fmt::format("\"{}\" is not supported", method), kMethods);
  QuantizedLayout layout{.kind = WeightLayout::fp8_fine};
  read_block(object, "weight_block_size", &layout);
  return layout;
}

QuantizedLayout read_quantized_layout(const std::string& folder) {
  const std::string path = join_path(folder, kHfConfig);
  const Json json = read_json_file(path, kMaxHfConfigBytes);
  return parse_quantized_layout(JsonObject(json, path));
}

}  // namespace ng::io
