// Gradients of a whole step against differences of losses, with the same draws.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "support/tiny_run.h"

namespace ng {

/// Of every parameter, by name.
using Gradients = std::map<std::string, std::vector<float>>;

/// One step from weights eight times the usual first ones, so that noise on them is felt; `moved`
/// is added to the first value of one parameter.
class OneStep {
 public:
  OneStep(const std::string& recipe, const std::string& parameter, float moved)
      : tiny_({.recipe = "name = 'test'\n" + recipe}) {
    for (size_t i = 0; i < tiny_.model().parameters().size(); ++i) {
      const Parameter& p = tiny_.model().parameters()[i];
      std::vector<float> values = download(tiny_.run().backend(), p.value());
      if (!p.spec.is_vector)
        for (float& x : values) x *= 8;
      if (p.spec.name == parameter) values.front() += moved;
      write(i, values);
    }
    tiny_.trainer().set_gradient_observer([&] {
      for (const Parameter& p : tiny_.model().parameters())
        gradients[p.spec.name] = download(tiny_.run().backend(), p.grad.view());
    });
    const StepReport report = tiny_.step(0);
    EXPECT_FALSE(report.skipped);
    loss = report.loss;
  }

  double loss = 0;
  Gradients gradients;

 private:
  void write(size_t index, std::span<const float> values) {
    const auto cols = static_cast<size_t>(tiny_.model().parameters()[index].spec.cols);
    for (size_t row = 0; row < values.size() / cols; ++row)
      tiny_.model().write_row(tiny_.run(), index, static_cast<int64_t>(row),
                              values.subspan(row * cols, cols));
  }

  TinyRun tiny_;
};

/// dL/d(first value of the parameter), by a central difference.
inline double difference_of(const std::string& recipe, const std::string& parameter) {
  constexpr float kMoved = 0x1p-5f;
  return (OneStep(recipe, parameter, kMoved).loss - OneStep(recipe, parameter, -kMoved).loss) /
         (2 * kMoved);
}

/// Losses are sums in FP32 of relative error 2^-22 or so; their third derivative adds less than a
/// hundredth.
inline void expect_gradient(const std::string& recipe, const std::string& parameter,
                            double beside = 0) {
  SCOPED_TRACE(parameter + ": " + recipe);
  const double found = OneStep(recipe, parameter, 0).gradients.at(parameter).front();
  const double want = difference_of(recipe, parameter);
  EXPECT_GT(std::abs(want), 3e-4) << "too small to be seen";
  EXPECT_NEAR(found, want + beside, 0.02 * std::abs(want) + 5e-5);
}

}  // namespace ng
