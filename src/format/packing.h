// How codes and scales lie in files and in the memory of other libraries: bit strings of codes, the
// scale layout of Blackwell's tensor cores, the FP4 blocks of GGUF. Layout only: no code changes
// its bits. [formats.md §3.5]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ng {

// ---------------------------------------------------------------- bit strings

/// Bytes of `count` packed codes: ⌈count · bits / 8⌉.
[[nodiscard]] size_t packed_bytes(int64_t count, int bits);

/// Codes of 1 to 16 bits as one little-endian bit string: element i in bits bits·i ...
/// bits·i + bits - 1. So FP4 and int4 lie two in a byte, the even element low, FP6 four in three
/// bytes, 8 bits one by one, 16 bits low byte first. The unused bits of the last byte are 0.
/// bytes.size() == packed_bytes(codes.size(), bits); no code has more than `bits` bits.
void pack_codes(std::span<const uint16_t> codes, int bits, std::span<uint8_t> bytes);

/// The reverse: codes.size() codes from their packed_bytes. The unused bits are not looked at.
void unpack_codes(std::span<const uint8_t> bytes, int bits, std::span<uint16_t> codes);

// ---------------------------------------------------------------- swizzled scales

/// A row-major array of scale codes: one row per row of the operand, one column per block along K.
struct ScaleShape {
  int64_t rows = 0;
  int64_t cols = 0;
};

/// The layout that Blackwell's tensor cores and cuBLAS read: tiles of 128 rows × 4 columns, 512
/// bytes each, zeros where a tile leaves the array. Bytes of the whole:
/// ⌈rows / 128⌉ · ⌈cols / 4⌉ · 512.
[[nodiscard]] size_t swizzled_bytes(const ScaleShape& shape);

/// Byte of scale (row, col): tile, then row % 32 in steps of 16, then the quarter of the tile's
/// rows in steps of 4, then col % 4.
[[nodiscard]] size_t swizzled_offset(const ScaleShape& shape, int64_t row, int64_t col);

/// scales.size() == rows · cols, swizzled.size() == swizzled_bytes(shape).
void swizzle_scales(const ScaleShape& shape, std::span<const uint8_t> scales,
                    std::span<uint8_t> swizzled);
void unswizzle_scales(const ScaleShape& shape, std::span<const uint8_t> swizzled,
                      std::span<uint8_t> scales);

// ---------------------------------------------------------------- GGUF

/// A kind of GGUF block: `scales` bytes, then two E2M1 codes per byte. Its elements form groups;
/// byte j of a group of n holds element j low and element j + n/2 high.
struct GgufBlock {
  int elements = 0;
  int group = 0;   ///< elements that lie together
  int scales = 0;  ///< bytes of scales in front, one per elements / scales elements

  [[nodiscard]] constexpr int bytes() const { return scales + elements / 2; }
};

/// MXFP4: 17 bytes of 32 elements and their E8M0 code. GGUF halves the scale and doubles the
/// elements, so the byte is the E8M0 code of formats.md §3.1; it has no NaN there.
inline constexpr GgufBlock kGgufMxfp4 = {.elements = 32, .group = 32, .scales = 1};

/// NVFP4: 36 bytes of 64 elements and the four UE4M3 codes of their blocks of 16. The scale of the
/// tensor is another tensor of the file. GGUF reads the code 7F as 0.
inline constexpr GgufBlock kGgufNvfp4 = {.elements = 64, .group = 16, .scales = 4};

/// codes: a whole number of blocks; scales: scales per block of it; blocks: bytes() per block.
/// A row whose length is no multiple of a block's elements has no GGUF form.
void pack_gguf(const GgufBlock& kind, std::span<const uint16_t> codes,
               std::span<const uint8_t> scales, std::span<uint8_t> blocks);
void unpack_gguf(const GgufBlock& kind, std::span<const uint8_t> blocks, std::span<uint16_t> codes,
                 std::span<uint8_t> scales);

}  // namespace ng
