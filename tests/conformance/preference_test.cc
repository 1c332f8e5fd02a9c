// The loss of pairs: every backend against ref to the bit, and ref against eq. 7 of Rafailov et al.
// 2023 in extended precision, where σ is 0 or 1, log-probabilities are not finite, and masks empty.
#include <limits>

#include "conformance.h"

namespace ng::conformance {
namespace {

constexpr int64_t kLength = 3;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Cross-entropies of a pair: the chosen sequence's tokens, then the rejected one's.
using PairOfTokens = std::vector<float>;

struct PreferenceCase {
  const char* name;
  PairOfTokens policy, reference, mask;
};

const PreferenceCase kPreferenceCases[] = {
    {"policy is reference", {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}},
    {"small margin", {1, 2, 3, 4, 5, 6}, {1.5f, 2, 3, 4, 5, 5.75f}, {1, 1, 1, 1, 1, 1}},
    {"chosen far ahead", {1, 0, 2, 900, 800, 5}, {700, 600, 2, 9, 8, 5}, {1, 1, 1, 1, 1, 1}},
    {"rejected far ahead", {700, 600, 2, 9, 8, 5}, {1, 0, 2, 900, 800, 5}, {1, 1, 1, 1, 1, 1}},
    {"margin where exp ends", {355, 355, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}},
    {"masked prompt", {0, 0, 3, 0, 5, 6}, {0, 0, 2, 0, 5, 7}, {0, 0, 1, 0, 1, 1}},
    {"no target in one", {0, 0, 0, 0, 5, 6}, {0, 0, 0, 0, 5, 7}, {0, 0, 0, 0, 1, 1}},
    {"NaN of the policy", {1, NAN, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}},
    {"NaN of the reference", {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, NAN}, {1, 1, 1, 1, 1, 1}},
    {"rejected impossible", {1, 2, 3, kInfinity, 5, 6}, {1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}},
    {"chosen impossible", {kInfinity, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}},
    {"both impossible", {kInfinity, 2, 3, kInfinity, 5, 6}, {1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}},
    {"no target at all", {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}},
    {"NaN that counts for nothing", {NAN, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}},
};

struct PreferenceNumbers {
  double beta = 0.1, label_smoothing = 0;
};
const PreferenceNumbers kPreferenceNumbers[] = {{0.1, 0}, {0.1, 0.25}, {1, 0},
                                                {1, 0.5}, {50, 0.1},   {1e-6, 0.1}};

/// What the operation leaves; its sums, FP64, in three parts each, which lose no bit.
Results preference_results(const Place& with, const PreferenceCase& of, const PreferenceNumbers& n,
                           double& loss, PreferenceSums& sums, int64_t length = kLength) {
  const Tensor policy = with.fp32(Matrix::row(of.policy)),
               reference = with.fp32(Matrix::row(of.reference)),
               mask = with.fp32(Matrix::row(of.mask));
  Tensor weights = with.fp32(Matrix(1, std::ssize(of.mask), 2, 1));
  Buffer<double> total = with.buffer<double>({loss});
  Buffer<PreferenceSums> totals = with.buffer<PreferenceSums>({sums});
  with.execute(PreferenceLoss{.losses = policy,
                              .reference = reference,
                              .mask = mask,
                              .weights = weights,
                              .length = length,
                              .beta = n.beta,
                              .label_smoothing = n.label_smoothing,
                              .loss = total.data(),
                              .sums = totals.data()});
  loss = total.values().front();
  sums = totals.values().front();
  std::vector<float> parts;
  for (double value : {loss, sums.pairs, sums.loss, sums.chosen, sums.rejected, sums.chosen_reward,
                       sums.rejected_reward, sums.accurate})
    for (int part = 0; part < 3; ++part) {
      parts.push_back(static_cast<float>(value));
      value = std::isfinite(value) ? value - double{parts.back()} : 0;
    }
  return {{"weights", weights.values()}, {"sums", Matrix::row(parts)}};
}

TEST(Conformance, PreferenceLoss) {
  for (const PreferenceCase& of : kPreferenceCases)
    for (const PreferenceNumbers& n : kPreferenceNumbers)
      conform(fmt::format("preference_loss {} beta {} smoothing {}", of.name, n.beta,
                          n.label_smoothing),
              [&](const Place& with) {
                double loss = 0;
                PreferenceSums sums;
                return preference_results(with, of, n, loss, sums);
              });
}

// Sums are added in the order of pairs to what was there; a pair without a target is among them.
TEST(Conformance, PreferenceLossOfManyPairs) {
  constexpr int64_t kPairs = 37, kLong = 45;
  PreferenceCase of{.name = "many", .policy = {}, .reference = {}, .mask = {}};
  for (int64_t t = 0; t < 2 * kPairs * kLong; ++t) {
    const auto i = static_cast<uint64_t>(t);
    of.mask.push_back(t / (2 * kLong) == 5 || t % 7 == 3 ? 0.0f : 1.0f);
    of.policy.push_back(of.mask.back() * (2 + uniform(1, i)));
    of.reference.push_back(of.mask.back() * (2 + uniform(2, i)));
  }
  for (const PreferenceNumbers& n : kPreferenceNumbers)
    conform(fmt::format("preference_loss of many pairs beta {} smoothing {}", n.beta,
                        n.label_smoothing),
            [&](const Place& with) {
              double loss = 0.75;
              PreferenceSums sums{.pairs = 3, .loss = 0.75, .chosen = -1};
              Results results = preference_results(with, of, n, loss, sums, kLong);
              EXPECT_EQ(sums.pairs, 3 + kPairs - 1);
              return results;
            });
}

/// -ln σ(z) in extended precision.
long double negative_log_sigmoid(long double z) {
  return z > 0 ? std::log1p(std::exp(-z)) : std::log1p(std::exp(z)) - z;
}

// FP64 rounds each of at most ten terms, below 2^11, of z, which β enlarges; loss and slope have
// slopes of at most 1 and β/4. softplus and sigmoid add an ulp each of values up to that of z.
TEST(Conformance, PreferenceLossIsThatOfThePaper) {
  for (const PreferenceCase& of : kPreferenceCases)
    for (const PreferenceNumbers& n : kPreferenceNumbers) {
      SCOPED_TRACE(fmt::format("{} beta {} smoothing {}", of.name, n.beta, n.label_smoothing));
      double loss = 0;
      PreferenceSums sums;
      const Matrix weights =
          preference_results({conformance::reference()}, of, n, loss, sums).at("weights");
      long double z = 0;
      float targets = 0;
      for (size_t t = 0; t < of.policy.size(); ++t) {
        const long double gain = (long double){of.reference[t]} - of.policy[t];
        z += t < kLength ? gain : -gain;
        targets += of.mask[t];
      }
      z *= n.beta;
      if (targets == 0) {
        EXPECT_EQ(loss, 0);
        EXPECT_EQ(sums.pairs, 0);
      } else if (std::isnan(z)) {
        EXPECT_TRUE(std::isnan(loss)) << "so that the step is skipped";
      } else if (std::isfinite(z)) {
        const long double want = (1 - n.label_smoothing) * negative_log_sigmoid(z) +
                                 n.label_smoothing * negative_log_sigmoid(-z);
        const double error = (10 * n.beta * 0x1p11 + 4 * (1 + std::abs(loss))) * 0x1p-53;
        EXPECT_NEAR(loss, static_cast<double>(want), error);
        EXPECT_EQ(sums.accurate, z > 0 ? 1 : 0);
        const auto slope =
            static_cast<double>(n.beta * (1 - n.label_smoothing - 1 / (1 + std::exp(-z))));
        for (int64_t t = 0; t < 2 * kLength; ++t)
          EXPECT_NEAR(weights.at(0, t),
                      of.mask[static_cast<size_t>(t)] * (t < kLength ? slope : -slope),
                      std::abs(slope) * kUnit + n.beta * error)
              << t;
      } else {
        EXPECT_EQ(loss, z > 0 && n.label_smoothing == 0 ? 0 : kInfinity);
      }
    }
}

}  // namespace
}  // namespace ng::conformance
