#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "format/codec.h"

namespace ng::io {
namespace {

std::string scratch(const std::string& name) {
  return join_path(testing::TempDir(), "safetensors_test_" + name);
}

/// A file with this header text and so many bytes of data.
std::string file_with(const std::string& header, size_t data_bytes) {
  const uint64_t size = header.size();
  std::string content(sizeof size, '\0');
  std::memcpy(content.data(), &size, sizeof size);
  return content + header + std::string(data_bytes, '\1');
}

std::string file_error(const std::string& content) {
  const std::string path = scratch("bad");
  write_file_atomically(path, content);
  try {
    const Safetensors file(path);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    EXPECT_EQ(error.parts().place, path);
    return std::string(error.what()).substr(path.size() + 2);
  }
  return "accepted";
}

TEST(Safetensors, ReadsWhatItWrote) {
  const std::vector<float> a = {1.5f, -0.0f, std::numeric_limits<float>::infinity(), 1e-45f};
  const std::vector<uint8_t> b = {0, 127, 128, 255, 3};
  const std::string path = scratch("round_trip");
  write_safetensors(path,
                    {{"b", "U8", {5}, b.data()},
                     {"a \"quoted\"", "F32", {2, 2}, a.data()},
                     {"none", "BF16", {0, 7}, nullptr},
                     {"scalar", "F32", {}, a.data()}},
                    {{"note", "two\nlines"}});
  const Safetensors file(path);
  EXPECT_EQ(file.metadata().at("note"), "two\nlines");
  ASSERT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.entries()[0].name, "b");
  EXPECT_EQ(file.at("a \"quoted\"").shape, (std::vector<int64_t>{2, 2}));
  std::vector<float> stored(4);
  file.at("a \"quoted\"").read(0, std::as_writable_bytes(std::span(stored)));
  EXPECT_EQ(std::memcmp(stored.data(), a.data(), 16), 0);
  EXPECT_EQ(to_integers(file.at("b")), (std::vector<int64_t>{0, 127, 128, 255, 3}));
  EXPECT_EQ(file.at("none").elements(), 0);
  EXPECT_EQ(to_floats(file.at("scalar")), std::vector<float>{1.5f});
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_THROW((void)file.at("c"), Error);
  EXPECT_EQ(file.entries()[0].begin % 8, 0u);
}

TEST(Safetensors, ValuesOfEveryNumericDtype) {
  const double f64[] = {0.1, -1e300};
  const uint16_t bf16[] = {0x3F80, 0xFF80};
  const uint16_t f16[] = {0x3C00, 0x0001, 0xFC00, 0x7E00};
  const uint8_t e5m2[] = {0x01, 0x7B, 0x7C, 0xC0};
  const uint8_t e4m3[] = {0x01, 0x7E, 0x7F, 0x34};
  const int16_t i16[] = {-32768, 32767};
  const std::string path = scratch("dtypes");
  write_safetensors(path, {{"f64", "F64", {2}, f64},
                           {"bf16", "BF16", {2}, bf16},
                           {"f16", "F16", {4}, f16},
                           {"e5m2", "F8_E5M2", {4}, e5m2},
                           {"e4m3", "F8_E4M3", {4}, e4m3},
                           {"i16", "I16", {2}, i16}});
  const Safetensors file(path);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_floats(file.at("f64")), (std::vector<float>{0.1f, -inf}));
  EXPECT_EQ(to_floats(file.at("bf16")), (std::vector<float>{1.0f, -inf}));
  std::vector<float> half = to_floats(file.at("f16"));
  EXPECT_TRUE(std::isnan(half.back()));
  half.pop_back();
  EXPECT_EQ(half, (std::vector<float>{1.0f, 0x1p-24f, -inf}));
  EXPECT_EQ(to_floats(file.at("e5m2")), (std::vector<float>{0x1p-16f, 57344.0f, inf, -2.0f}));
  std::vector<float> eight = to_floats(file.at("e4m3"));
  EXPECT_TRUE(std::isnan(eight[2]));
  EXPECT_EQ(eight[0], 0x1p-9f);
  EXPECT_EQ(eight[1], 448.0f);
  EXPECT_EQ(eight[3], 0.75f);
  EXPECT_EQ(to_floats(file.at("i16")), (std::vector<float>{-32768.0f, 32767.0f}));
  EXPECT_EQ(to_integers(file.at("i16")), (std::vector<int64_t>{-32768, 32767}));
  EXPECT_THROW((void)to_integers(file.at("f16")), Error);
}

TEST(Safetensors, SubByteDtypesCountBits) {
  const uint8_t bytes[6] = {};
  const std::string path = scratch("subbyte");
  write_safetensors(path, {{"f4", "F4", {2, 3}, bytes}, {"f6", "F6_E2M3", {4}, bytes}});
  const Safetensors file(path);
  EXPECT_EQ(file.at("f4").bytes, 3u);
  EXPECT_EQ(file.at("f6").bytes, 3u);
  const std::vector<float> f4 = to_floats(file.at("f4"));
  for (size_t i = 0; i < f4.size(); ++i)
    EXPECT_EQ(f4[i], decode(element_format("e2m1"), bytes[i / 2] >> (4 * (i % 2)) & 15u));
  const uint32_t f6 = bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16;
  std::vector<float> tail(3);
  FloatReader(file.at("f6")).read(1, tail);
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT_EQ(tail[i], decode(element_format("e2m3"), f6 >> (6 * (i + 1)) & 63u));
  EXPECT_NE(file_error(file_with(R"({"x":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2))
                .find("x\".shape: [3]"),
            std::string::npos);
}

TEST(Safetensors, OpensTheGoldenFiles) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::string(NG_SOURCE_DIR) + "/tests/golden")) {
    if (entry.path().extension() != ".safetensors") continue;
    const Safetensors file(entry.path().string());
    EXPECT_FALSE(file.entries().empty()) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 20);
}

struct Malformed {
  std::string_view content;
  size_t data_bytes;
  std::string_view says;
};

TEST(Safetensors, RefusesMalformedHeaders) {
  const Malformed kCases[] = {
      {"[]", 0, "header: does not begin with"},
      {"{]", 0, "not valid JSON"},
      {R"({"x":3})", 0, R"("x": 3 is not an object)"},
      {R"({"x":{"dtype":"F32","shape":[1]}})", 4, R"("x".data_offsets: missing)"},
      {R"({"x":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4,
       R"("x".dtype: unknown dtype "F33": F64)"},
      {R"({"x":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4, R"("x".dtype: 7)"},
      {R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, R"("x".shape: [-1])"},
      {R"({"x":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, R"("x".shape: [1.5])"},
      {R"({"x":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, R"("x".shape: 1)"},
      {R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4,
       "63 bits"},
      {R"({"x":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4,
       R"("x".shape)"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "8 bytes for F32 [2]"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "ascending"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4,5]}})", 4, "ascending"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "ascending"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551611,)"
       R"(18446744073709551615]}})",
       4, "ascending"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "leaves the file"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "leaves a hole"},
      {R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
       R"("y":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       4, R"("y".data_offsets: [2, 4] overlaps)"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "1 bytes behind"},
      {R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
       R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, R"("x": is given twice)"},
      {R"({"__metadata__":{"a":1}})", 0, "__metadata__.a: 1: a string"},
      {R"({"__metadata__":[]})", 0, "__metadata__: [] is not an object"},
      {R"({"x":[[[[[[]]]]]]})", 0, "nested deeper"},
      {"{\"\xFF\":{}}", 0, "not valid JSON"},
  };
  for (const Malformed& bad : kCases) {
    const std::string said = file_error(file_with(std::string(bad.content), bad.data_bytes));
    EXPECT_NE(said.find(bad.says), std::string::npos) << bad.content << "\n  " << said;
  }
}

TEST(Safetensors, RefusesTruncatedFiles) {
  const std::string whole =
      file_with(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(file_error(whole.substr(0, size)), "accepted") << size;
  }
  EXPECT_EQ(file_error(whole), "accepted");
  std::string huge = whole;
  huge[7] = '\x7F';
  EXPECT_NE(file_error(huge).find("header: a length of"), std::string::npos);
}

TEST(Safetensors, SaysThatAFileWasCutShortWhileItWasRead) {
  const std::vector<float> values(1000, 1.0f);
  const std::string path = scratch("cut");
  write_safetensors(path,
                    {{"x", "F32", {1000}, values.data()}, {"y", "F16", {2000}, values.data()}});
  const Safetensors file(path);
  std::filesystem::resize_file(path, 2000);
  for (const char* name : {"x", "y"}) {
    try {
      (void)to_floats(file.at(name));
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("ends at byte 2000 instead of"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Safetensors, RoundingF64ToOddKeepsOneRounding) {
  const std::vector<double> x = {
      1.0625 + 1e-12, 1.0625 - 1e-12, -1.0625,        1e300,
      1e-300,         -1e-300,        0x1.FFFFFFp127, std::numeric_limits<double>::infinity()};
  const std::string path = scratch("f64");
  write_safetensors(path, {{"x", "F64", {int64_t(x.size())}, x.data()}});
  const Safetensors file(path);
  std::vector<float> odd(x.size());
  FloatReader(file.at("x"), FromF64::odd).read(0, odd);
  const ElementFormat& e4m3 = element_format("e4m3");
  EXPECT_EQ(decode(e4m3, encode(e4m3, odd[0])), 1.125f);  // not a tie, which 1.0625 is
  EXPECT_EQ(decode(e4m3, encode(e4m3, odd[1])), 1.0f);
  EXPECT_EQ(odd[2], -1.0625f);
  EXPECT_EQ(odd[3], std::numeric_limits<float>::max());
  EXPECT_EQ(odd[4], 0x1p-149f);
  EXPECT_EQ(odd[5], -0x1p-149f);
  EXPECT_EQ(odd[6], std::numeric_limits<float>::max());
  EXPECT_EQ(odd[7], std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_floats(file.at("x"))[0], 1.0625f);
}

TEST(Safetensors, NamesAMissingFile) {
  try {
    const Safetensors file("/nonexistent/x.safetensors");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "/nonexistent/x.safetensors: cannot open: No such file or directory: "
                 "check the path");
  }
  EXPECT_THROW(Safetensors("/tmp"), Error);
  EXPECT_THROW(Safetensors("/dev/null"), Error);
}

}  // namespace
}  // namespace ng::io
