#include "tensor/view.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string_view>

namespace ng {
namespace {

/// Memory for the views of these tests, which only count in it.
std::array<std::byte, 256> memory;

View view_of(std::string_view element, int64_t rows, int64_t cols, int64_t stride) {
  return {memory.data(), element_format(element), rows, cols, stride};
}

int64_t offset_of(const View& view) { return view.data - memory.data(); }

TEST(View, BytesGoFromTheFirstElementToTheLast) {
  EXPECT_EQ(view_of("float32", 3, 5, 8).bytes(), 21u * 4);
  EXPECT_EQ(view_of("bfloat16", 3, 5, 8).bytes(), 21u * 2);
  EXPECT_EQ(view_of("float8_e4m3fn", 3, 5, 8).bytes(), 21u);
  EXPECT_EQ(view_of("float6_e2m3fn", 3, 5, 8).bytes(), 16u) << "of 126 bits";
  EXPECT_EQ(view_of("float4_e2m1fn", 3, 5, 8).bytes(), 11u) << "of 84 bits";
  EXPECT_EQ(view_of("float4_e2m1fn", 1, 1, 8).bytes(), 1u);
  EXPECT_EQ(view_of("float32", 0, 5, 8).bytes(), 0u);
  EXPECT_EQ(View().bytes(), 0u);
}

TEST(View, PartsHoldTheirValues) {
  std::array<float, 24> values;
  std::iota(values.begin(), values.end(), 0.0f);
  const View whole(values.data(), 3, 5, 8);
  const Rows<float> part = whole.part(1, 2, 2, 3).as<float>();
  EXPECT_EQ(part.rows, 2);
  EXPECT_EQ(part.cols, 3);
  EXPECT_EQ(part.row(0)[0], 10.0f);
  EXPECT_EQ(part.row(1)[2], 20.0f);
  const Rows<float> slice = whole.slice(2, 1).as<float>();
  EXPECT_EQ(slice.cols, 5);
  EXPECT_EQ(slice.row(0)[0], 16.0f);
  const Rows<const float> columns = ConstView(whole).columns(4, 1).as<float>();
  EXPECT_EQ(columns.rows, 3);
  EXPECT_EQ(columns.row(2)[0], 20.0f);
  EXPECT_EQ(whole.part(1, 2, 2, 3).slice(1, 1).columns(1, 2).as<float>().data[0], 19.0f);
}

TEST(View, PartsOfPackedElementsBeginWithAByte) {
  const View four = view_of("float4_e2m1fn", 3, 6, 7);
  EXPECT_EQ(offset_of(four.columns(2, 3)), 1);
  EXPECT_EQ(offset_of(four.slice(2, 1)), 7);
  EXPECT_EQ(offset_of(four.part(1, 1, 1, 2)), 4);
  EXPECT_THROW((void)four.columns(1, 2), InternalError);
  EXPECT_THROW((void)four.slice(1, 1), InternalError);
  const View six = view_of("float6_e2m3fn", 2, 8, 8);
  EXPECT_EQ(offset_of(six.part(1, 1, 4, 4)), 9);
  EXPECT_THROW((void)six.columns(2, 1), InternalError);
}

TEST(View, PartsLieInside) {
  const View whole = view_of("float32", 3, 5, 8);
  EXPECT_EQ(whole.part(3, 0, 5, 0).size(), 0);
  EXPECT_THROW((void)whole.slice(-1, 1), InternalError);
  EXPECT_THROW((void)whole.slice(2, 2), InternalError);
  EXPECT_THROW((void)whole.slice(1, -1), InternalError);
  EXPECT_THROW((void)whole.columns(-1, 1), InternalError);
  EXPECT_THROW((void)whole.columns(5, 1), InternalError);
  EXPECT_EQ(View().part(0, 0, 0, 0).rows, 0);
}

TEST(View, ValuesAreThoseOfTheElement) {
  EXPECT_THROW((void)view_of("float32", 1, 1, 1).as<Bf16>(), InternalError);
  EXPECT_THROW((void)view_of("bfloat16", 1, 1, 1).as<float>(), InternalError);
  EXPECT_THROW((void)view_of("float8_e4m3fn", 1, 1, 1).as<float>(), InternalError);
  EXPECT_EQ(View().as<Bf16>().rows, 0);
}

TEST(View, ScalesBelongToTheWhole) {
  View scaled = view_of("float32", 2, 4, 4);
  scaled.scales.data = memory.data();
  EXPECT_TRUE(ConstView(scaled).has_scales());
  EXPECT_THROW((void)scaled.slice(0, 1), InternalError);
  EXPECT_THROW((void)scaled.as<float>(), InternalError);
}

}  // namespace
}  // namespace ng
