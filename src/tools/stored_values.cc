#include "tools/stored_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/codec.h"
#include "format/packing.h"
#include "run/transfer.h"

namespace ng {
namespace {

size_t scale_count(const Stored& tensor) {
  if (!tensor.view.has_scales()) return 0;
  const ScaleShape shape = scale_shape(tensor.cast, tensor.view.rows, tensor.view.cols);
  return static_cast<size_t>(shape.rows * shape.cols);
}

void put_codes(Backend& backend, const View& tensor, std::span<const uint16_t> codes) {
  const auto cols = static_cast<size_t>(tensor.cols);
  const size_t row_bytes = bytes_of(*tensor.element, tensor.cols);
  std::vector<uint8_t> packed(row_bytes);
  for (int64_t r = 0; r < tensor.rows; ++r) {
    pack_codes(codes.subspan(static_cast<size_t>(r) * cols, cols), tensor.element->bits, packed);
    backend.upload(tensor.data + bytes_of(*tensor.element, r * tensor.stride), packed.data(),
                   row_bytes);
  }
}

/// The code of a value under a scale, as encoders take it. [formats.md §5, §6]
uint32_t code_under(const ElementCodec& codec, float value, float scale) {
  const bool divides = codec.format().kind == ElementKind::integer;
  return codec.encode(divides ? value / scale : value * (1.0f / scale));
}

/// Calls use(index, place of its scale) for every element, row by row.
template <class Use>
void for_elements(const ConstView& tensor, const Use& use) {
  for (int64_t r = 0; r < tensor.rows; ++r)
    for (int64_t c = 0; c < tensor.cols; ++c)
      use(static_cast<size_t>(r * tensor.cols + c),
          static_cast<size_t>(tensor.has_scales() ? tensor.scale_index(r, c) : 0));
}

/// `ulps` FP32 numbers above a positive scale.
float beside(float scale, int ulps) {
  uint32_t bits = 0;
  std::memcpy(&bits, &scale, sizeof bits);
  bits += static_cast<uint32_t>(ulps);
  std::memcpy(&scale, &bits, sizeof bits);
  return scale;
}

/// Scales of FP32, E8M0 or E4M3 in their order.
void put_scales(Backend& backend, const View& tensor, std::span<const float> scales) {
  const size_t size = bytes_of(*tensor.scales.element, 1);
  std::vector<std::byte> bytes(scales.size() * size);
  for (size_t s = 0; s < scales.size(); ++s) {
    const uint32_t code = encode(*tensor.scales.element, scales[s]);
    std::memcpy(bytes.data() + s * size, &code, size);
  }
  backend.upload(tensor.scales.data, bytes.data(), bytes.size());
}

/// A tensor's scales, each replaced by a neighbour under which all codes of its block are exactly
/// the values, where they are not and there is one: 448/(448/x) is off x by two roundings.
std::vector<float> exact_scales(const Backend& backend, const Stored& tensor,
                                std::span<const float> values) {
  const ElementCodec codec(*tensor.view.element);
  const std::vector<uint16_t> codes = codes_of(backend, tensor.view);
  const std::vector<float> stored = scales_of(backend, tensor);
  std::vector<float> best = stored;
  std::vector<bool> is_found(stored.size(), false);
  for (const int ulps : {0, 1, -1, 2, -2, 3, -3, 4, -4}) {
    std::vector<bool> is_exact(stored.size(), true);
    for_elements(tensor.view, [&](size_t i, size_t s) {
      if (!is_found[s] && is_exact[s])
        is_exact[s] = codec.decode(codes[i]) * beside(stored[s], ulps) == values[i];
    });
    for (size_t s = 0; s < stored.size(); ++s) {
      if (is_found[s] || !is_exact[s]) continue;
      best[s] = beside(stored[s], ulps);
      is_found[s] = true;
    }
  }
  return best;
}

/// Spacing of the numbers in the binade of a code; of subnormals the smallest. [errata-2, 21]
double ulp_of(const ElementFormat& format, uint32_t code) {
  if (format.kind == ElementKind::integer) return std::ldexp(1.0, -format.mantissa_bits);
  const FloatGrid grid = grid_of(format);
  const auto field = static_cast<int>((code & (grid.sign_mask - 1)) >> grid.mantissa_bits);
  return std::ldexp(1.0, std::max(field, 1) - grid.bias - grid.mantissa_bits);
}

/// What 1 of the residual stands for beside each element.
std::vector<double> residual_units(const Backend& backend, const UpdatedWeight& weight) {
  const std::vector<uint16_t> codes = codes_of(backend, weight.value.view);
  std::vector<float> scales = scales_of(backend, weight.value);
  const float level = tensor_scale_of(backend, weight.value.view);
  for (float& scale : scales) scale *= level;
  std::vector<double> units(codes.size());
  for_elements(weight.value.view, [&](size_t i, size_t s) {
    const double ulp = ulp_of(*weight.value.view.element, codes[i]);
    units[i] = std::ldexp(scales.empty() ? ulp : ulp * scales[s], -weight.carry.element->bits);
  });
  return units;
}

}  // namespace

std::vector<uint16_t> codes_of(const Backend& backend, const ConstView& tensor) {
  NG_CHECK(tensor.element->bits <= 16, tensor.element->name);
  const auto cols = static_cast<size_t>(tensor.cols);
  std::vector<uint16_t> codes(static_cast<size_t>(tensor.size()));
  std::vector<uint8_t> packed(bytes_of(*tensor.element, tensor.cols));
  for (int64_t r = 0; r < tensor.rows; ++r) {
    const std::byte* row = tensor.data + bytes_of(*tensor.element, r * tensor.stride);
    backend.download(packed.data(), row, packed.size());
    unpack_codes(packed, tensor.element->bits,
                 std::span(codes).subspan(static_cast<size_t>(r) * cols, cols));
  }
  return codes;
}

std::string code_dtype(const ElementFormat& element) { return element.bits > 8 ? "U16" : "U8"; }

std::vector<std::byte> code_bytes(const std::vector<uint16_t>& codes,
                                  const ElementFormat& element) {
  const size_t size = element.bits > 8 ? 2 : 1;
  std::vector<std::byte> bytes(codes.size() * size);
  for (size_t i = 0; i < codes.size(); ++i)  // little endian, as everything here
    std::memcpy(bytes.data() + i * size, &codes[i], size);
  return bytes;
}

std::vector<std::byte> scale_bytes_of(const Backend& backend, const Stored& tensor) {
  const size_t count = scale_count(tensor);
  if (count == 0) return {};
  std::vector<std::byte> bytes(count * bytes_of(*tensor.view.scales.element, 1));
  backend.download(bytes.data(), tensor.view.scales.data, bytes.size());
  return bytes;
}

std::vector<float> block_numbers_of(const Backend& backend, const Stored& tensor,
                                    const float* numbers) {
  std::vector<float> values(scale_count(tensor));
  backend.download(values.data(), reinterpret_cast<const std::byte*>(numbers),
                   values.size() * sizeof(float));
  return values;
}

std::vector<float> scales_of(const Backend& backend, const Stored& tensor) {
  const std::vector<std::byte> bytes = scale_bytes_of(backend, tensor);
  std::vector<float> scales(scale_count(tensor));
  for (size_t i = 0; i < scales.size(); ++i) {
    const size_t size = bytes.size() / scales.size();
    uint32_t code = 0;  // little endian, as everything here
    std::memcpy(&code, bytes.data() + i * size, size);
    scales[i] = decode(*tensor.view.scales.element, code);
  }
  return scales;
}

float tensor_scale_of(const Backend& backend, const ConstView& tensor) {
  float scale = 1;
  const auto* const at = reinterpret_cast<const std::byte*>(tensor.scales.tensor);
  if (at != nullptr) backend.download(&scale, at, sizeof scale);
  return scale;
}

size_t put_under_scales(Backend& backend, const Stored& tensor, std::span<const float> values,
                        std::span<const float> scales) {
  const View& view = tensor.view;
  NG_CHECK(std::ssize(values) == view.size() && scales.size() == scale_count(tensor), view.rows,
           view.cols, values.size(), scales.size());
  NG_CHECK(view.scales.tensor == nullptr, view.element->name);
  const ElementCodec codec(*view.element);
  const double largest = max_value(*view.element) * (1 + 0x1p-20);
  std::vector<uint16_t> codes(values.size());
  size_t saturated = 0;
  for_elements(view, [&](size_t i, size_t s) {
    codes[i] = static_cast<uint16_t>(code_under(codec, values[i], scales[s]));
    saturated += std::fabs(values[i]) > largest * scales[s] ? 1 : 0;
  });
  put_codes(backend, view, codes);
  put_scales(backend, view, scales);
  return saturated;
}

void put_state(Run& run, const Stored& tensor, std::span<const float> values) {
  const View& view = tensor.view;
  TemporaryTensor source(run.backend(), view.rows, view.cols);
  source.upload(values);
  run.execute(Store{tensor.rounded_by(Rounding::nearest), source.view(), {}});
  const bool has_fp32_scales = view.has_scales() && tensor.cast.scale == ScaleKind::fp32;
  const bool has_elements = view.scales.coding == Coding::elements;
  if (!has_fp32_scales || view.scales.tensor != nullptr || !has_elements) return;
  put_scales(run.backend(), view, exact_scales(run.backend(), tensor, values));
}

std::vector<float> with_residual(const Backend& backend, const UpdatedWeight& weight) {
  std::vector<float> sums = download(backend, weight.value.view);
  const std::vector<uint16_t> carries = codes_of(backend, weight.carry);
  const std::vector<double> units = residual_units(backend, weight);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = static_cast<float>(sums[i] + decode(*weight.carry.element, carries[i]) * units[i]);
  return sums;
}

std::optional<size_t> put_residual(Backend& backend, const UpdatedWeight& weight,
                                   std::span<const float> x) {
  const std::vector<float> w = download(backend, weight.value.view);
  const std::vector<double> units = residual_units(backend, weight);
  const int bits = weight.carry.element->bits;
  const double half = std::ldexp(1.0, bits - 1);
  std::vector<uint16_t> codes(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double q = std::nearbyint((static_cast<double>(x[i]) - w[i]) / units[i]);
    if (!(q >= -half && q < half)) return i;
    codes[i] = static_cast<uint16_t>(static_cast<int32_t>(q) & ((1 << bits) - 1));
  }
  put_codes(backend, weight.carry, codes);
  return {};
}

}  // namespace ng
