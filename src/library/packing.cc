#include "format/packing.h"

#include <narrowgauge/packing.h>

#include "library/access.h"

namespace narrowgauge {
namespace {

constexpr int64_t kMostCodes = int64_t{1} << 48;

void check_bits(int bits) {
  require(bits >= 1 && bits <= 16, fmt::format("codes of {} bits", bits), "1 to 16");
}

void check_codes(std::span<const uint16_t> codes, int bits) {
  for (const uint16_t code : codes)
    require(code >> bits == 0, fmt::format("code {} in {} bits", code, bits),
            fmt::format("below {}", 1 << bits));
}

void check_size(const char* what, size_t size, size_t expected) {
  require(size == expected, fmt::format("{} {}", size, what), fmt::format("{}", expected));
}

ng::ScaleShape shape_of(int64_t rows, int64_t cols) {
  require(rows >= 0 && cols >= 0 && rows <= kMostCodes && cols <= kMostCodes &&
              (rows == 0 || cols <= kMostCodes / rows),
          fmt::format("an array of {} x {}", rows, cols), "sizes from 0, at most 2^48 scales");
  return {rows, cols};
}

const ng::GgufBlock& block_of(Gguf kind) {
  return kind == Gguf::mxfp4 ? ng::kGgufMxfp4 : ng::kGgufNvfp4;
}

}  // namespace

std::vector<uint8_t> pack_codes(std::span<const uint16_t> codes, int bits) {
  check_bits(bits);
  check_codes(codes, bits);
  std::vector<uint8_t> bytes(ng::packed_bytes(std::ssize(codes), bits));
  ng::pack_codes(codes, bits, bytes);
  return bytes;
}

std::vector<uint16_t> unpack_codes(std::span<const uint8_t> bytes, int bits, int64_t count) {
  check_bits(bits);
  require(count >= 0 && count <= kMostCodes, fmt::format("{} codes", count), "0 to 2^48");
  check_size("bytes", bytes.size(), ng::packed_bytes(count, bits));
  std::vector<uint16_t> codes(static_cast<size_t>(count));
  ng::unpack_codes(bytes, bits, codes);
  return codes;
}

std::vector<uint8_t> swizzle_scales(std::span<const uint8_t> scales, int64_t rows, int64_t cols) {
  const ng::ScaleShape shape = shape_of(rows, cols);
  check_size("scales", scales.size(), static_cast<size_t>(rows * cols));
  std::vector<uint8_t> swizzled(ng::swizzled_bytes(shape));
  ng::swizzle_scales(shape, scales, swizzled);
  return swizzled;
}

std::vector<uint8_t> unswizzle_scales(std::span<const uint8_t> swizzled, int64_t rows,
                                      int64_t cols) {
  const ng::ScaleShape shape = shape_of(rows, cols);
  check_size("bytes", swizzled.size(), ng::swizzled_bytes(shape));
  std::vector<uint8_t> scales(static_cast<size_t>(rows * cols));
  ng::unswizzle_scales(shape, swizzled, scales);
  return scales;
}

std::vector<uint8_t> pack_gguf(Gguf kind, std::span<const uint16_t> codes,
                               std::span<const uint8_t> scales) {
  const ng::GgufBlock& block = block_of(kind);
  check_codes(codes, 4);
  const size_t count = codes.size() / static_cast<size_t>(block.elements);
  require(codes.size() % static_cast<size_t>(block.elements) == 0,
          fmt::format("{} codes", codes.size()), fmt::format("a multiple of {}", block.elements));
  check_size("scales", scales.size(), count * static_cast<size_t>(block.scales));
  std::vector<uint8_t> blocks(count * static_cast<size_t>(block.bytes()));
  ng::pack_gguf(block, codes, scales, blocks);
  return blocks;
}

CodesAndScales unpack_gguf(Gguf kind, std::span<const uint8_t> blocks) {
  const ng::GgufBlock& block = block_of(kind);
  const size_t count = blocks.size() / static_cast<size_t>(block.bytes());
  require(blocks.size() % static_cast<size_t>(block.bytes()) == 0,
          fmt::format("{} bytes", blocks.size()), fmt::format("a multiple of {}", block.bytes()));
  CodesAndScales out;
  out.codes.resize(count * static_cast<size_t>(block.elements));
  out.scales.resize(count * static_cast<size_t>(block.scales));
  ng::unpack_gguf(block, blocks, out.codes, out.scales);
  return out;
}

}  // namespace narrowgauge
