#include "run/transfer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "format/codec.h"
#include "run/backends.h"

namespace ng {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// A matrix in the memory of a backend, all bytes 0x5A.
class Stored {
 public:
  Stored(std::string_view element, int64_t rows, int64_t cols, int64_t stride)
      : backend_(make_backend("cpu", Threads{1})) {
    view_ = {nullptr, element_format(element), rows, cols, stride};
    view_.data = backend_->allocate(bytes());
    const std::vector<std::byte> mark(bytes(), std::byte{0x5A});
    backend_->upload(view_.data, mark.data(), bytes());
  }
  ~Stored() { backend_->release(view_.data, bytes()); }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] const View& view() const { return view_; }
  [[nodiscard]] size_t bytes() const { return view_.bytes(); }
  [[nodiscard]] std::vector<std::byte> memory() const {
    std::vector<std::byte> all(bytes());
    backend_->download(all.data(), view_.data, bytes());
    return all;
  }

 private:
  std::unique_ptr<Backend> backend_;
  View view_;
};

/// What a row holds once `values` were put there.
std::vector<float> there_and_back(std::string_view element, const std::vector<float>& values) {
  const auto cols = static_cast<int64_t>(values.size());
  Stored stored(element, 3, cols, cols + 2);
  const std::vector<std::byte> before = stored.memory();
  upload_row(stored.backend(), stored.view(), 1, values);
  const std::vector<std::byte> after = stored.memory();
  const size_t begin = bytes_of(*stored.view().element, cols + 2);
  const size_t end = begin + bytes_of(*stored.view().element, cols);
  for (size_t i = 0; i < after.size(); ++i) {
    const bool is_inside = i >= begin && i < end;
    EXPECT_TRUE(is_inside || after[i] == before[i]) << element << ", byte " << i;
  }
  std::vector<float> back(values.size());
  download_row(stored.backend(), stored.view(), 1, back);
  return back;
}

using Values = std::vector<float>;

TEST(Transfer, Fp32StaysAsItIs) {
  const Values values = {1.0f, 0x1.000002p0f, -0x1p-149f, kInf, 3.4e38f};
  EXPECT_EQ(there_and_back("float32", values), values);
}

TEST(Transfer, Bf16IsRoundedToNearestEven) {
  EXPECT_EQ(there_and_back("bfloat16", {1.0f, 0x1.01p0f, 0x1.03p0f, 0x1.0101p0f, -0x1.01p0f, kInf}),
            (Values{1.0f, 1.0f, 0x1.04p0f, 0x1.02p0f, -1.0f, kInf}));
  EXPECT_EQ(there_and_back("bfloat16", {3.4e38f})[0], kInf);
  EXPECT_TRUE(std::isnan(there_and_back("bfloat16", {std::nanf("")})[0]));
}

TEST(Transfer, Fp8IsRoundedToNearestEven) {
  EXPECT_EQ(there_and_back("float8_e4m3fn", {1.0f, 1.0625f, 1.1875f, -448.0f, 0x1p-9f, 0x1p-10f}),
            (Values{1.0f, 1.0f, 1.25f, -448.0f, 0x1p-9f, 0.0f}));
  EXPECT_TRUE(std::isnan(there_and_back("float8_e4m3fn", {500.0f})[0])) << "it has no infinity";
  EXPECT_EQ(there_and_back("float8_e5m2", {1.125f, 57344.0f, 70000.0f}),
            (Values{1.0f, 57344.0f, kInf}));
}

TEST(Transfer, EveryCodeIsItsValue) {
  for (const char* name : {"float8_e4m3fn", "float8_e5m2", "bfloat16"}) {
    const ElementFormat& element = element_format(name);
    const int64_t cols = int64_t{1} << (element.bits / 2);
    Stored stored(name, cols, cols, cols);
    std::vector<std::byte> codes;
    for (uint32_t code = 0; code < uint32_t(cols * cols); ++code)
      for (int byte = 0; byte < element.bits / 8; ++byte)
        codes.push_back(static_cast<std::byte>(code >> (8 * byte)));
    stored.backend().upload(stored.view().data, codes.data(), codes.size());
    const Values values = download(stored.backend(), stored.view());
    for (uint32_t code = 0; code < uint32_t(cols * cols); ++code) {
      const float want = decode(element, code);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(values[code]) : values[code] == want) << code;
    }
  }
}

TEST(Transfer, TheGapsBetweenRowsAreLeftOut) {
  Stored stored("bfloat16", 2, 3, 5);
  upload_row(stored.backend(), stored.view(), 0, Values{1, 2, 3});
  upload_row(stored.backend(), stored.view(), 1, Values{4, 5});
  upload_row(stored.backend(), stored.view().columns(2, 1), 1, Values{6});
  EXPECT_EQ(download(stored.backend(), stored.view()), (Values{1, 2, 3, 4, 5, 6}));
  Values first(2);
  download_row(stored.backend(), stored.view(), 1, first);
  EXPECT_EQ(first, (Values{4, 5}));
  EXPECT_TRUE(download(stored.backend(), View()).empty());
}

// Codes of less than a byte, a scale for each block of two, and one for the tensor.
TEST(Transfer, ScaledRowsAreDecoded) {
  Stored narrow("float4_e2m1fn", 2, 4, 4);
  const std::byte codes[] = {std::byte{0x21}, std::byte{0x43}, std::byte{0xA9}, std::byte{0x0F}};
  narrow.backend().upload(narrow.view().data, codes, sizeof codes);
  Stored scales("float32", 1, 5, 5);
  upload_row(scales.backend(), scales.view(), 0, Values{1, 2, 4, 8, 3});
  View scaled = narrow.view();
  scaled.scales = {scales.view().data,
                   &fp32_format(),
                   {.kind = Block::Kind::tile, .rows = 1, .cols = 2},
                   scales.view().as<float>().data + 4};
  EXPECT_EQ(download(narrow.backend(), narrow.view()), (Values{0.5, 1, 1.5, 2, -0.5, -1, -6, 0}));
  EXPECT_EQ(download(narrow.backend(), scaled), (Values{1.5, 3, 9, 12, -6, -12, -144, 0}));
}

TEST(TemporaryTensor, HoldsWhatItsElementHolds) {
  const std::unique_ptr<Backend> backend = make_backend("cpu", Threads{1});
  TemporaryTensor fp32(*backend, 2, 3), bf16(*backend, bf16_format(), 2, 3);
  const Values values = {1, 0x1.01p0f, 3, 4, 5, -6};
  fp32.upload(values);
  bf16.upload(values);
  EXPECT_EQ(fp32.download(), values);
  EXPECT_EQ(bf16.download(), (Values{1, 1, 3, 4, 5, -6}));
  EXPECT_TRUE(bf16.stored().cast.is_unscaled());
  EXPECT_THROW(fp32.upload(Values{1, 2, 3}), InternalError);
}

// Rows of an odd number of nibbles begin at whole bytes; a scale for each block, one for all.
TEST(TemporaryTensor, HasTheScalesOfItsCast) {
  const std::unique_ptr<Backend> backend = make_backend("cpu", Threads{1});
  TemporaryTensor x(*backend, 3, 33);
  x.upload(Values(99, 3.0f));
  const TemporaryTensor mx(*backend, operand_of("mxfp4"), 3, 33),
      nv(*backend, operand_of("nvfp4"), 3, 33);
  EXPECT_EQ(mx.view().stride, 34);
  EXPECT_EQ(mx.view().scales.tensor, nullptr);
  for (const TemporaryTensor* each : {&mx, &nv}) {
    backend->execute(Store{.y = each->stored(), .x = x.view(), .key = {}});
    for (const float value : each->download()) EXPECT_NEAR(value, 3.0f, 1e-6f);
  }
}

TEST(Transfer, IsOfWholeBytesInsideARow) {
  Stored narrow("float4_e2m1fn", 1, 2, 2), stored("float32", 1, 2, 2);
  Values values(2), many(3);
  EXPECT_THROW(upload_row(narrow.backend(), narrow.view(), 0, values), InternalError);
  EXPECT_THROW(upload_row(stored.backend(), stored.view(), 0, many), InternalError);
  EXPECT_THROW(upload_row(stored.backend(), stored.view(), 1, values), InternalError);
  View scaled = stored.view();
  scaled.scales.data = scaled.data;
  EXPECT_THROW(upload_row(stored.backend(), scaled, 0, values), InternalError);
}

}  // namespace
}  // namespace ng
