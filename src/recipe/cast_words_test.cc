#include "recipe/cast_words.h"

#include "format/cast_names.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

using Word = std::pair<const char*, const char*>;

CastWords words_of(const std::string& format, std::initializer_list<Word> changes) {
  CastWords words;
  words.format = format;
  for (const auto& [key, word] : changes) words.words[key] = word;
  return words;
}

Operand operand_of_words(const std::string& format, std::initializer_list<Word> changes) {
  return words_of(format, changes).operand();
}

std::string refusal(const CastWords& words) {
  return error_of([&] { (void)words.operand(); });
}
std::string factor_refusal(const std::string& text) {
  return error_of([&] { (void)factor_cast("--a", text); });
}
bool says(const std::string& error, std::string_view part) {
  return error.find(part) != std::string::npos;
}

TEST(CastWords, NamesStandForFormats) {
  for (const std::string_view name : cast_names())
    EXPECT_TRUE(name == "fp32" || cast_named(std::string(name)) == *find_cast(name)) << name;
  EXPECT_EQ(cast_named("bfloat16"), operand_of("bf16"));
  EXPECT_TRUE(cast_named("e2m1").is_unscaled());
  EXPECT_TRUE(says(error_of([] { (void)cast_named("mxfp5"); }), "unknown \"mxfp5\""));
  EXPECT_TRUE(says(error_of([] { (void)cast_named("fp32"); }), "nothing to round to"));
}

TEST(CastWords, ChangeWhatTheNameStandsFor) {
  Operand want = operand_of("mxfp4");
  want.block.rows = 32;
  want.scale_rule = ScaleRule::ceil;
  EXPECT_EQ((operand_of_words("mxfp4", {{"scale_rule", "ceil"}, {"block", "32x32"}})), want);
  const Operand blocks = operand_of_words("e3m2", {{"block", "1x16"}, {"scale", "e8m0"}});
  EXPECT_EQ(blocks.element->short_name, "e3m2");
  EXPECT_EQ(text_of(blocks.block), "1x16");
  const Operand affine = operand_of_words("uint4", {{"block", "tensor"}});
  EXPECT_EQ(affine.scale, ScaleKind::fp32);
  EXPECT_EQ(affine.block.kind, Block::Kind::tensor);
  EXPECT_TRUE((operand_of_words("uint4", {{"scale", "none"}}).is_unscaled()));
}

TEST(CastWords, RandomBitsMayBeHexadecimal) {
  for (const char* format : {"mxfp4", "e4m3", "uint8"})
    EXPECT_EQ(operand_of_words(format, {{"rounding", "stochastic"}, {"sr_bits", "0x20"}}).sr_bits,
              32)
        << format;
}

TEST(CastWords, RefuseByTheirFlag) {
  EXPECT_TRUE(says(refusal(words_of("mxfp4", {{"sr_bits", "8"}})), "--sr-bits"));
  EXPECT_TRUE(says(refusal(words_of("mxfp4", {{"block", "3x3"}})), "--block"));
  EXPECT_TRUE(says(refusal(words_of("e2m1", {{"block", "1x32"}})), "without a scale"));
  EXPECT_TRUE(says(refusal(words_of("e2m1", {{"scale", "e8m0"}})), "without a block"));
  EXPECT_TRUE(says(refusal(words_of("ue4m3", {{"scale", "fp32"}})), "takes no scale"));
  EXPECT_TRUE(says(refusal(words_of("uint8", {{"scale_rule", "ceil"}})), "for affine uint8"));
  for (const char* key : {"fit", "select", "scale_max"})
    EXPECT_TRUE(
        says(refusal(words_of("uint8", {{key, "6"}})), flag_of(key) + ": \"6\" for affine"));
  EXPECT_TRUE(says(refusal(words_of("int8", {{"scale_rule", "ceil"}})), "--scale-rule"));
}

TEST(FactorCast, IsANameOrATable) {
  EXPECT_EQ(factor_cast("--a", "float32"), operand_of("fp32"));
  EXPECT_EQ(factor_cast("--a", "nvfp4"), operand_of("nvfp4"));
  Operand want = operand_of("mxfp4");
  want.rounding = Rounding::stochastic;
  EXPECT_EQ(factor_cast("--a", "{format = \"mxfp4\", rounding = \"stochastic\"}"), want);
  EXPECT_TRUE(says(factor_refusal("uint8"), "no product takes its elements"));
  EXPECT_TRUE(says(factor_refusal("{format = \"mxfp5\"}"), "--a: format: unknown"));
  EXPECT_TRUE(says(factor_refusal("{format = \"fp8_e4m3\", scaling = \"delayed\"}"), "history"));
}

// Nothing is known of an operand before its table is read, as in recipes.
TEST(FactorCast, TablesChangeFp32) {
  EXPECT_EQ(factor_cast("--a", "{}"), operand_of("fp32"));
  EXPECT_EQ(factor_cast("--a", "{element = \"bf16\", overflow = \"special\"} "),
            operand_of("bf16"));
  EXPECT_TRUE(says(factor_refusal("{element = \"e2m3\"}"), "elements without scale"));
  EXPECT_TRUE(says(factor_refusal("{block = [1, 32]}"), "--a: block"));
  EXPECT_TRUE(says(factor_refusal("{}\nformat = \"mxfp4\""), "behind the table"));
  EXPECT_TRUE(says(factor_refusal("{} # mxfp4"), "behind the table"));
}

}  // namespace
}  // namespace ng
