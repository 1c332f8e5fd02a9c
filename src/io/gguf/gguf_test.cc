// GGUF files: golden values of every type, what is written, what is refused.
#include "io/gguf/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "io/gguf/blocks.h"
#include "support/golden_file.h"
#include "support/scratch_folder.h"

namespace ng::io {
namespace {

class GgufFiles : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
};

const std::string kTypes = std::string(NG_SOURCE_DIR) + "/tests/golden/interop/types/types.gguf";

std::string gguf_error(const std::string& path) {
  try {
    const Gguf file(path);
    for (const SafetensorsEntry& entry : file.entries()) (void)to_floats(entry);
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<float> values_of(const Gguf& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  EXPECT_NE(entry, nullptr) << name;
  return entry == nullptr ? std::vector<float>{} : to_floats(*entry);
}

TEST(Gguf, HasTheValuesOfEveryType) {
  const Gguf file(kTypes);
  const GoldenFile golden("interop/types/types");
  for (const SafetensorsEntry& want : golden.entries()) {
    const SafetensorsEntry* have = file.find(want.name);
    ASSERT_NE(have, nullptr) << want.name;
    EXPECT_EQ(have->shape, want.shape) << want.name;
    EXPECT_EQ(to_floats(*have), to_floats(want)) << want.name;
  }
  EXPECT_EQ(file.entries().size(), golden.entries().size() + 1);  // nvfp4.scale
}

// Any stretch of a tensor in blocks, whole blocks or not, from a file in pieces.
TEST(Gguf, ReadsFromAnyElementOn) {
  const Gguf file(kTypes);
  for (const char* name : {"q8_0.weight", "mxfp4.weight", "nvfp4.weight"}) {
    const std::vector<float> all = values_of(file, name);
    const FloatReader reader(*file.find(name));
    for (const size_t first : {size_t{0}, size_t{1}, size_t{31}, size_t{64}, size_t{97}})
      for (const size_t count : {size_t{0}, size_t{1}, size_t{33}, all.size() - first}) {
        std::vector<float> part(count);
        reader.read(static_cast<int64_t>(first), part);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + std::ptrdiff_t(first)));
      }
  }
}

TEST(Gguf, HasKeysOfEveryKind) {
  const Gguf file(kTypes);
  EXPECT_EQ(file.text("general.architecture"), "none");
  EXPECT_EQ(file.integer("general.alignment", 1, 64), 64);
  EXPECT_EQ(file.integers("test.numbers"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_TRUE(file.texts("test.empty").empty());
  EXPECT_TRUE(file.boolean_or("test.bool", false));
  EXPECT_EQ(file.number_or("test.f64", 0, 1, 0), 0.1);
  EXPECT_EQ(file.number_or("absent", 0, 1, 0.5), 0.5);
  const auto refused = [&](const auto& ask) {
    try {
      ask();
    } catch (const Error& error) {
      return std::string(error.what()).substr(kTypes.size());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused([&] { (void)file.integer("test.u64", 0, 9); }),
            ": test.u64: is no integer that fits 63 bits: a whole number from 0 to 9");
  EXPECT_EQ(refused([&] { (void)file.integer("general.alignment", 0, 9); }),
            ": general.alignment: 64: a whole number from 0 to 9");
  EXPECT_EQ(refused([&] { (void)file.text("test.bool"); }), ": test.bool: is no text: a string");
  EXPECT_EQ(refused([&] { (void)file.text("absent"); }), ": absent: missing: a file with this key");
}

TEST_F(GgufFiles, WrittenReadsBack) {
  const std::string path = join_path(folder_, "a.gguf");
  const GgufKeys keys = {{"general.architecture", GgufValue::of_text("llama")},
                         {"a", GgufValue::of_u32(7)},
                         {"b", GgufValue::of_f32(0.5f)},
                         {"c", GgufValue::of_boolean(true)},
                         {"d", GgufValue::of_texts({"x", "", "ä"})},
                         {"e", GgufValue::of_texts({})},
                         {"f", GgufValue::of_i32s(std::vector<int32_t>{-1, 2})},
                         {"g", GgufValue::of_f32s(std::vector<float>{1.5f})}};
  const std::vector<float> three = {1, 2, 3}, four = {4, 5, 6, 7};
  GgufWriter writer(path, keys,
                    {{"none", "F32", {0, 2}}, {"one", "F32", {3}}, {"two", "F32", {2, 2}}});
  writer.write(std::as_bytes(std::span(three)));
  writer.write(std::as_bytes(std::span(four)));
  writer.commit();
  const Gguf file(path);
  EXPECT_EQ(file.keys(), keys);
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(values_of(file, "one"), three);
  EXPECT_EQ(values_of(file, "two"), four);
  EXPECT_EQ(file.find("two")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(file.find("two")->begin % 32, 0u);
}

/// A block of NVFP4 of one element's code under scales of 1.
std::vector<uint8_t> nvfp4_block(uint8_t element) {
  std::vector<uint8_t> block(36, static_cast<uint8_t>(element | element << 4));
  std::fill_n(block.begin(), 4, uint8_t{0x38});
  return block;
}

// Experts, as gpt-oss has them: (expert, out, in), each with a scale of its own.
TEST_F(GgufFiles, ReadsExperts) {
  const std::string path = join_path(folder_, "experts.gguf");
  std::vector<uint8_t> mxfp4(17, 0x22);  // E2M1's code 2 is 1
  const std::vector<float> factors = {2, 0.5f};
  GgufWriter writer(path, {},
                    {{"a_exps.weight", "MXFP4", {2, 1, 32}},
                     {"b_exps.weight", "NVFP4", {2, 2, 64}},
                     {"b_exps.scale", "F32", {2}}});
  for (const uint8_t scale : {127, 128}) {
    mxfp4[0] = scale;
    writer.write(std::as_bytes(std::span(mxfp4)));
  }
  for (int row = 0; row < 4; ++row) {
    const std::vector<uint8_t> block = nvfp4_block(row < 3 ? 2 : 7);
    writer.write(std::as_bytes(std::span(block)));
  }
  writer.write(std::as_bytes(std::span(factors)));
  writer.commit();
  const Gguf file(path);
  EXPECT_EQ(file.find("a_exps.weight")->shape, (std::vector<int64_t>{2, 1, 32}));
  const std::vector<float> a = values_of(file, "a_exps.weight");
  EXPECT_EQ((std::vector<float>{a[0], a[31], a[32], a[63]}), (std::vector<float>{1, 1, 2, 2}));
  const std::vector<float> b = values_of(file, "b_exps.weight");
  EXPECT_EQ((std::vector<float>{b[0], b[127], b[128], b[191], b[192], b[255]}),
            (std::vector<float>{2, 2, 0.5f, 0.5f, 3, 3}));
  std::vector<float> across(2);
  FloatReader(*file.find("b_exps.weight")).read(127, across);
  EXPECT_EQ(across, (std::vector<float>{2, 0.5f}));
}

TEST_F(GgufFiles, RefusesScalesOfOtherCounts) {
  const std::string path = join_path(folder_, "scales.gguf");
  GgufWriter writer(path, {}, {{"b.weight", "NVFP4", {2, 64}}, {"b.scale", "F32", {2}}});
  const std::vector<uint8_t> zeros(72 + 2 * sizeof(float));
  const auto bytes = std::as_bytes(std::span(zeros));
  writer.write(bytes.first(72));
  writer.write(bytes.subspan(72));
  writer.commit();
  EXPECT_EQ(gguf_error(path), path + ": \"b.scale\": F32 of shape [2]: F32 [1]");
}

// Of the data; what is behind the last tensor may be missing.
TEST_F(GgufFiles, RefusesEveryTruncation) {
  const std::string whole = read_file(kTypes, 1 << 20);
  const std::string path = join_path(folder_, "cut.gguf");
  uint64_t end = 0;
  const Gguf types(kTypes);
  for (const SafetensorsEntry& entry : types.entries())
    end = std::max(end, entry.begin + entry.bytes);
  for (size_t bytes = 0; bytes < end; bytes += bytes < 1000 ? 1 : 37) {
    write_file_atomically(path, whole.substr(0, bytes));
    EXPECT_TRUE(gguf_error(path).starts_with(path + ": ")) << bytes << ": " << gguf_error(path);
  }
  write_file_atomically(path, whole.substr(0, end));
  EXPECT_EQ(gguf_error(path), "accepted");
}

std::string word(uint64_t value, size_t bytes) {
  return {reinterpret_cast<const char*>(&value), bytes};
}

constexpr uint32_t kF32 = 0;

/// A tensor of a header: F32, one dimension, at this offset.
struct Info {
  std::string name;
  uint64_t values, offset;
};

/// A file of this version: no keys, these tensors, zeros up to the alignment, then the data.
std::string file_of(uint32_t version, const std::vector<Info>& tensors, const std::string& data) {
  std::string text = "GGUF" + word(version, 4) + word(tensors.size(), 8) + word(0, 8);
  for (const Info& tensor : tensors)
    text += word(tensor.name.size(), 8) + tensor.name + word(1, 4) + word(tensor.values, 8) +
            word(kF32, 4) + word(tensor.offset, 8);
  text.resize((text.size() + 31) / 32 * 32);
  return text + data;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string padded(std::string text) {
  text.resize((text.size() + 31) / 32 * 32);
  return text;
}

// gguf-py 0.19 reads the same values from all of these.
TEST_F(GgufFiles, ReadsWhatOtherWritersWrite) {
  const std::string path = join_path(folder_, "other.gguf");
  const std::string a = bytes_of({0, 1, 2, 3, 4}), b = bytes_of({5, 6, 7});
  const std::vector<Info> in_order = {{"a", 5, 0}, {"b", 3, 32}};
  const std::string kFiles[] = {
      file_of(2, in_order, padded(a) + padded(b)),
      file_of(3, in_order, padded(a) + b),         // nothing behind the last
      file_of(2, in_order, padded(a) + b + "\n"),  // something
      file_of(3, in_order, padded(a) + padded(b) + std::string(4096, 'x')),
      file_of(3, {{"a", 5, 32}, {"b", 3, 0}}, padded(b) + a),  // in another order
      file_of(3, {{"a", 5, 0}, {"b", 3, 64}}, padded(a) + std::string(32, 'x') + b),  // a gap
      file_of(3, {{"a", 5, 0}, {"b", 3, 20}}, a + b),  // without alignment
      file_of(3, {{"a", 5, 0}, {"b", 3, 32}, {"none", 0, 64}}, padded(a) + b),
  };
  for (const std::string& text : kFiles) {
    write_file_atomically(path, text);
    ASSERT_EQ(gguf_error(path), "accepted");
    EXPECT_EQ(values_of(Gguf(path), "a"), (std::vector<float>{0, 1, 2, 3, 4}));
    EXPECT_EQ(values_of(Gguf(path), "b"), (std::vector<float>{5, 6, 7}));
  }
}

TEST_F(GgufFiles, RefusesDataThatIsCutOffOrShared) {
  const std::string path = join_path(folder_, "cut.gguf");
  const std::string data = padded(bytes_of({0, 1, 2, 3, 4})) + bytes_of({5, 6, 7});
  const auto refused = [&](const std::vector<Info>& tensors, size_t bytes) {
    write_file_atomically(path, file_of(3, tensors, data.substr(0, bytes)));
    return gguf_error(path).substr(path.size());
  };
  EXPECT_EQ(
      refused({{"a", 5, 0}, {"b", 3, 32}}, 43),
      ": \"b\": 12 bytes at offset 32 of the data leave the file: it has 43: is it truncated?");
  EXPECT_EQ(
      refused({{"a", 5, ~0ULL - 3}}, 44),
      ": \"a\": 20 bytes at offset 18446744073709551612 of the data leave the file: it has 44: "
      "is it truncated?");
  EXPECT_EQ(refused({{"a", 5, 0}, {"b", 3, 16}}, 44),
            ": \"b\": begins in the 20 bytes of \"a\": bytes of its own: is it damaged?");
  EXPECT_EQ(refused({{"a", 5, 0}, {"b", 5, 0}}, 44).substr(0, 10), ": \"b\": beg");
}

// Bit for bit as gguf-py dequantizes; stretches of blocks too.
TEST(Gguf, DecodesSmallIntegersAsGgufPy) {
  const Gguf file(std::string(NG_SOURCE_DIR) + "/tests/golden/interop/quants/quants.gguf");
  const GoldenFile golden("interop/quants/quants");
  ASSERT_EQ(file.entries().size(), golden.entries().size());
  for (const SafetensorsEntry& want : golden.entries()) {
    const SafetensorsEntry* have = file.find(want.name);
    ASSERT_NE(have, nullptr) << want.name;
    EXPECT_EQ(have->shape, want.shape) << want.name;
    const std::vector<float> values = to_floats(*have), expected = to_floats(want);
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0)
        << want.name;
    std::vector<float> part(values.size() - 5);
    FloatReader(*have).read(3, std::span(part).first(values.size() - 5));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + 3)) << want.name;
  }
}

/// The golden file with some bytes changed: `from`, which is in it once, becomes `to`.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_F(GgufFiles, NamesWhatIsWrong) {
  const std::string whole = read_file(kTypes, 1 << 20);
  const std::string path = join_path(folder_, "bad.gguf");
  const std::string f32 = "f32.weight" + word(2, 4);
  struct Case {
    std::string text, says;
  };
  const Case kCases[] = {
      {changed(whole, "GGUF", "GGML"), "does not begin with \"GGUF\": is it a GGUF file?"},
      {changed(whole, "GGUF" + word(3, 4), "GGUF" + word(1, 4)), "version: 1: 2 or 3"},
      {changed(whole, "GGUF" + word(3, 4), "GGUF" + word(4, 4)), "version: 4: 2 or 3"},
      {changed(whole, "GGUF" + word(3, 4), "GGUF" + word(3 << 24, 4)),
       "version: a big-endian file: 2 or 3 in little-endian"},
      {changed(whole, "test.u64", "test.f64"), "\"test.f64\": is there twice: each key once"},
      {changed(whole, "test.bool" + word(7, 4), "test.bool" + word(13, 4)),
       "\"test.bool\": a value of type 13: types from 0 to 12: is it damaged?"},
      {changed(whole, "test.empty" + word(9, 4) + word(8, 4) + word(0, 8),
               "test.empty" + word(9, 4) + word(8, 4) + word(1ULL << 61, 8)),
       "\"test.empty\": 2305843009213693952 elements where the file has "},
      {changed(whole, "test.empty" + word(9, 4) + word(8, 4),
               "test.empty" + word(9, 4) + word(9, 4)),
       "\"test.empty\": an array of arrays: an array of numbers or texts"},
      {changed(whole, "general.alignment" + word(4, 4) + word(64, 4),
               "general.alignment" + word(4, 4) + word(48, 4)),
       "general.alignment: 48: a power of two"},
      {changed(whole, "f16.weight", "f32.weight"), "\"f32.weight\": is there twice"},
      {changed(whole, f32, "f32.weight" + word(5, 4)), "\"f32.weight\": 5 dimensions: at most 4"},
      {changed(whole, f32 + word(5, 8), "f32.weight" + word(2, 4) + word(1ULL << 62, 8)),
       "\"f32.weight\": shape [3,4611686018427387904]: sizes whose bytes fit 63 bits"},
      {changed(whole, f32 + word(5, 8), "f32.weight" + word(2, 4) + word(~0ULL, 8)),
       "\"f32.weight\": a size of 18446744073709551615: sizes below 2^63"},
      {changed(whole, "q8_0.weight" + word(2, 4) + word(96, 8),
               "q8_0.weight" + word(2, 4) + word(95, 8)),
       "\"q8_0.weight\": rows of 95 values in Q8_0: whole blocks of 32"},
      {changed(whole, "q8_0.weight" + word(2, 4) + word(96, 8) + word(5, 8) + word(8, 4),
               "q8_0.weight" + word(2, 4) + word(96, 8) + word(5, 8) + word(16, 4)),
       "\"q8_0.weight\": type 16 is not supported: F32 (0) F16 (1) Q4_0 (2) Q4_1 (3) Q5_0 (6) "},
      {changed(whole, f32 + word(5, 8), f32 + word(60, 8)),
       "\"f16.weight\": begins in the 720 bytes of \"f32.weight\": bytes of its own"},
  };
  for (const Case& c : kCases) {
    write_file_atomically(path, c.text);
    const std::string said = gguf_error(path);
    EXPECT_NE(said.find(": " + c.says), std::string::npos) << said << "\nwanted " << c.says;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

TEST(Gguf, RefusesWhatLlamaCppRefuses) {
  const auto refused = [](const GgufTensor& tensor) {
    try {
      require_gguf_tensor(tensor, "out");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused({std::string(63, 'n'), "F32", {1}}), "accepted");
  EXPECT_NE(refused({std::string(64, 'n'), "F32", {1}}).find("a name of 64 bytes: GGUF takes 63"),
            std::string::npos);
  EXPECT_EQ(refused({"n", "F32", {1, 1, 1, 1, 1}}), "out: \"n\": 5 dimensions: GGUF takes 4");
  EXPECT_EQ(refused({"n", "NVFP4", {2, 96}}),
            "out: \"n\": shape [2,96]: rows of 96 are no whole blocks of 64 for NVFP4: --keep "
            "'n=bf16'");
}

// Ties go away from zero; what F16 rounds to 0, and what has no inverse, is 0.
TEST(Gguf, RoundsToQ8) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127;
  x[1] = 0.5f;
  x[2] = -0.5f;
  x[3] = 1.5f;
  x[4] = 0.49f;
  std::vector<std::byte> block(34);
  encode_q8_0(x, block);
  std::vector<float> values(32);
  decode_gguf_blocks(*find_gguf_type("Q8_0"), block, values);
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 5),
            (std::vector<float>{127, 1, -1, 2, 0}));
  std::fill(x.begin(), x.end(), std::numeric_limits<float>::denorm_min());
  encode_q8_0(x, block);
  EXPECT_EQ(block, std::vector<std::byte>(34));
  EXPECT_TRUE(fits_q8_0(65504.0f * 127));
  EXPECT_FALSE(fits_q8_0(std::nextafter(65504.0f * 127, 1e30f) * 1.0001f));
}

}  // namespace
}  // namespace ng::io
