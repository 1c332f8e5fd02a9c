// The search with foresight finds what the definition finds, whatever the estimates say.
#include "backend/cpu/update/search.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ng::cpu {
namespace {

// A step function that never falls: every weight jumps at thresholds of its own.
class Steps {
 public:
  Steps(uint64_t seed, size_t weights) : first_(weights), jump_(weights) {
    std::mt19937_64 random(seed);
    std::lognormal_distribution<float> spread(0, 2);
    for (size_t i = 0; i < weights; ++i) {
      first_[i] = spread(random);
      jump_[i] = spread(random);
    }
  }
  [[nodiscard]] double norm(float alpha) const {
    double squares = 0;
    for (size_t i = 0; i < first_.size(); ++i) {
      const double moved = std::floor(alpha / first_[i] + 0.5) * jump_[i];
      squares += moved * moved;
    }
    return std::sqrt(squares);
  }

 private:
  std::vector<float> first_, jump_;
};

// Of a norm that grows with α, ‖αu‖, squares are equal at √lr: the notes' step is 1/√lr too long.
TEST(StepSearch, AsPrintedComparesSquares) {
  constexpr double kLength = 3;
  const auto search = [&](float lr, double rtol, int max_iters) {
    return search_step_as_printed(
        [](const StepProbe& probe) { return double{probe.alpha} * kLength; },
        lr * kLength * kLength, rtol, max_iters);
  };
  for (const float lr : {0.5f, 1e-2f, 1e-4f, 1e-7f}) {
    const double step = search(lr, 1e-2, 32);
    EXPECT_NEAR(step, std::sqrt(lr), 0.005 * std::sqrt(lr)) << lr;
  }
  EXPECT_EQ(search(1e-2f, 1e-2, 3), 0.125f) << "the last try of 1/2, 1/4, 1/8";
  EXPECT_EQ(search(4, 1e-2, 5), 31.0f / 32) << "never beyond 1";
}

TEST(StepSearch, FindsWhatTheDefinitionFinds) {
  std::mt19937_64 random(5);
  int passes = 0, searches = 0;
  for (const size_t weights : {1, 2, 5, 40, 3000})
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Steps f(seed, weights);
      const float lr = std::ldexp(1.0f, static_cast<int>(random() % 12) - 10);
      const double target = std::exp(static_cast<double>(random() % 1000) / 100 - 3);
      const double error = 1 + 0.2 * (static_cast<double>(random() % 100) / 100 - 0.5);
      const auto exact = [&](const StepProbe& probe) { return f.norm(probe.alpha); };
      const float expected = search_step(exact, lr, target, 1e-2, 32);
      const auto norms = [&](std::span<const float> alphas, std::span<double> to) {
        ASSERT_LE(alphas.size(), kProbes);
        for (size_t i = 0; i < alphas.size(); ++i) to[i] = f.norm(alphas[i]);
        ++passes;
      };
      const auto estimate = [&](float alpha) { return f.norm(alpha) * error; };
      ForeseenSearch search(lr, target, 1e-2, 32);
      ASSERT_EQ(search.find(norms, estimate), expected) << weights << " " << seed;
      ForeseenSearch unknowing(lr, target, 1e-2, 32);
      ASSERT_EQ(unknowing.find(norms), expected) << weights << " " << seed;
      ++searches;
    }
  EXPECT_GT(passes, searches);
}

TEST(StepSearch, AGoodEstimateTakesOnePass) {
  const Steps f(1, 3000);
  const double target = 2 * f.norm(0.5f);
  int passes = 0;
  const auto norms = [&](std::span<const float> alphas, std::span<double> to) {
    for (size_t i = 0; i < alphas.size(); ++i) to[i] = f.norm(alphas[i]);
    ++passes;
  };
  ForeseenSearch search(1e-3f, target, 1e-2, 32);
  EXPECT_GT(search.find(norms, [&](float alpha) { return f.norm(alpha); }), 0);
  EXPECT_EQ(passes, 1);
}

}  // namespace
}  // namespace ng::cpu
