#include "comm/gradient_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/packing.h"
#include "format/scale.h"

namespace ng {
namespace {

float scale_at(const ConstView& x, int64_t at) {
  const size_t size = bytes_of(*x.scales.element, 1);
  uint32_t code = 0;  // little endian, as everything here
  std::memcpy(&code, x.scales.data + static_cast<size_t>(at) * size, size);
  return decode(*x.scales.element, code);
}

}  // namespace

GradientDecoder::GradientDecoder(const ElementFormat& element) : element_(element) {
  if (element.bits <= 16) table_ = decode_table(element);
}

void GradientDecoder::decode_row(const std::byte* row, std::span<float> out) const {
  if (element_ == fp32_format()) {
    std::memcpy(out.data(), row, out.size_bytes());
    return;
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(row);
  if (element_.bits == 8) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = table_[bytes[i]];
    return;
  }
  std::vector<uint16_t> codes(out.size());
  unpack_codes({bytes, bytes_of(element_, std::ssize(out))}, element_.bits, codes);
  for (size_t i = 0; i < out.size(); ++i) out[i] = table_[codes[i]];
}

std::vector<float> GradientDecoder::values(const ReceivedPiece& piece) const {
  const ConstView& x = piece.view;
  std::vector<float> values(static_cast<size_t>(x.size()));
  for (int64_t r = 0; r < x.rows; ++r) {
    const std::span<float> row =
        std::span(values).subspan(static_cast<size_t>(r * x.cols), static_cast<size_t>(x.cols));
    decode_row(x.data + bytes_of(element_, r * x.stride), row);
    if (!x.has_scales()) continue;
    const bool is_tile = x.scales.block.kind == Block::Kind::tile;
    const int64_t width = is_tile ? x.scales.block.cols : x.cols;
    for (int64_t c = 0; c < x.cols; c += width) {
      const float scale = scale_at(x, x.scale_index(r, c));
      for (float& value :
           row.subspan(static_cast<size_t>(c), static_cast<size_t>(std::min(width, x.cols - c))))
        value = value * scale * piece.level;
    }
  }
  return values;
}

uint64_t count_largest(const ConstView& elements) {
  NG_CHECK(elements.element->bits == 8, elements.element->name);
  const ElementCodec codec(*elements.element);
  const float max = range_of(*elements.element).max;
  std::array<uint64_t, 256> is_largest{};
  for (uint32_t code = 0; code < is_largest.size(); ++code)
    is_largest[code] = std::fabs(codec.decode(code)) == max ? 1 : 0;
  uint64_t count = 0;
  for (int64_t r = 0; r < elements.rows; ++r)
    for (int64_t c = 0; c < elements.cols; ++c)
      count += is_largest[static_cast<uint8_t>(elements.data[r * elements.stride + c])];
  return count;
}

}  // namespace ng
