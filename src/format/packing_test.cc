#include "format/packing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "format/codec.h"
#include "format/scale.h"
#include "io/safetensors.h"

namespace ng {
namespace {

using Codes = std::vector<uint16_t>;
using Bytes = std::vector<uint8_t>;

Bytes packed(const Codes& codes, int bits) {
  Bytes bytes(packed_bytes(std::ssize(codes), bits), 0xEE);
  pack_codes(codes, bits, bytes);
  return bytes;
}

Codes unpacked(const Bytes& bytes, int bits, size_t count) {
  Codes codes(count, 0xEEEE);
  unpack_codes(bytes, bits, codes);
  return codes;
}

void expect_both_ways(const Codes& codes, int bits, const Bytes& bytes) {
  EXPECT_EQ(packed(codes, bits), bytes) << bits;
  EXPECT_EQ(unpacked(bytes, bits, codes.size()), codes) << bits;
}

/// Numbers that look random, below 2^bits.
Codes some_codes(size_t count, int bits) {
  Codes codes(count);
  uint32_t state = static_cast<uint32_t>(count) * 2654435761u + static_cast<uint32_t>(bits);
  for (uint16_t& code : codes) {
    state = state * 1664525u + 1013904223u;
    code = static_cast<uint16_t>(state >> (32 - bits));
  }
  return codes;
}

// The worked bytes of formats.md §3.5.
TEST(PackCodes, BytesOfTheSpecification) {
  expect_both_ways({0x7, 0xC, 0x1, 0x2, 0xE, 0x0, 0x2, 0x8}, 4, {0xC7, 0x21, 0x0E, 0x82});
  expect_both_ways({0x1C, 0x30, 0x00, 0x1C}, 6, {0x1C, 0x0C, 0x70});
  expect_both_ways({0x1E, 0x38, 0x03, 0x1E}, 6, {0x1E, 0x3E, 0x78});
  expect_both_ways({0x7E, 0x45, 0x85, 0x01}, 8, {0x7E, 0x45, 0x85, 0x01});
  expect_both_ways({0x1234, 0xABCD}, 16, {0x34, 0x12, 0xCD, 0xAB});
}

TEST(PackCodes, Fp6FollowsTheFormulaOfTheBytes) {
  const Codes v = some_codes(4, 6);
  const Bytes b = packed(v, 6);
  EXPECT_EQ(b[0], (v[0] | v[1] << 6) & 0xFF);
  EXPECT_EQ(b[1], (v[1] >> 2 | v[2] << 4) & 0xFF);
  EXPECT_EQ(b[2], (v[2] >> 4 | v[3] << 2) & 0xFF);
}

TEST(PackCodes, AnyWidthAndLengthIsABitString) {
  for (int bits = 1; bits <= 16; ++bits) {
    for (size_t count = 0; count < 40; ++count) {
      const Codes codes = some_codes(count, bits);
      const Bytes bytes = packed(codes, bits);
      ASSERT_EQ(bytes.size(), (count * static_cast<size_t>(bits) + 7) / 8);
      size_t at = 0;
      for (const uint16_t code : codes)
        for (int bit = 0; bit < bits; ++bit, ++at)
          ASSERT_EQ(bytes[at / 8] >> at % 8 & 1, code >> bit & 1) << bits << " " << count;
      for (; at < bytes.size() * 8; ++at) ASSERT_EQ(bytes[at / 8] >> at % 8 & 1, 0) << bits;
      ASSERT_EQ(unpacked(bytes, bits, count), codes) << bits << " " << count;
    }
  }
}

TEST(PackCodes, SizesThatDisagreeAndCodesTooLargeAreRefused) {
  Bytes bytes(2);
  EXPECT_THROW(pack_codes(Codes{1, 2, 3, 4, 5}, 4, bytes), InternalError);
  EXPECT_THROW(pack_codes(Codes{1, 16, 3, 4}, 4, bytes), InternalError);
  Codes codes(5);
  EXPECT_THROW(unpack_codes(bytes, 4, codes), InternalError);
  EXPECT_THROW((void)packed_bytes(4, 17), InternalError);
  EXPECT_EQ(packed_bytes(INT64_MAX, 4), size_t{1} << 62);
}

io::Safetensors golden() {
  return io::Safetensors(NG_SOURCE_DIR "/tests/golden/packing/packing.safetensors");
}

Bytes bytes_of(const io::SafetensorsEntry& entry) {
  Bytes bytes(entry.bytes);
  entry.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

TEST(SwizzleScales, EveryGoldenArrayBothWays) {
  const io::Safetensors file = golden();
  int arrays = 0;
  for (const io::SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.ends_with(".scales")) continue;
    const ScaleShape shape = {entry.shape.at(0), entry.shape.at(1)};
    const Bytes scales = bytes_of(entry);
    const std::string name = entry.name.substr(0, entry.name.find('.'));
    const Bytes expected = bytes_of(file.at(name + ".swizzled"));
    ASSERT_EQ(expected.size(), swizzled_bytes(shape)) << name;
    Bytes swizzled(expected.size(), 0xEE);
    swizzle_scales(shape, scales, swizzled);
    EXPECT_EQ(swizzled, expected) << name;
    Bytes back(scales.size());
    unswizzle_scales(shape, swizzled, back);
    EXPECT_EQ(back, scales) << name;
    ++arrays;
  }
  EXPECT_EQ(arrays, 5);
}

// offset(r,c) = ((r/128)·ceil(cols/4) + c/4)·512 + (r%32)·16 + ((r%128)/32)·4 + c%4
TEST(SwizzleScales, OffsetsOfTheSpecification) {
  const ScaleShape shape = {300, 10};
  EXPECT_EQ(swizzled_bytes(shape), 3U * 3 * 512);
  EXPECT_EQ(swizzled_offset(shape, 0, 0), 0U);
  EXPECT_EQ(swizzled_offset(shape, 1, 0), 16U);
  EXPECT_EQ(swizzled_offset(shape, 32, 3), 7U);
  EXPECT_EQ(swizzled_offset(shape, 127, 9), 2U * 512 + 31 * 16 + 3 * 4 + 1);
  EXPECT_EQ(swizzled_offset(shape, 299, 5), (2U * 3 + 1) * 512 + 11 * 16 + 1 * 4 + 1);
  EXPECT_EQ(swizzled_bytes({0, 7}), 0U);
}

struct Unpacked {
  Codes codes;
  Bytes scales;
};

Unpacked from_gguf(const GgufBlock& kind, const Bytes& blocks) {
  const size_t count = blocks.size() / static_cast<size_t>(kind.bytes());
  Unpacked out{Codes(count * static_cast<size_t>(kind.elements)),
               Bytes(count * static_cast<size_t>(kind.scales))};
  unpack_gguf(kind, blocks, out.codes, out.scales);
  return out;
}

void expect_gguf_values(const GgufBlock& kind, const std::string& name) {
  const io::Safetensors file = golden();
  const Bytes blocks = bytes_of(file.at(name + ".blocks"));
  const std::vector<float> expected = io::to_floats(file.at(name + ".values"));
  const Unpacked data = from_gguf(kind, blocks);
  ASSERT_EQ(data.codes.size(), expected.size());
  const bool mx = name == "mxfp4";
  const size_t per_scale = data.codes.size() / data.scales.size();
  for (size_t i = 0; i < expected.size(); ++i) {
    const uint8_t code = data.scales[i / per_scale];
    const float scale = mx ? e8m0_value(code) : decode(element_format("ue4m3"), code);
    EXPECT_EQ(decode(element_format("e2m1"), data.codes[i]) * scale, expected[i]) << name << i;
  }
  Bytes again(blocks.size());
  pack_gguf(kind, data.codes, data.scales, again);
  EXPECT_EQ(again, blocks) << name;
}

TEST(Gguf, ValuesAreThoseThatGgufReads) {
  expect_gguf_values(kGgufMxfp4, "mxfp4");
  expect_gguf_values(kGgufNvfp4, "nvfp4");
}

TEST(Gguf, BlocksAreThoseThatGgufWrites) {
  const io::Safetensors file = golden();
  const std::vector<float> x = io::to_floats(file.at("quantized.x"));
  const Bytes expected = bytes_of(file.at("quantized.blocks"));
  const ElementFormat& e2m1 = element_format("e2m1");
  Codes codes(x.size());
  Bytes scales(x.size() / 32);
  for (size_t i = 0; i < x.size(); ++i) {
    uint8_t& scale = scales[i / 32];
    if (i % 32 == 0)  // the first of a block is its largest
      scale = static_cast<uint8_t>(
          e8m0_code(e8m0_exponent(ScaleRule::floor, std::fabs(x[i]), range_of(e2m1))));
    codes[i] = static_cast<uint16_t>(encode(e2m1, x[i] * e8m0_multiplier(scale)));
    if (x[i] == 0) codes[i] = 0;  // gguf has no negative zero
  }
  Bytes blocks(expected.size());
  pack_gguf(kGgufMxfp4, codes, scales, blocks);
  EXPECT_EQ(blocks, expected);
}

TEST(Gguf, ElementsLieInTheHalvesOfTheirGroup) {
  Codes codes(64, 0);
  codes[1] = 0x3;   // group 0: byte 1 low
  codes[9] = 0x4;   // group 0: byte 1 high
  codes[63] = 0xF;  // group 3: byte 7 high
  Bytes blocks(36);
  pack_gguf(kGgufNvfp4, codes, Bytes{0x38, 0x39, 0x3A, 0x7E}, blocks);
  Bytes expected(36, 0);
  expected[0] = 0x38, expected[1] = 0x39, expected[2] = 0x3A, expected[3] = 0x7E;
  expected[4 + 1] = 0x43;
  expected[35] = 0xF0;
  EXPECT_EQ(blocks, expected);
}

TEST(Gguf, PartsOfBlocksAreRefused) {
  Bytes blocks(17);
  EXPECT_THROW(pack_gguf(kGgufMxfp4, Codes(31), Bytes(1), blocks), InternalError);
  EXPECT_THROW(pack_gguf(kGgufMxfp4, Codes(32, 16), Bytes(1), blocks), InternalError);
  EXPECT_THROW(pack_gguf(kGgufMxfp4, Codes(32), Bytes(2), blocks), InternalError);
}

}  // namespace
}  // namespace ng
