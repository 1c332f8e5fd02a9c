#include "io/hf/types.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "format/packing.h"

namespace ng {
namespace {

using io::WeightLayout;

constexpr std::string_view kModelOptVersion = "0.47.0";

int64_t blocks_in(int64_t size, int64_t block) { return (size + block - 1) / block; }

std::vector<int64_t> fp32_scale_shape(const HfType& type, const ParameterSpec& spec,
                                      const Block& block) {
  if (type.form == NarrowForm::fp8_tensor) return {1};
  if (type.form == NarrowForm::fp8_channel) return {spec.rows, 1};
  return {blocks_in(spec.rows, block.rows), blocks_in(spec.cols, block.cols)};
}

bool is_fp4(const HfType& type) {
  return type.form == NarrowForm::nvfp4 || type.form == NarrowForm::mxfp4;
}

/// What compressed-tensors says of weights, or of activations that are quantized as they come.
OrderedJson arguments(int bits, bool dynamic, std::string_view strategy) {
  return {{"num_bits", bits},           {"type", "float"},
          {"symmetric", true},          {"dynamic", dynamic},
          {"strategy", strategy},       {"group_size", nullptr},
          {"block_structure", nullptr}, {"actorder", nullptr},
          {"observer", nullptr},        {"observer_kwargs", OrderedJson::object()}};
}

OrderedJson compressed_tensors(const HfType& type, const Block& block, const OrderedJson& ignored) {
  const auto* known =
      std::ranges::find(io::kCompressedFormats, type.layout, &io::CompressedFormat::layout);
  NG_CHECK(known != std::end(io::kCompressedFormats), type.name);
  const std::string_view format = known->name;
  const int bits = is_fp4(type) ? 4 : 8;
  OrderedJson weights = arguments(bits, false, type.strategy);
  OrderedJson activations = nullptr;
  if (const int64_t group = block_of(*type.form); group > 0) {
    weights["group_size"] = group;
    const char* scale = type.form == NarrowForm::nvfp4 ? "torch.float8_e4m3fn" : "torch.uint8";
    weights["scale_dtype"] = scale;
    weights["zp_dtype"] = scale;
  } else {  // the format's definition has 8-bit activations
    activations = arguments(8, true, "token");
    if (type.has_block) weights["block_structure"] = {block.rows, block.cols};
  }
  const OrderedJson group = {{"targets", {"Linear"}},
                             {"weights", weights},
                             {"input_activations", activations},
                             {"output_activations", nullptr},
                             {"format", format}};
  return {{"quant_method", "compressed-tensors"}, {"format", format},
          {"quantization_status", "compressed"},  {"global_compression_ratio", nullptr},
          {"kv_cache_scheme", nullptr},           {"ignore", ignored},
          {"config_groups", {{"group_0", group}}}};
}

}  // namespace

const std::vector<HfType>& hf_types() {
  const auto compressed = [](std::string_view name, WeightLayout layout, NarrowForm form,
                             std::string_view strategy, bool has_block = false) {
    return HfType{.name = name,
                  .layout = layout,
                  .form = form,
                  .dtype = "BF16",
                  .torch = "bfloat16",
                  .strategy = strategy,
                  .has_block = has_block};
  };
  static const std::vector<HfType> kTypes = {
      {.name = "bf16", .form = {}, .dtype = "BF16", .torch = "bfloat16", .strategy = {}},
      compressed("nvfp4", WeightLayout::nvfp4, NarrowForm::nvfp4, "tensor_group"),
      compressed("mxfp4", WeightLayout::mxfp4, NarrowForm::mxfp4, "group"),
      compressed("mxfp8", WeightLayout::mxfp8, NarrowForm::mxfp8, "group"),
      compressed("fp8_tensor", WeightLayout::fp8, NarrowForm::fp8_tensor, "tensor"),
      compressed("fp8_channel", WeightLayout::fp8, NarrowForm::fp8_channel, "channel"),
      compressed("fp8_block", WeightLayout::fp8, NarrowForm::fp8_block, "block", true),
      compressed("fp8_fine", WeightLayout::fp8_fine, NarrowForm::fp8_block, {}, true),
      compressed("modelopt", WeightLayout::modelopt, NarrowForm::nvfp4, {}),
      {.name = "f32", .form = {}, .dtype = "F32", .torch = "float32", .strategy = {}}};
  return kTypes;
}

OrderedJson quantization_config(const HfType& type, const Block& block,
                                const std::vector<std::string>& wide) {
  OrderedJson ignored = {"lm_head"};
  for (const std::string& module : wide) ignored.push_back(module);
  if (type.layout == WeightLayout::fp8_fine)
    return {{"quant_method", "fp8"},
            {"activation_scheme", "dynamic"},
            {"weight_block_size", {block.rows, block.cols}},
            {"modules_to_not_convert", ignored}};
  if (type.layout != WeightLayout::modelopt) return compressed_tensors(type, block, ignored);
  const OrderedJson weights = {{"dynamic", false},
                               {"num_bits", 4},
                               {"type", "float"},
                               {"group_size", block_of(NarrowForm::nvfp4)}};
  const OrderedJson group = {{"weights", weights}, {"targets", {"Linear"}}};
  return {{"quant_method", "modelopt"},
          {"quant_algo", "W4A16_NVFP4"},
          {"ignore", ignored},
          {"producer", {{"name", "modelopt"}, {"version", kModelOptVersion}}},
          {"config_groups", {{"group_0", group}}}};
}

std::vector<io::SafetensorsTensor> layout_tensors(const HfType& type, const ParameterSpec& spec,
                                                  const Block& block) {
  std::vector<io::SafetensorsTensor> tensors;
  const auto add = [&](const char* part, const char* dtype, std::vector<int64_t> shape) {
    tensors.push_back({spec.hf_name + part, dtype, std::move(shape), nullptr});
  };
  if (is_fp4(type))
    add(type.layout == WeightLayout::modelopt ? "" : "_packed", "U8", {spec.rows, spec.cols / 2});
  else
    add("", "F8_E4M3", {spec.rows, spec.cols});
  const int64_t group = block_of(*type.form);
  if (group > 0)
    add("_scale", type.form == NarrowForm::nvfp4 ? "F8_E4M3" : "U8",
        {spec.rows, spec.cols / group});
  else
    add(type.layout == WeightLayout::fp8_fine ? "_scale_inv" : "_scale", "F32",
        fp32_scale_shape(type, spec, block));
  if (type.layout == WeightLayout::nvfp4) add("_global_scale", "F32", {1});
  if (type.layout == WeightLayout::modelopt) add("_scale_2", "F32", {});
  return tensors;
}

void write_layout(const HfType& type, const NarrowMatrix& matrix, float encode_scale,
                  io::SafetensorsWriter* writer) {
  const int bits = is_fp4(type) ? 4 : 8;
  std::vector<uint8_t> bytes(packed_bytes(matrix.cols, bits));
  for (int64_t row = 0; row < matrix.rows; ++row) {
    pack_codes(codes_of_row(matrix, row), bits, bytes);
    writer->write(std::as_bytes(std::span(bytes)));
  }
  if (block_of(*type.form) > 0) {
    for (int64_t row = 0; row < matrix.rows; ++row) {
      const std::vector<uint8_t> codes = scale_codes_of_row(matrix, row);
      writer->write(std::as_bytes(std::span(codes)));
    }
  } else {
    writer->write(std::as_bytes(std::span(matrix.scales)));
  }
  if (type.layout == WeightLayout::nvfp4) writer->write(std::as_bytes(std::span(&encode_scale, 1)));
  if (type.layout == WeightLayout::modelopt)
    writer->write(std::as_bytes(std::span(&matrix.tensor_scale, 1)));
}

}  // namespace ng
