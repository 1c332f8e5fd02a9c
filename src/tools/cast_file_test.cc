#include "tools/cast_file.h"

#include <cmath>

#include "io/safetensors.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

class CastFile : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
    std::vector<float> values(2 * 33);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    const std::vector<int64_t> integers = {7};
    io::write_safetensors(
        in("in"), {{"a", "I64", {1}, integers.data()}, {"x", "F32", {2, 33}, values.data()}});
    matrix_ = quantize({values.data(), 2, 33, 33}, operand_of("mxfp4"), {}, Threads{1});
  }
  [[nodiscard]] static CastSettings settings(const std::string& format, bool packed = false) {
    return {.format = format, .cast = operand_of(format), .packed = packed, .threads = Threads{1}};
  }
  CastReport cast(const CastSettings& settings) const {
    uint64_t bytes = 0;
    const CastReport report =
        cast_file(in("in"), in("out"), settings, [&](uint64_t done) { bytes = done; });
    EXPECT_EQ(bytes, bytes_to_cast(in("in"), settings));
    return report;
  }

  NarrowMatrix matrix_;
};

TEST_F(CastFile, WritesWhatQuantizeMakes) {
  const CastReport report = cast(settings("mxfp4"));
  const io::Safetensors out(in("out"));
  const std::vector<int64_t> codes = io::to_integers(out.at("x.codes"));
  EXPECT_EQ(std::vector<uint16_t>(codes.begin(), codes.end()), matrix_.codes);
  EXPECT_EQ(out.at("x.scale").shape, (std::vector<int64_t>{2, 2}));
  const std::vector<int64_t> scales = io::to_integers(out.at("x.scale"));
  EXPECT_EQ(std::vector<uint8_t>(scales.begin(), scales.end()), matrix_.scale_codes);
  EXPECT_EQ(io::to_floats(out.at("x.values")), dequantize(matrix_, Threads{1}));
  EXPECT_EQ(out.metadata().at("format"), "mxfp4");
  ASSERT_EQ(report.tensors.size(), 1U);
  EXPECT_EQ(report.tensors[0].counts.values, 66U);
  EXPECT_GT(report.tensors[0].errors.sqnr_db, 10);
  EXPECT_EQ(report.skipped, std::vector<std::string>{"a"});
}

TEST_F(CastFile, PacksTheCodesOfEachRow) {
  cast(settings("mxfp4", true));
  const io::Safetensors out(in("out"));
  EXPECT_EQ(out.at("x.codes").shape, (std::vector<int64_t>{2, 17}));
  EXPECT_EQ(out.metadata().at("x.shape"), "[2,33]");
  const std::vector<int64_t> bytes = io::to_integers(out.at("x.codes"));
  for (size_t row = 0; row < 2; ++row)
    for (size_t i = 0; i < 33; ++i)
      EXPECT_EQ(bytes[row * 17 + i / 2] >> (i % 2 * 4) & 15, matrix_.codes[row * 33 + i]);
}

TEST_F(CastFile, ReplacesOnlyCasts) {
  cast(settings("mxfp4"));
  cast(settings("int8"));  // over the other cast
  EXPECT_EQ(io::Safetensors(in("out")).metadata().at("format"), "int8");
  EXPECT_NE(error_of([&] { require_cast_or_nothing(in("out"), in("in")); }).find("not known as"),
            std::string::npos);
  EXPECT_NE(error_of([&] { require_cast_or_nothing(in("in"), in("in")); }).find("is the input"),
            std::string::npos);
  EXPECT_NO_THROW(require_cast_or_nothing(in("in"), in("absent")));
}

}  // namespace
}  // namespace ng
