#include "run/run.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "run/backends.h"
#include "run/transfer.h"

namespace ng {
namespace {

class Runs : public testing::Test {
 protected:
  static PersistentSpec spec(const char* name, const ElementFormat& element) {
    return {.name = name,
            .owner = "a layer",
            .kind = MemoryKind::weights,
            .element = &element,
            .rows = 2,
            .cols = 5};
  }
  [[nodiscard]] std::vector<float> values() const { return download(run_.backend(), x_); }

  ng::Run run_{make_backend("cpu", {1}), 1};
  View x_ = run_.persistent(spec("x", fp32_format()));
};

TEST_F(Runs, ADryRunOnlyPlans) {
  const Program program = run_.record([&] {
    const Tensor y = run_.tensor_like(x_);
    run_.execute(Fill{.x = x_, .value = 1});
    run_.execute(Copy{.y = y.view(), .x = x_});
  });
  EXPECT_EQ(values(), std::vector<float>(10, 0.0f));
  EXPECT_EQ(total_seconds(run_.seconds()), 0);
  run_.reserve({&program});
  run_.replay(program, [&] {
    const Tensor y = run_.tensor_like(x_);
    run_.execute(Fill{.x = x_, .value = 1});
    run_.execute(Copy{.y = y.view(), .x = x_});
    EXPECT_EQ(download(run_.backend(), y.view()), std::vector<float>(10, 1.0f));
  });
}

TEST_F(Runs, TimeCountsAsTheOperationSays) {
  run_.execute(Fill{.x = x_, .value = 1});
  run_.execute(AddSumOfSquares{.sum = run_.persistent_values<double>("sum", 1), .x = x_});
  for (size_t kind = 0; kind < kTimeKinds; ++kind) {
    const bool counts = kind == static_cast<size_t>(TimeKind::elementwise) ||
                        kind == static_cast<size_t>(TimeKind::optimizer);
    EXPECT_EQ(run_.seconds()[kind] > 0, counts) << name_of(static_cast<TimeKind>(kind));
  }
  run_.reset_seconds();
  EXPECT_EQ(total_seconds(run_.seconds()), 0);
}

TEST_F(Runs, ADiagnosisNamesTheFirstOutputThatIsNotFinite) {
  const View y = run_.persistent(spec("y", bf16_format()));
  const auto diagnose = [&](float value) {
    run_.start_diagnosis();
    const ng::Run::Place place = run_.in("blocks.3.mlp.up");
    run_.execute(Fill{.x = x_, .value = 1});
    run_.execute(Fill{.x = x_, .value = value});
    run_.execute(Add{.y = y, .a = x_, .b = x_});
    return run_.finish_diagnosis();
  };
  EXPECT_FALSE(diagnose(2).found);
  const Diagnosis found = diagnose(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(found.found);
  EXPECT_EQ(found.layer, "blocks.3.mlp.up");
  EXPECT_EQ(found.operand, "fill x");
  EXPECT_EQ(diagnose(3e38f).operand, "add y") << "the sum overflows";
}

TEST_F(Runs, TheRegisterKnowsEachTensorOnce) {
  EXPECT_THROW((void)run_.persistent(spec("x", bf16_format())), InternalError);
  const size_t before = run_.persistent_by_kind()[static_cast<size_t>(MemoryKind::weights)];
  const View codes = run_.persistent(spec("codes", element_format("e2m1")));
  EXPECT_EQ(codes.stride, 6) << "rows begin with a byte";
  EXPECT_EQ(run_.persistent_by_kind()[static_cast<size_t>(MemoryKind::weights)], before + 64);
  const Persistent& row = run_.persistents().back();
  EXPECT_EQ(row.spec.name, "codes");
  EXPECT_EQ(row.view.data, codes.data);
  EXPECT_TRUE(row.spec.is_saved);
}

}  // namespace
}  // namespace ng
