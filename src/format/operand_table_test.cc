#include "format/operand_table.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace ng {
namespace {

const OperandKey& key_of(std::string_view path) {
  for (const OperandKey& key : operand_keys())
    if (key.path == path) return key;
  throw std::logic_error("no such key");
}

/// `operand` with a key as a word says it.
Operand with(Operand operand, const OperandKey& key, const std::string& word) {
  const toml::table table = parse_toml(key.path + " = " + toml_of(key, word), "test");
  read_keys(operand, table, operand_keys());
  return operand;
}

TEST(OperandTable, ListedValuesAreReadPrintedAndSaid) {
  for (const OperandKey& key : operand_keys())
    for (const std::string_view value : key.values) {
      const Operand operand = with(operand_of("fp32"), key, std::string(value));
      EXPECT_EQ(word_of(key, operand), value) << key.path;
      EXPECT_EQ(key.print(operand), toml_of(key, std::string(value))) << key.path;
    }
}

TEST(OperandTable, WordsOfEveryKindBecomeToml) {
  EXPECT_EQ(toml_of(key_of("block"), "16x032"), "[16, 32]");
  EXPECT_EQ(toml_of(key_of("block"), "row"), "\"row\"");
  EXPECT_EQ(toml_of(key_of("block"), "1x2x3"), "\"1x2x3\"");
  EXPECT_EQ(toml_of(key_of("sr_bits"), "8"), "8");
  EXPECT_EQ(toml_of(key_of("sr_bits"), "eight"), "\"eight\"");
  EXPECT_EQ(toml_of(key_of("prescale"), ".5"), "0.5");
  EXPECT_EQ(toml_of(key_of("scale"), "e\"8"), "\"e\\\"8\"");
  EXPECT_EQ(word_of(key_of("block"), operand_of("mxfp4")), "1x32");
  EXPECT_EQ(word_of(key_of("block"), operand_of("int8")), "row");
}

TEST(OperandTable, ListsOfNumbersAreWordsBetweenCommas) {
  OperandKey key;
  key.kind = OperandKeyUse::Kind::numbers;
  key.print = [](const Operand&) { return std::string("[6, 4.5]"); };
  EXPECT_EQ(word_of(key, operand_of("fp32")), "6,4.5");
  EXPECT_EQ(toml_of(key, "6,4.50"), "[6, 4.5]");
  EXPECT_EQ(toml_of(key, "6"), "6");
  EXPECT_EQ(toml_of(key, "6,x"), "\"6,x\"");
  EXPECT_EQ(toml_of(key, "6,"), "\"6,\"");
}

TEST(OperandTable, NumbersThatNoKeyWouldReadAreRefused) {
  Operand operand = operand_of("mxfp4");
  operand.prescale = 0.5f;
  check_numbers(operand);
  operand.prescale = 1e9f;
  EXPECT_THROW(check_numbers(operand), Error);
  operand = operand_of("mxfp4");
  operand.sr_bits = 12;
  check_numbers(operand);  // without effect
  operand.rounding = Rounding::stochastic;
  EXPECT_THROW(check_numbers(operand), Error);
}

TEST(OperandTable, FlagsHaveDifferentPlaces) {
  std::set<int> places;
  for (const OperandKey* key : cast_flags()) {
    EXPECT_FALSE(key->flag.help.empty()) << key->path;
    EXPECT_TRUE(places.insert(key->flag.place).second) << key->path;
  }
  EXPECT_EQ(*places.rbegin(), static_cast<int>(places.size()));
}

TEST(OperandTable, KeysWithoutEffectAreForgottenAndDifferInNothing) {
  Operand operand = operand_of("fp8_e4m3");
  operand.margin = 3;
  operand.sr_bits = 8;
  EXPECT_EQ(describe(operand), "fp8_e4m3");
  EXPECT_TRUE(differences(operand, operand_of("fp8_e4m3")).empty());
  operand.scaling = Scaling::delayed;
  EXPECT_EQ(describe(operand), "fp8_e4m3 delayed margin 3");
  forget_unused(operand);
  EXPECT_EQ(operand.margin, 3);
  EXPECT_EQ(operand.sr_bits, 16);
  operand.scaling = Scaling::current;
  forget_unused(operand);
  EXPECT_EQ(operand, operand_of("fp8_e4m3"));
}

TEST(OperandTable, AnElementAsAFormatIsToldHowATableNamesIt) {
  try {
    (void)with(operand_of("fp32"), key_of("format"), "e3m3");
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("test:1: format: \"e3m3\" is an element without block and scale: "
                                 "{element = \"e3m3\", block = [1, 32], scale = \"e8m0\"}, or "))
        << error.what();
  }
  EXPECT_THROW((void)with(operand_of("fp32"), key_of("format"), "e9m9"), Error);
}

TEST(OperandTable, EveryFormatIsNearestToItself) {
  for (const std::string_view name : operand_names()) {
    EXPECT_EQ(nearest_format(operand_of(name)).name, name);
    EXPECT_TRUE(nearest_format(operand_of(name)).differing.empty()) << name;
  }
}

}  // namespace
}  // namespace ng
