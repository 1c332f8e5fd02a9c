// What operations stream, rates as a probe prints them, and the limit that follows.
#include "speed/step_limit.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "speed/operation_bytes.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

/// 8 × 32 values that lie nowhere.
View values(const ElementFormat& element) { return {nullptr, element, 8, 32, 32}; }
constexpr double kCount = 8 * 32;

TEST(StreamedBytes, AreThoseReadAndWrittenOnce) {
  const View wide = values(fp32_format()), narrow = values(bf16_format());
  EXPECT_EQ(streamed_bytes(Copy{.y = narrow, .x = wide}), 6 * kCount);
  EXPECT_EQ(streamed_bytes(Add{.y = narrow, .a = narrow, .b = wide}), 8 * kCount);
  EXPECT_EQ(streamed_bytes(GeluBackward{.dx = narrow, .dy = narrow, .x = narrow}), 6 * kCount);
  EXPECT_EQ(streamed_bytes(SwigluBackward{
                .dgate = wide, .dup = wide, .dy = narrow, .gate = narrow, .up = narrow}),
            14 * kCount);
  EXPECT_EQ(streamed_bytes(FindAmax{.amax = nullptr, .x = wide}), 4 * kCount);
  EXPECT_EQ(streamed_bytes(Fill{.x = wide}), 4 * kCount);
  EXPECT_EQ(streamed_bytes(Rope{.x = narrow, .table = {}, .at = {}}), 4 * kCount) << "in place";
}

// Seven of FP32: the gradient, and the weight and both moments before and after.
TEST(StreamedBytes, OfAnUpdateAreAllThatItKeeps) {
  Update op;
  op.weight.value = op.moment1 = op.moment2 = stored_plainly(values(fp32_format()));
  op.grad = values(fp32_format());
  EXPECT_EQ(streamed_bytes(op), 7 * 4 * kCount);
  op.weight.master = op.weight.value;
  op.weight.value = stored_plainly(values(bf16_format()));
  EXPECT_EQ(streamed_bytes(op), (7 * 4 + 2) * kCount) << "the value is made of the master";
}

TEST(StreamedBytes, OfOperandsThatLieWhereTheirSourceDoesAreNone) {
  PackedOperand packed;
  packed.bytes = 100;
  const Prepare prepare{.packed = &packed, .source = values(bf16_format()), .context = {}};
  EXPECT_EQ(streamed_bytes(prepare), 2 * kCount + 100);
  packed.bytes = 0;
  EXPECT_EQ(streamed_bytes(prepare), 0);
}

/// As benchmarks/card/probe prints it.
constexpr const char* kProbe = R"({
  "card": "a card", "sm": 90, "multiprocessors": 132, "copy_gb_per_s": 4000,
  "products": [
    {"mode": "bf16", "tokens": 8192, "width": 768, "algorithm": true, "tflops": 394.0},
    {"mode": "bf16", "tokens": 8192, "width": 4096, "algorithm": true, "tflops": 788.0},
    {"mode": "fp8, rows and columns", "tokens": 8192, "width": 768, "algorithm": true, "tflops": 1},
    {"mode": "fp8, a scale each", "tokens": 8192, "width": 768, "algorithm": true, "tflops": 1400},
    {"mode": "mxfp8", "tokens": 8192, "width": 768, "algorithm": false, "tflops": null},
    {"mode": "folded mxfp4, FP32 out", "tokens": 8192, "width": 768, "tflops": 1300}
  ]
})";

double rate(const CardRates& rates, cuda::Route route) {
  return rates.products[static_cast<size_t>(route)];
}

TEST(StepLimit, TakesTheHighestRateOfARoute) {
  const CardRates rates = rates_of_probe(parse_json(kProbe, "probe.json"), "probe.json");
  EXPECT_EQ(rates.name, "a card");
  EXPECT_EQ(rates.sm, 90);
  EXPECT_EQ(rates.copy, 4e12);
  EXPECT_EQ(rate(rates, cuda::Route::bf16), 788e12);
  EXPECT_EQ(rate(rates, cuda::Route::fp8), 1400e12);
  EXPECT_EQ(rate(rates, cuda::Route::folded), 1300e12);
  EXPECT_EQ(rate(rates, cuda::Route::mxfp8), 0);
  EXPECT_DOUBLE_EQ(rates.attention, 450e12);
}

TEST(StepLimit, RefusesWhatNoProbePrinted) {
  EXPECT_EQ(error_of([] { (void)rates_of_probe(Json::parse("{}"), "f"); }),
            "f: card: missing: a value");
}

TEST(StepLimit, IsTheSumOfWhatBoundsAStep) {
  const CardRates rates = rates_of_probe(parse_json(kProbe, "probe.json"), "probe.json");
  StepWork work{.attention_flops = 225e12, .bytes = 1e12, .tokens = 1000};
  work.product_flops[static_cast<size_t>(cuda::Route::bf16)] = 788e12;
  work.product_flops[static_cast<size_t>(cuda::Route::fp8)] = 350e12;
  const Json limit = limit_json(work, rates);
  EXPECT_DOUBLE_EQ(limit_of(work, rates)->seconds(), 1 + 0.25 + 0.5 + 0.25);
  EXPECT_DOUBLE_EQ(limit["tokens_per_second"], 500);
  EXPECT_DOUBLE_EQ(limit["seconds"]["fp8"], 0.25);
  EXPECT_EQ(limit["seconds"].size(), 4u) << "routes that no product takes are named";
  EXPECT_EQ(limit["assumed"], Json({"attention"}));
}

TEST(StepLimit, IsNotKnownWhereARateIsNot) {
  const CardRates rates = rates_of_probe(parse_json(kProbe, "probe.json"), "probe.json");
  StepWork work{.bytes = 1e12, .tokens = 1000};
  work.product_flops[static_cast<size_t>(cuda::Route::kernel)] = 1;
  EXPECT_TRUE(limit_json(work, rates).is_null());
}

}  // namespace
}  // namespace ng
