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

TEST_F(Runs, ALeaseIsGoneFromTheRegister) {
  const MemoryByKind before = run_.persistent_by_kind();
  for (int i = 0; i < 2; ++i) {
    const ng::Run::Lease lease(run_);
    (void)run_.persistent(spec("lent", fp32_format()));
    (void)run_.persistent_values<double>("untyped", 1000);
    EXPECT_NE(run_.persistent_by_kind(), before);
  }
  EXPECT_EQ(run_.persistent_by_kind(), before);
  EXPECT_THROW((void)run_.persistent(spec("x", fp32_format())), InternalError) << "it stayed";
}

// One tensor before the turns that lives through them, one of each turn, one behind them.
TEST_F(Runs, TurnsShareTheMemoryOfOne) {
  int turns = 0;
  const auto body = [&](int64_t count) {
    const Tensor sum = run_.tensor_like(x_);
    run_.execute(Fill{.x = sum, .value = 0});
    run_.repeat(count, [&](int64_t i) {
      const Tensor term = run_.tensor_like(x_);
      run_.execute(Fill{.x = term, .value = static_cast<float>(i)});
      run_.execute(Add{.y = sum, .a = sum, .b = term});
      ++turns;
    });
    const Tensor last = run_.tensor_like(x_);
    run_.execute(Copy{.y = x_, .x = sum});
  };
  const Program one = run_.record([&] { body(1); });
  turns = 0;
  const Program many = run_.record([&] { body(int64_t{1} << 40); });
  EXPECT_EQ(turns, 1);
  EXPECT_EQ(many.bytes, one.bytes);
  EXPECT_EQ(many.slots.size(), 3u);
  run_.reserve({&many});
  run_.replay(many, [&] { body(4); });
  EXPECT_EQ(values(), std::vector<float>(10, 6.0f));
  run_.replay(many, [&] { body(1); });
  EXPECT_THROW((void)run_.record([&] {
    Tensor left;
    run_.repeat(2, [&](int64_t) { left = run_.tensor_like(x_); });
  }),
               InternalError);
}

TEST_F(Runs, AReplayMayWaitBetweenTurns) {
  Tensor kept;
  const auto turn = [&] {
    const Tensor term = run_.tensor_like(x_);
    run_.execute(Fill{.x = term, .value = 2});
    run_.execute(Add{.y = kept, .a = kept, .b = term});
  };
  const auto begin = [&] {
    kept = run_.tensor_like(x_);
    run_.execute(Fill{.x = kept, .value = 1});
  };
  const Program program = run_.record([&] {
    begin();
    run_.repeat(2, [&](int64_t) { turn(); });
    kept = {};
  });
  run_.reserve({&program});
  for (const int turns : {0, 1, 3}) {
    {
      ng::Run::OpenReplay replay(run_, program);
      begin();
      for (int i = 0; i < turns; ++i) replay.turn(turn);
      EXPECT_EQ(download(run_.backend(), kept.view()),
                std::vector<float>(10, 1.0f + 2.0f * static_cast<float>(turns)));
      kept = {};
    }
    run_.replay(program, [&] {
      begin();
      run_.repeat(1, [&](int64_t) { turn(); });
      kept = {};
    });
  }
}

}  // namespace
}  // namespace ng
