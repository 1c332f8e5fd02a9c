#include "io/hf/quantized_tensor.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "format/codec.h"
#include "format/packing.h"
#include "format/scale.h"

namespace ng::io {
namespace {

constexpr std::string_view kPacked = ".weight_packed", kWeight = ".weight";
constexpr int64_t kNvfp4Block = 16, kMxBlock = 32;

bool is_packed(WeightLayout kind) {
  return kind == WeightLayout::nvfp4 || kind == WeightLayout::mxfp4 ||
         kind == WeightLayout::modelopt;
}

bool has_own_name(WeightLayout kind) {
  return kind == WeightLayout::nvfp4 || kind == WeightLayout::mxfp4;
}

void require_dtype(const SafetensorsEntry& entry, const char* dtype) {
  if (entry.dtype != dtype) entry.refuse("dtype " + entry.dtype, dtype);
}

/// How many blocks of `block` there are in `size`.
int64_t blocks_in(int64_t size, int64_t block) { return (size + block - 1) / block; }

}  // namespace

bool holds_codes(const SafetensorsEntry& entry, const QuantizedLayout& layout) {
  switch (layout.kind) {
    case WeightLayout::plain:
    case WeightLayout::experts:
      return false;
    case WeightLayout::nvfp4:
    case WeightLayout::mxfp4:
      return entry.name.ends_with(kPacked);
    case WeightLayout::modelopt:
      return entry.name.ends_with(kWeight) && entry.dtype == "U8";
    default:
      return entry.name.ends_with(kWeight) && entry.dtype == "F8_E4M3";
  }
}

float e8m0_scale(const SafetensorsEntry& entry, uint32_t code) {
  if (code == kE8m0NanCode) entry.refuse("holds the scale 255", "scales from 0 to 254");
  return e8m0_value(code);
}

QuantizedTensor::QuantizedTensor(const SafetensorsEntry& codes, const QuantizedLayout& layout,
                                 const FindEntry& find)
    : codes_(&codes), shape_(codes.shape) {
  const size_t suffix = has_own_name(layout.kind) ? kPacked.size() : kWeight.size();
  const std::string layer = codes.name.substr(0, codes.name.size() - suffix);
  name_ = layer + std::string(kWeight);
  if (shape_.size() != 2) codes.refuse("shape " + json_text(shape_), "two dimensions");
  require_dtype(codes, is_packed(layout.kind) ? "U8" : "F8_E4M3");
  if (is_packed(layout.kind)) {
    bits_ = 4;
    if (__builtin_mul_overflow(shape_[1], 2, &shape_[1]))
      codes.refuse("shape " + json_text(codes.shape), "sizes that fit 63 bits");
  }
  elements_ = decode_table(element_format(bits_ == 4 ? "float4_e2m1fn" : "float8_e4m3fn"));
  const auto part = [&](const char* name) -> const SafetensorsEntry& {
    parts_.push_back(name_ + name);
    const SafetensorsEntry* found = find(parts_.back());
    if (found == nullptr) codes.refuse("has no " + parts_.back(), "the folder as it was written");
    return *found;
  };
  read_scales(part(layout.kind == WeightLayout::fp8_fine ? "_scale_inv" : "_scale"), layout);
  if (layout.kind == WeightLayout::nvfp4) read_tensor_scale(part("_global_scale"), true);
  if (layout.kind == WeightLayout::modelopt) read_tensor_scale(part("_scale_2"), false);
}

void QuantizedTensor::read_scales(const SafetensorsEntry& entry, const QuantizedLayout& layout) {
  const int64_t rows = shape_[0], cols = shape_[1];
  const bool is_mx = layout.kind == WeightLayout::mxfp4 || layout.kind == WeightLayout::mxfp8;
  const bool is_nvfp4 = layout.kind == WeightLayout::nvfp4 || layout.kind == WeightLayout::modelopt;
  require_dtype(entry, is_mx ? "U8" : is_nvfp4 ? "F8_E4M3" : "F32");
  std::vector<std::vector<int64_t>> allowed;
  if (is_mx || is_nvfp4) {
    block_cols_ = is_mx ? kMxBlock : kNvfp4Block;
    allowed = {{rows, blocks_in(cols, block_cols_)}};
  } else if (layout.block_rows > 0) {
    block_rows_ = layout.block_rows;
    block_cols_ = layout.block_cols;
    allowed = {{blocks_in(rows, block_rows_), blocks_in(cols, block_cols_)}};
  } else {
    const bool by_row = entry.shape == std::vector<int64_t>{rows, 1};
    block_rows_ = by_row ? 1 : std::max<int64_t>(rows, 1);
    block_cols_ = std::max<int64_t>(cols, 1);
    allowed = {{1}, {}, {rows, 1}};
  }
  if (std::find(allowed.begin(), allowed.end(), entry.shape) == allowed.end())
    entry.refuse("shape " + json_text(entry.shape),
                 fmt::format("{} beside {}", json_text(allowed.back()), name_));
  scale_cols_ = std::max<int64_t>(blocks_in(cols, block_cols_), 1);
  scales_ = to_floats(entry);
  if (!is_mx) return;
  for (float& scale : scales_) scale = e8m0_scale(entry, static_cast<uint32_t>(scale));
}

void QuantizedTensor::read_tensor_scale(const SafetensorsEntry& entry, bool divides) {
  require_dtype(entry, "F32");
  if (entry.elements() != 1) entry.refuse("shape " + json_text(entry.shape), "one value");
  const float scale = to_floats(entry)[0];
  tensor_scale_ = divides ? 1.0f / scale : scale;
}

void QuantizedTensor::read(int64_t row, std::span<float> values) const {
  const auto cols = static_cast<size_t>(shape_[1]);
  NG_CHECK(row >= 0 && row < shape_[0] && values.size() == cols, row, values.size());
  std::vector<uint8_t> bytes(packed_bytes(shape_[1], bits_));
  codes_->read(static_cast<size_t>(row) * bytes.size(), std::as_writable_bytes(std::span(bytes)));
  std::vector<uint16_t> codes(cols);
  unpack_codes(bytes, bits_, codes);
  const float* scales = scales_.data() + row / block_rows_ * scale_cols_;
  for (size_t i = 0; i < cols; ++i)
    values[i] = elements_[codes[i]] * scales[static_cast<int64_t>(i) / block_cols_] * tensor_scale_;
}

}  // namespace ng::io
