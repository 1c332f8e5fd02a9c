#include "backend/host_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ng {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(DecideStep, ClipsByTheNorm) {
  StepControl control{.loss = 2, .grad_norm = 0, .grad_scale = 0, .skip = 1};
  const double squares = 16;
  const auto decide = [&](double clip) {
    decide_step({.control = &control, .sum_of_squares = &squares, .clip = clip});
  };
  decide(1.0);
  EXPECT_EQ(control.grad_norm, 4.0);
  EXPECT_EQ(control.grad_scale, static_cast<float>(1.0 / (4.0 + 1e-6)));
  EXPECT_EQ(control.skip, 0u);
  EXPECT_EQ(control.loss, 2.0);
  decide(100.0);
  EXPECT_EQ(control.grad_scale, 1.0f);
  decide(0);  // no clipping
  EXPECT_EQ(control.grad_scale, 1.0f);
}

TEST(DecideStep, SkipsWhatIsNotFinite) {
  const auto skips = [](double loss, double squares, OperandStats stats) {
    StepControl control{.loss = loss, .grad_norm = 0, .grad_scale = 0, .skip = 0};
    const OperandStats all[2] = {{}, stats};
    decide_step({.control = &control,
                 .sum_of_squares = &squares,
                 .clip = 1.0,
                 .stats = all,
                 .stats_count = 2});
    EXPECT_FALSE(std::isnan(control.grad_scale));
    return control.skip != 0;
  };
  EXPECT_FALSE(skips(1, 1, {.values = 9, .saturated = 1, .flushed = 1}));
  EXPECT_TRUE(skips(kNan, 1, {}));
  EXPECT_TRUE(skips(kInf, 1, {}));
  EXPECT_TRUE(skips(1, kNan, {}));
  EXPECT_TRUE(skips(1, kInf, {}));
  EXPECT_TRUE(skips(1, 1, {.nan = 1}));
  EXPECT_TRUE(skips(1, 1, {.inf = 1}));
}

TEST(SurelyFits, IsFalseWhereAValueCouldLeaveItsFormat) {
  // What counts of a stored tensor here are its cast and that there is one.
  float nothing = 0;
  const auto moment = [&](const Operand& cast) {
    return Stored{{reinterpret_cast<std::byte*>(&nothing), *cast.element, 1, 1, 1}, cast};
  };
  Operand scaled = operand_of("fp16");
  scaled.scale = ScaleKind::pow2;
  const auto fits = [&](OptimizerRule rule, const Operand& moments, double norm, float scale,
                        float lr = 1e-3f, float eps = 1e-8f) {
    const Update op{.optimizer = rule,
                    .weight = {},
                    .moment1 = moment(moments),
                    .moment2 = moment(moments),
                    .grad = {},
                    .numbers = {.lr = lr,
                                .beta1 = 0.9f,
                                .beta2 = 0.95f,
                                .eps = eps,
                                .weight_decay = 0.1f,
                                .correction1 = 0.1f,
                                .correction2 = 0.05f}};
    return surely_fits(rule, op.numbers, MomentLimits(op),
                       {.grad_norm = norm, .grad_scale = scale});
  };
  constexpr auto adamw = OptimizerRule::adamw, sgd = OptimizerRule::sgd;
  EXPECT_TRUE(fits(adamw, operand_of("fp16"), 1e6, 1e-6f)) << "clipped to 1";
  EXPECT_TRUE(fits(adamw, operand_of("fp16"), 255, 1));
  EXPECT_FALSE(fits(adamw, operand_of("fp16"), 257, 1)) << "257 squared is above 65504";
  EXPECT_TRUE(fits(adamw, scaled, 1e9, 1)) << "scales follow";
  EXPECT_FALSE(fits(adamw, operand_of("fp32"), 2e19, 1)) << "the square is infinite";
  EXPECT_FALSE(fits(adamw, operand_of("fp32"), 1, 1, 1000)) << "decay makes weights grow";
  EXPECT_FALSE(fits(adamw, operand_of("fp32"), 1, 1, 1e-3f, 1e-30f)) << "by the division by eps";
  EXPECT_TRUE(fits(sgd, operand_of("fp16"), 6000, 1));
  EXPECT_FALSE(fits(sgd, operand_of("fp16"), 7000, 1)) << "momentum sums ten of them";
  EXPECT_FALSE(fits(OptimizerRule::direction, operand_of("fp32"), 1, 1));
}

}  // namespace
}  // namespace ng
