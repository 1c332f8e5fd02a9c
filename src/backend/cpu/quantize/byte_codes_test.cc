// Codes of whole rows against the encoder, for every number of every element, on every instruction
// set.
#include "backend/cpu/quantize/byte_codes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/packed.h"
#include "format/codec.h"
#include "format/exmy.h"

namespace ng::cpu {
namespace {

/// Those of the table and some that are made up.
std::vector<const ElementFormat*> byte_elements() {
  std::vector<const ElementFormat*> elements;
  for (const ElementFormat& element : element_formats())
    if (element.bits <= 8 && element.kind != ElementKind::power) elements.push_back(&element);
  for (const char* name : {"e1m2", "e2m0", "e2m5", "e5m0", "e6m1", "e3m2"})
    elements.push_back(&element_format(name));
  return elements;
}

/// By the encoder, of which numbers of the element are fixed points.
std::vector<uint16_t> table_of(const ElementFormat& element) {
  std::vector<uint16_t> table(1 << 16);
  for (uint32_t pattern = 0; pattern < table.size(); ++pattern)
    table[pattern] = static_cast<uint16_t>(
        encode(element, float_of_bits(pattern << 16), {}, OverflowRule::special));
  return table;
}

/// Numbers in any order, more than fill the widest registers, and a rest.
template <class Value>
std::vector<Value> shuffled(const std::vector<Value>& numbers) {
  std::mt19937 random(3);
  std::vector<Value> row(1000);
  for (Value& value : row) value = numbers[random() % numbers.size()];
  return row;
}

TEST(ByteCodes, OfPatternsAreTheEncoders) {
  int tried = 0;
  for (const ElementFormat* element : byte_elements()) {
    if (!has_pattern_codes(*element)) continue;
    ++tried;
    const std::vector<uint16_t> table = table_of(*element);
    const PatternCodes rule = pattern_codes(*element, table.data());
    std::vector<uint16_t> finite = {0x0000, 0x8000}, all = {0x7F80, 0xFF80, 0x7FC0, 0xFFC1};
    for (uint32_t code = 0; code < code_count(*element); ++code) {
      const float value = decode(*element, code);
      const auto pattern = static_cast<uint16_t>(float_bits(value) >> 16);
      if (std::isfinite(value)) finite.push_back(pattern);
      all.push_back(pattern);
    }
    for (const std::vector<uint16_t>& numbers : {finite, all}) {
      const std::vector<uint16_t> row = shuffled(numbers);
      on_every_isa([&] {
        std::vector<uint8_t> codes(row.size() + 1, 0xAB);
        codes_of_patterns(rule, row.data(), std::ssize(row), codes.data());
        for (size_t i = 0; i < row.size(); ++i)
          ASSERT_EQ(codes[i], table[row[i]]) << element->name << " of pattern " << row[i];
        EXPECT_EQ(codes.back(), 0xAB);
      });
    }
  }
  EXPECT_GE(tried, 12);
}

TEST(ByteCodes, OfIntegersAreTheTables) {
  std::mt19937 random(5);
  IntegerCodes table;
  for (uint8_t& code : table.codes) code = static_cast<uint8_t>(random());
  for (const uint16_t used : {0xFFFF, 0x8001, 0x0010}) {
    table.used = used;
    std::vector<int8_t> numbers;
    for (int i = 0; i < 256; ++i)
      if ((used >> (i >> 4) & 1) != 0) numbers.push_back(static_cast<int8_t>(i));
    const std::vector<int8_t> row = shuffled(numbers);
    on_every_isa([&] {
      std::vector<uint8_t> codes(row.size() + 1, 0xAB);
      codes_of_integers(table, row.data(), std::ssize(row), codes.data());
      for (size_t i = 0; i < row.size(); ++i)
        ASSERT_EQ(codes[i], table.codes[static_cast<uint8_t>(row[i])]) << int{row[i]};
      EXPECT_EQ(codes.back(), 0xAB);
    });
  }
}

}  // namespace
}  // namespace ng::cpu
