#include "run/transfer.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "format/codec.h"
#include "format/dynamic_map.h"
#include "format/expansion.h"
#include "format/packing.h"

namespace ng {
namespace {

Operand cast_to(const ElementFormat& element) {
  Operand cast;
  cast.element = &element;
  return cast;
}

// Bytes of the first `count` elements of a row, where those are whole.
size_t row_bytes(const ConstView& view, size_t count) {
  NG_CHECK(view.element->bits % 8 == 0 && view.is_plain(), view.element->name);
  NG_CHECK(static_cast<int64_t>(count) <= view.cols, count, view.cols);
  return bytes_of(*view.element, static_cast<int64_t>(count));
}

// Of numbers of blocks, those of a row.
std::vector<float> numbers_of_row(const Backend& backend, const ConstView& view, int64_t row,
                                  const std::byte* numbers, const ElementFormat& element) {
  const int64_t first = view.scale_index(row, 0), last = view.scale_index(row, view.cols - 1);
  const size_t size = bytes_of(element, 1);
  std::vector<std::byte> stored(static_cast<size_t>(last - first + 1) * size);
  backend.download(stored.data(), numbers + static_cast<size_t>(first) * size, stored.size());
  std::vector<float> scales;
  for (size_t i = 0; i < stored.size() / size; ++i) {
    uint32_t code = 0;  // little endian, as everything here
    std::memcpy(&code, stored.data() + i * size, size);
    scales.push_back(decode(element, code));
  }
  return scales;
}

// The decode multipliers of the blocks of a row.
std::vector<float> scales_of_row(const Backend& backend, const ConstView& view, int64_t row) {
  return numbers_of_row(backend, view, row, view.scales.data, *view.scales.element);
}

// Of codes that stand for a power of the values. [format/expansion.h]
void contract_row(const Backend& backend, const ConstView& view, int64_t row,
                  std::span<const uint16_t> codes, std::span<float> out) {
  const auto numbers_of = [&](const float* numbers) {
    return numbers_of_row(backend, view, row, reinterpret_cast<const std::byte*>(numbers),
                          fp32_format());
  };
  const std::vector<float> scales = scales_of_row(backend, view, row),
                           powers = numbers_of(view.scales.power),
                           centers = numbers_of(view.scales.center);
  const int64_t first = view.scale_index(row, 0);
  std::optional<ExpandedValues> values;  // of the block that the last one was in
  size_t block = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<size_t>(view.scale_index(row, static_cast<int64_t>(i)) - first);
    if (!values || at != block)
      values.emplace(Expansion{.scale = scales[at], .power = powers[at], .center = centers[at]});
    block = at;
    out[i] = values->value(static_cast<uint8_t>(codes[i]));
  }
}

// What the low parts add. [Operand::parts]
void add_low_row(const Backend& backend, const ConstView& view, int64_t row, std::span<float> out) {
  std::vector<float> lost(out.size());
  download_row(backend, low_part(view), row, lost);
  for (size_t i = 0; i < out.size(); ++i) out[i] += lost[i];
}

// fl32(fl32(element · scale) · tensor scale)
void scale_row(const Backend& backend, const ConstView& view, int64_t row, std::span<float> out) {
  const std::vector<float> scales = scales_of_row(backend, view, row);
  float tensor = 1;
  if (view.scales.tensor != nullptr)
    backend.download(&tensor, reinterpret_cast<const std::byte*>(view.scales.tensor),
                     sizeof tensor);
  const int64_t first = view.scale_index(row, 0);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t at = view.scale_index(row, static_cast<int64_t>(i)) - first;
    out[i] = out[i] * scales[static_cast<size_t>(at)] * tensor;
  }
}

/// FP32 row by row without gaps: one copy, where a card waits for each.
bool lies_as_here(const ConstView& view) {
  return view.is(fp32_format()) && view.is_plain() && view.stride == view.cols;
}

}  // namespace

void download_row(const Backend& backend, const ConstView& view, int64_t row,
                  std::span<float> out) {
  const auto cols = static_cast<int64_t>(out.size());
  NG_CHECK(row >= 0 && row < view.rows && cols <= view.cols, row, view.rows, cols, view.cols);
  const std::byte* from = view.data + bytes_of(*view.element, row * view.stride);
  const size_t bytes = bytes_of(*view.element, cols);
  if (view.is(fp32_format()) && !view.has_scales())
    return backend.download(out.data(), from, bytes);
  const ElementCodec codec(*view.element);
  const Coding coding = view.scales.coding;
  std::vector<uint8_t> stored(bytes);
  backend.download(stored.data(), from, bytes);
  if (view.element->bits > 16) {
    std::memcpy(out.data(), stored.data(), bytes);
  } else {
    std::vector<uint16_t> codes(out.size());
    unpack_codes(stored, view.element->bits, codes);
    if (coding == Coding::expanded) return contract_row(backend, view, row, codes, out);
    const auto& map = DynamicMap::of(coding == Coding::positive_dynamic).values();
    std::transform(codes.begin(), codes.end(), out.begin(), [&](uint16_t code) {
      return coding == Coding::elements ? codec.decode(code) : map[code];
    });
  }
  if (view.low != nullptr) add_low_row(backend, view, row, out);
  if (view.has_scales()) scale_row(backend, view, row, out);
}

std::vector<float> download(const Backend& backend, const ConstView& view) {
  std::vector<float> values(static_cast<size_t>(view.size()));
  if (lies_as_here(view)) {
    backend.download(values.data(), view.data, values.size() * sizeof(float));
    return values;
  }
  const auto cols = static_cast<size_t>(view.cols);
  for (int64_t row = 0; row < view.rows; ++row)
    download_row(backend, view, row,
                 std::span(values).subspan(static_cast<size_t>(row) * cols, cols));
  return values;
}

void upload_row(Backend& backend, const View& view, int64_t row, std::span<const float> values) {
  const size_t bytes = row_bytes(view, values.size());
  std::byte* to = view.slice(row, 1).data;
  if (view.is(fp32_format())) return backend.upload(to, values.data(), bytes);
  std::vector<std::byte> stored(bytes);
  const size_t size = bytes / std::max<size_t>(values.size(), 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t code = encode(*view.element, values[i], {}, OverflowRule::special);
    std::memcpy(stored.data() + i * size, &code, size);
  }
  backend.upload(to, stored.data(), bytes);
}

TemporaryTensor::TemporaryTensor(Backend& backend, const ElementFormat& element, int64_t rows,
                                 int64_t cols)
    : TemporaryTensor(backend, cast_to(element), rows, cols) {}

TemporaryTensor::TemporaryTensor(Backend& backend, const Operand& cast, int64_t rows, int64_t cols)
    : backend_(backend),
      cast_(cast),
      elements_(backend, static_cast<size_t>(rows) *
                             bytes_of(*cast.element, tight_stride(*cast.element, cols))),
      view_{elements_.data(), *cast.element, rows, cols, tight_stride(*cast.element, cols)} {
  NG_CHECK(!cast.is_coded(), describe(cast));
  if (cast.is_unscaled()) return;
  const ScaleShape shape = scale_shape(cast, rows, cols);
  scales_.emplace(backend, bytes_of(scale_element(cast), shape.rows * shape.cols));
  view_.scales = {scales_->data(), &scale_element(cast), cast.block, nullptr};
  if (cast.tensor_scale == ScaleKind::none) return;
  tensor_scale_.emplace(backend, sizeof(float));
  view_.scales.tensor = tensor_scale_->floats();
}

void TemporaryTensor::upload(std::span<const float> values) {
  const auto cols = static_cast<size_t>(view_.cols);
  NG_CHECK(std::ssize(values) == view_.size(), values.size(), view_.rows, view_.cols);
  if (lies_as_here(view_))
    return backend_.upload(elements_.data(), values.data(), values.size_bytes());
  for (int64_t row = 0; row < view_.rows; ++row)
    upload_row(backend_, view_, row, values.subspan(static_cast<size_t>(row) * cols, cols));
}

std::vector<float> TemporaryTensor::download() const { return ng::download(backend_, view_); }

}  // namespace ng
