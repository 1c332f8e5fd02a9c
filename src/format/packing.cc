#include "format/packing.h"

#include <algorithm>

#include "base/error.h"

namespace ng {
namespace {

constexpr int64_t kTileRows = 128;
constexpr int64_t kTileCols = 4;
constexpr int64_t kTileBytes = kTileRows * kTileCols;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

void check_bits(int bits) { NG_CHECK(bits >= 1 && bits <= 16, bits); }

/// Number of blocks; the three sizes must agree.
size_t gguf_blocks(const GgufBlock& kind, size_t codes, size_t scales, size_t bytes) {
  const auto elements = static_cast<size_t>(kind.elements);
  const size_t blocks = codes / elements;
  NG_CHECK(codes == blocks * elements, codes, elements);
  NG_CHECK(scales == blocks * static_cast<size_t>(kind.scales), scales, blocks);
  NG_CHECK(bytes == blocks * static_cast<size_t>(kind.bytes()), bytes, blocks);
  return blocks;
}

}  // namespace

size_t packed_bytes(int64_t count, int bits) {
  check_bits(bits);
  NG_CHECK(count >= 0, count);
  // Whole groups of eight codes fill `bits` bytes: nothing overflows that has room in memory.
  const auto whole = static_cast<size_t>(count / 8) * static_cast<size_t>(bits);
  return whole + static_cast<size_t>(ceil_div(count % 8 * bits, 8));
}

void pack_codes(std::span<const uint16_t> codes, int bits, std::span<uint8_t> bytes) {
  NG_CHECK(bytes.size() == packed_bytes(std::ssize(codes), bits), bytes.size(), codes.size(), bits);
  uint32_t string = 0;  // bits not yet written, the first lowest
  int held = 0;
  uint32_t above = 0;
  size_t at = 0;
  for (const uint16_t code : codes) {
    above |= static_cast<uint32_t>(code) >> bits;
    string |= static_cast<uint32_t>(code) << held;
    for (held += bits; held >= 8; held -= 8, string >>= 8) bytes[at++] = string & 0xFF;
  }
  if (held > 0) bytes[at] = string & 0xFF;
  NG_CHECK(above == 0, bits);
}

void unpack_codes(std::span<const uint8_t> bytes, int bits, std::span<uint16_t> codes) {
  NG_CHECK(bytes.size() == packed_bytes(std::ssize(codes), bits), bytes.size(), codes.size(), bits);
  const uint32_t mask = (1u << bits) - 1;
  uint32_t string = 0;
  int held = 0;
  size_t at = 0;
  for (uint16_t& code : codes) {
    for (; held < bits; held += 8) string |= static_cast<uint32_t>(bytes[at++]) << held;
    code = static_cast<uint16_t>(string & mask);
    string >>= bits;
    held -= bits;
  }
}

size_t swizzled_bytes(const ScaleShape& shape) {
  NG_CHECK(shape.rows >= 0 && shape.cols >= 0, shape.rows, shape.cols);
  return static_cast<size_t>(ceil_div(shape.rows, kTileRows) * ceil_div(shape.cols, kTileCols) *
                             kTileBytes);
}

size_t swizzled_offset(const ScaleShape& shape, int64_t row, int64_t col) {
  const int64_t tile = row / kTileRows * ceil_div(shape.cols, kTileCols) + col / kTileCols;
  return static_cast<size_t>(tile * kTileBytes + row % 32 * 16 + row % kTileRows / 32 * 4 +
                             col % kTileCols);
}

void swizzle_scales(const ScaleShape& shape, std::span<const uint8_t> scales,
                    std::span<uint8_t> swizzled) {
  NG_CHECK(std::ssize(scales) == shape.rows * shape.cols, scales.size(), shape.rows, shape.cols);
  NG_CHECK(swizzled.size() == swizzled_bytes(shape), swizzled.size(), shape.rows, shape.cols);
  std::fill(swizzled.begin(), swizzled.end(), uint8_t{0});
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t col = 0; col < shape.cols; ++col)
      swizzled[swizzled_offset(shape, row, col)] =
          scales[static_cast<size_t>(row * shape.cols + col)];
}

void unswizzle_scales(const ScaleShape& shape, std::span<const uint8_t> swizzled,
                      std::span<uint8_t> scales) {
  NG_CHECK(std::ssize(scales) == shape.rows * shape.cols, scales.size(), shape.rows, shape.cols);
  NG_CHECK(swizzled.size() == swizzled_bytes(shape), swizzled.size(), shape.rows, shape.cols);
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t col = 0; col < shape.cols; ++col)
      scales[static_cast<size_t>(row * shape.cols + col)] =
          swizzled[swizzled_offset(shape, row, col)];
}

void pack_gguf(const GgufBlock& kind, std::span<const uint16_t> codes,
               std::span<const uint8_t> scales, std::span<uint8_t> blocks) {
  const size_t count = gguf_blocks(kind, codes.size(), scales.size(), blocks.size());
  const auto half = static_cast<ptrdiff_t>(kind.group / 2);
  uint32_t above = 0;
  auto scale = scales.begin();
  auto code = codes.begin();
  auto out = blocks.begin();
  for (size_t b = 0; b < count; ++b) {
    out = std::copy_n(scale, kind.scales, out);
    scale += kind.scales;
    for (int first = 0; first < kind.elements; first += kind.group, code += kind.group) {
      for (ptrdiff_t j = 0; j < half; ++j) {
        const uint32_t low = code[j];
        const uint32_t high = code[j + half];
        above |= (low | high) >> 4;
        *out++ = static_cast<uint8_t>(low | high << 4);
      }
    }
  }
  NG_CHECK(above == 0, kind.elements);
}

void unpack_gguf(const GgufBlock& kind, std::span<const uint8_t> blocks, std::span<uint16_t> codes,
                 std::span<uint8_t> scales) {
  const size_t count = gguf_blocks(kind, codes.size(), scales.size(), blocks.size());
  const auto half = static_cast<ptrdiff_t>(kind.group / 2);
  auto scale = scales.begin();
  auto code = codes.begin();
  auto in = blocks.begin();
  for (size_t b = 0; b < count; ++b) {
    scale = std::copy_n(in, kind.scales, scale);
    in += kind.scales;
    for (int first = 0; first < kind.elements; first += kind.group, code += kind.group) {
      for (ptrdiff_t j = 0; j < half; ++j, ++in) {
        code[j] = *in & 0xF;
        code[j + half] = *in >> 4;
      }
    }
  }
}

}  // namespace ng
