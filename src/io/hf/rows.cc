#include "io/hf/rows.h"

#include "base/error.h"
#include "format/packing.h"

namespace ng {
namespace {

using io::WeightLayout;

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

}  // namespace

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
