#include "io/hf/quantized_tensor.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "format/scale.h"
#include "io/hf/scale_names.h"
#include "io/safetensors_dtype.h"

namespace ng::io {
namespace {

constexpr ScaleBlock kNvfp4Block = {1, 16}, kMxBlock = {1, 32};
constexpr const char* kWhole = "the folder as it was written";

bool is_e8m0(const SafetensorsEntry& entry) {
  return entry.dtype == "U8" || entry.dtype == "F8_E8M0";
}

/// The tensors beside codes, by their names.
struct Beside {
  const SafetensorsEntry* scales = nullptr;
  const SafetensorsEntry* factor = nullptr;
  const SafetensorsEntry* zero_point = nullptr;
  bool divides = false;
};

Beside find_beside(const SafetensorsEntry& codes, const std::string& weight,
                   const FindEntry& find) {
  Beside beside;
  const auto take = [&](const SafetensorsEntry* scales) {
    if (scales != nullptr && beside.scales != nullptr)
      codes.refuse(fmt::format("has both {} and {}", beside.scales->name, scales->name),
                   "one of them");
    if (scales != nullptr) beside.scales = scales;
    return scales != nullptr;
  };
  const auto named = [&](std::string_view ending) {
    return ending.empty() ? nullptr : find(weight + std::string(ending));
  };
  for (const ScaleNames& names : kScaleNames) {
    if (!take(named(names.scale))) continue;
    const SafetensorsEntry* divisor = named(names.divisor);
    beside.factor = divisor != nullptr ? divisor : named(names.factor);
    beside.divides = divisor != nullptr;
  }
  const std::string module(module_of_tensor(weight));
  for (const std::string_view name : kScalesOfModule)
    if (weight == module + ".weight") (void)take(find(fmt::format("{}.{}", module, name)));
  beside.zero_point = named(kZeroPoint);
  return beside;
}

/// Two codes of 4 bits a byte, the first one low: as a tensor of them.
SafetensorsEntry unpacked(const SafetensorsEntry& bytes) {
  SafetensorsEntry codes = bytes;
  codes.dtype = "F4";
  if (codes.shape.empty() || __builtin_mul_overflow(codes.shape.back(), 2, &codes.shape.back()) ||
      bytes.bytes > static_cast<size_t>(INT64_MAX) / 2)
    bytes.refuse("shape " + json_text(bytes.shape), "dimensions, and sizes that fit 63 bits");
  return codes;
}

[[noreturn]] void refuse_shape(const QuantizedTensor& tensor, std::span<const ScaleBlock> blocks) {
  const SafetensorsEntry& scales = tensor.scales;
  if (blocks.empty())
    scales.refuse(
        fmt::format("shape {} beside {} of {}: blocks whose size nothing says",
                    json_text(scales.shape), tensor.name, json_text(tensor.elements.shape)),
        "a config.json that says it, as weight_block_size does");
  scales.refuse("shape " + json_text(scales.shape),
                fmt::format("{} beside {}",
                            json_text(block_shape(tensor.elements.shape, blocks[0])), tensor.name));
}

/// By shape alone, or by the one of `blocks` that fits.
ScalePlaces places_among(const QuantizedTensor& tensor, std::span<const ScaleBlock> blocks) {
  const std::vector<int64_t>& shape = tensor.elements.shape;
  if (auto plain = plain_places(shape, tensor.scales.shape)) return *plain;
  std::optional<ScalePlaces> found;
  for (const ScaleBlock& block : blocks) {
    const std::optional<ScalePlaces> fits = block_places(shape, tensor.scales.shape, block);
    if (fits && found && *fits != *found)
      tensor.scales.refuse("fits blocks of several groups of modules", "one group");
    if (fits) found = fits;
  }
  if (!found) refuse_shape(tensor, blocks);
  return *found;
}

/// Blocks of a row, of a size that the format fixes.
ScalePlaces fixed_places(const QuantizedTensor& tensor, const ScaleBlock& block) {
  const auto places = block_places(tensor.elements.shape, tensor.scales.shape, block);
  if (!places) refuse_shape(tensor, std::span(&block, 1));
  return *places;
}

void take_factor(QuantizedTensor& tensor, const Beside& beside) {
  const SafetensorsEntry& factor = *beside.factor;
  if (!is_wide_float(factor)) factor.refuse("dtype " + factor.dtype, "F32 BF16 F16 or F64");
  const auto places = plain_places(tensor.elements.shape, factor.shape);
  if (!places)
    factor.refuse("shape " + json_text(factor.shape), "one value, or one of each matrix");
  tensor.factor = factor;
  tensor.factor_places = *places;
  tensor.divides = beside.divides;
}

/// E2M1 with scales E4M3 of 16 and one of the tensor, or E8M0 of 32.
void take_fp4_scales(QuantizedTensor& tensor, const Beside& beside) {
  const SafetensorsEntry& scales = tensor.scales;
  if (is_e8m0(scales)) {
    tensor.has_e8m0 = true;
    tensor.places = fixed_places(tensor, kMxBlock);
    return;
  }
  if (scales.dtype != "F8_E4M3") scales.refuse("dtype " + scales.dtype, "F8_E4M3, U8 or F8_E8M0");
  tensor.places = fixed_places(tensor, kNvfp4Block);
  if (beside.factor != nullptr) return;
  const bool is_packed = tensor.elements.name != tensor.name;
  tensor.elements.refuse(
      fmt::format("has no {}{}", tensor.name, is_packed ? "_global_scale" : "_scale_2"), kWhole);
}

/// Floats of 6 and 8 bits with scales that are floats, or E8M0 of 32 where no blocks are known.
void take_fp8_scales(QuantizedTensor& tensor, const SafetensorsEntry* factor,
                     const QuantizedLayout& layout) {
  const SafetensorsEntry& scales = tensor.scales;
  tensor.has_e8m0 = is_e8m0(scales);
  if (!tensor.has_e8m0 && !is_wide_float(scales))
    scales.refuse("dtype " + scales.dtype, "F32 BF16 F16 F64 or, of E8M0, U8 F8_E8M0");
  std::vector<ScaleBlock> blocks = layout.blocks;
  if (tensor.has_e8m0) blocks.push_back(kMxBlock);
  tensor.places = places_among(tensor, blocks);
  if (factor != nullptr) factor->refuse("beside codes of 8 bits is not supported", "one scale");
}

/// Reads values of an opened weight.
class OpenWeight {
 public:
  explicit OpenWeight(QuantizedTensor tensor)
      : tensor_(std::move(tensor)),
        elements_(tensor_.elements),
        scales_(tensor_.has_e8m0 ? e8m0_scales(tensor_.scales) : to_floats(tensor_.scales)) {
    if (tensor_.factor) factors_ = to_floats(*tensor_.factor);
    if (tensor_.divides)
      for (float& factor : factors_) factor = 1.0f / factor;
    if (tensor_.zero_point) require_zero(*tensor_.zero_point);
  }
  OpenWeight(const OpenWeight&) = delete;
  OpenWeight& operator=(const OpenWeight&) = delete;
  ~OpenWeight() = default;

  void read(int64_t first, std::span<float> values) const {
    elements_.read(first, values);
    const std::vector<int64_t>& shape = tensor_.elements.shape;
    const int64_t cols = shape.empty() ? 1 : shape.back();
    while (!values.empty()) {
      const int64_t row = first / cols, col = first % cols;
      const auto count = std::min<int64_t>(cols - col, std::ssize(values));
      scale(row, col, values.first(static_cast<size_t>(count)));
      first += count;
      values = values.subspan(static_cast<size_t>(count));
    }
  }

 private:
  static void require_zero(const SafetensorsEntry& zero_point) {
    for (const float zero : to_floats(zero_point))
      if (zero != 0) zero_point.refuse(fmt::format("holds {}", zero), "symmetric codes: 0");
  }
  /// Values of one row, from `col` on.
  void scale(int64_t row, int64_t col, std::span<float> values) const {
    const std::vector<int64_t>& shape = tensor_.elements.shape;
    const float* scales = scales_.data() + tensor_.places.of_row(shape, row);
    for (float& value : values) value *= scales[tensor_.places.in_row(col++)];
    if (factors_.empty()) return;
    col -= std::ssize(values);
    const float* factors = factors_.data() + tensor_.factor_places.of_row(shape, row);
    for (float& value : values) value *= factors[tensor_.factor_places.in_row(col++)];
  }

  QuantizedTensor tensor_;
  FloatReader elements_;
  std::vector<float> scales_, factors_;
};

}  // namespace

bool is_narrow(const SafetensorsEntry& entry) {
  if (entry.dtype == "F8_E8M0" || !entry.dtype.starts_with('F')) return false;
  return find_dtype(entry.dtype, entry.file, entry.name).bits <= 8;
}

bool is_wide_float(const SafetensorsEntry& entry) {
  constexpr std::string_view kDtypes[] = {"F32", "BF16", "F16", "F64"};
  return std::ranges::find(kDtypes, entry.dtype) != std::end(kDtypes);
}

std::vector<float> e8m0_scales(const SafetensorsEntry& entry) {
  SafetensorsEntry codes = entry;
  codes.dtype = "U8";
  std::vector<float> scales = to_floats(codes);
  for (float& scale : scales) {
    if (scale == static_cast<float>(kE8m0NanCode))
      entry.refuse("holds the scale 255", "scales from 0 to 254");
    scale = e8m0_value(static_cast<uint32_t>(scale));
  }
  return scales;
}

std::vector<std::string> QuantizedTensor::parts() const {
  std::vector<std::string> names = {scales.name};
  if (factor) names.push_back(factor->name);
  if (zero_point) names.push_back(zero_point->name);
  return names;
}

SafetensorsEntry QuantizedTensor::entry() const {
  SafetensorsEntry weight = elements;
  weight.name = name;
  weight.open_values = [tensor = std::make_shared<const QuantizedTensor>(*this)]() -> ReadValues {
    return [open = std::make_shared<const OpenWeight>(*tensor)](
               int64_t first, std::span<float> values) { open->read(first, values); };
  };
  return weight;
}

std::optional<QuantizedTensor> find_quantized(const SafetensorsEntry& codes,
                                              const QuantizedLayout& layout,
                                              const FindEntry& find) {
  const bool is_bytes = codes.dtype == "U8";
  if (!is_bytes && !is_narrow(codes)) return {};
  QuantizedTensor tensor;
  tensor.name = weight_of_codes(codes.name);
  const Beside beside = find_beside(codes, tensor.name, find);
  if (beside.scales == nullptr) {
    if (is_bytes && codes.name.ends_with(".weight_packed"))
      codes.refuse("has no " + tensor.name + "_scale", kWhole);
    return {};
  }
  if (is_bytes && !is_e8m0(*beside.scales) && beside.scales->dtype != "F8_E4M3") return {};
  tensor.elements = is_bytes ? unpacked(codes) : codes;
  tensor.scales = *beside.scales;
  if (beside.zero_point != nullptr) tensor.zero_point = *beside.zero_point;
  if (tensor.elements.dtype == "F4")
    take_fp4_scales(tensor, beside);
  else
    take_fp8_scales(tensor, beside.factor, layout);
  if (beside.factor != nullptr) take_factor(tensor, beside);
  return tensor;
}

}  // namespace ng::io
