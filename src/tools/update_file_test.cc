// `update_file` against independent oracles, from files to files, on every backend:
// tests/golden/update and tests/golden/optim.
#include "tools/update_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "math/philox.h"
#include "support/update_files.h"

namespace ng {
namespace {

/// A rule of the golden files, in recipes' words and by the state it keeps.
struct Rule {
  std::string name, update, carry, element;
};
const Rule kRules[] = {{"nearest", "update = 'nearest'", "", ""},
                       {"stochastic", "update = 'stochastic'", "", ""},
                       {"kahan", "update = 'kahan'", "compensation", "bf16"},
                       {"residual8", "update = 'residual'", "residual", "int8"},
                       {"residual4", "update = 'residual', residual_bits = 4", "residual", "int4"},
                       {"precision_aware", "update = 'precision_aware'", "", ""}};

/// Recipe text of weights without master, in a format of the golden files.
std::string weights_in(const std::string& format, const std::string& update) {
  const std::string scale = format == "fp8_e4m3" ? ", scale = 'pow2'" : "";
  return fmt::format("weights = {{ storage = {{ format = '{}'{} }}, {} }}\n", format, scale,
                     update);
}

std::string element_of_format(const std::string& format) {
  return format == "fp8_e4m3" ? "e4m3" : format;
}

using UpdateFile = UpdateFiles;

/// w + c0 of integers c0 in units of the ulp of w's element over 2^bits.
std::vector<float> sums_of(const std::vector<float>& w, float encode_scale,
                           const ElementFormat& element, const std::vector<int64_t>& c0, int bits) {
  std::vector<float> sums(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    const float magnitude = std::max(std::fabs(w[i] * encode_scale), min_normal(element));
    const double ulp = std::ldexp(1.0, std::ilogb(magnitude) - element.mantissa_bits);
    const double unit = ulp / encode_scale / std::ldexp(1.0, bits);
    sums[i] = static_cast<float>(w[i] + static_cast<double>(c0[i]) * unit);
  }
  return sums;
}

TEST_P(UpdateFile, OneStepOfEveryRule) {
  const GoldenFile golden("update/onestep");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (parameters.contains("rounding")) continue;  // states of within a step: no file says them
    const int64_t rows = parameters["rows"], cols = parameters["cols"];
    const std::string element = element_of_format(parameters["format"]);
    const std::vector<float> scale = golden.floats(name + ".encode_scale");
    const std::vector<float> w = decoded(element, golden.integers(name + ".codes"), scale);
    for (const Rule& rule : kRules) {
      SCOPED_TRACE(name + " " + rule.name);
      const std::string prefix = name + "." + rule.name + ".";
      take("weight", {rows, cols}, w);
      take("weight.scale", {1}, {1 / scale[0]});
      take("direction", {rows, cols}, golden.floats(name + ".u"));
      if (rule.carry == "compensation")
        take("state.compensation", {rows, cols},
             decoded("bf16", golden.integers(prefix + "c0"), {1}));
      if (rule.carry == "residual")
        take("state.residual", {rows, cols},
             sums_of(w, scale[0], element_format(element), golden.integers(prefix + "c0"),
                     element_format(rule.element).bits));
      set_key(parameters, parameters["step"]);
      set_numbers(parameters);
      const io::Safetensors out = update(weights_in(parameters["format"], rule.update));
      const std::vector<int64_t> codes = golden.integers(prefix + "codes");
      const std::vector<float> after = golden.floats(prefix + "encode_scale");
      expect_codes(out, "step1.weight", codes, element);
      EXPECT_EQ(io::to_floats(out.at("step1.weight")), decoded(element, codes, after));
      if (element == "e4m3") expect_scales(out, "step1.weight", after);
      EXPECT_EQ(out.find("step1.moment1"), nullptr) << "a direction has no moments";
      const UpdateFigures& figures = report_.steps.at(0);
      EXPECT_EQ(figures.alpha_over_lr.has_value(), rule.name == "precision_aware");
      if (rule.name == "precision_aware") {
        EXPECT_EQ(static_cast<float>(*figures.alpha_over_lr * settings_.lr),
                  golden.floats(prefix + "alpha")[0]);
        EXPECT_NEAR(*figures.ratio, golden.doubles(prefix + "ratio")[0], 1e-9);
      }
      if (rule.carry.empty()) continue;
      const std::vector<int64_t> c = golden.integers(prefix + "c");
      expect_codes(out, "step1." + rule.carry, c, rule.element);
      if (rule.carry != "residual") continue;
      EXPECT_EQ(io::to_floats(out.at("step1.residual")),
                sums_of(decoded(element, codes, after), after[0], element_format(element), c,
                        element_format(rule.element).bits));
    }
  }
}

/// u_t = fl(d·scale + factor·U_t) of the trajectories. [tests/golden/README.md]
std::vector<float> drawn(const std::vector<float>& d, RandomKey key, int64_t cols, float factor,
                         float scale) {
  key.purpose = Purpose::data;
  std::vector<float> u(d.size());
  for (size_t i = 0; i < u.size(); ++i) {
    const auto at = static_cast<uint64_t>(i), width = static_cast<uint64_t>(cols);
    const uint32_t h = random_bits(key, at / width, at % width, width, 16);
    u[i] = d[i] * scale + factor * ((static_cast<float>(h) + 0.5f) * 0x1p-16f - 0.5f);
  }
  return u;
}

/// Gradients of which sgd without momentum and decay makes the directions of a trajectory.
std::vector<float> gradients_of(const GoldenFile& golden, const std::string& name,
                                const Json& parameters, uint32_t first, uint32_t last) {
  const std::vector<float> d = golden.floats(name + ".d");
  std::vector<float> grads;
  for (uint32_t step = first; step < last; ++step) {
    const RandomKey key{.seed = std::stoull(parameters.value("seed", "0")),
                        .tensor = parameters["tensor_id"],
                        .step = step};
    for (const float u : drawn(d, key, parameters["cols"], 10.0f, 1.0f)) grads.push_back(-u);
  }
  return grads;
}

TEST_P(UpdateFile, TwoHundredStepsOfEveryRule) {
  const GoldenFile golden("update/trajectories");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (!parameters.contains("rows")) continue;
    const int64_t rows = parameters["rows"], cols = parameters["cols"];
    const std::string element = element_of_format(parameters["format"]);
    const std::vector<float> scale = golden.floats(name + ".encode_scale0");
    for (const Rule& rule : kRules) {
      SCOPED_TRACE(name + " " + rule.name);
      const std::string prefix = name + "." + rule.name + ".";
      take("weight", {rows, cols}, decoded(element, golden.integers(name + ".codes0"), scale));
      take("weight.scale", {1}, {1 / scale[0]});
      take("grad", {200, rows, cols}, gradients_of(golden, name, parameters, 0, 200));
      set_key(parameters, 0);
      set_numbers(parameters);
      settings_.show = parameters["steps"].get<std::vector<int64_t>>();
      const std::string recipe = weights_in(parameters["format"], rule.update);
      const io::Safetensors out = update("optimizer.kind = 'sgd'\n" + recipe);
      const std::vector<int64_t> codes = golden.integers(prefix + "codes");
      const std::vector<float> scales = golden.floats(prefix + "encode_scale");
      const auto size = static_cast<size_t>(rows * cols);
      for (size_t i = 0; i < settings_.show.size(); ++i) {
        const std::string weight = fmt::format("step{}.weight", settings_.show[i]);
        expect_codes(out, weight, part(codes, i, size), element);
        if (element == "e4m3") expect_scales(out, weight, {scales[i]});
      }
      if (!rule.carry.empty())
        expect_codes(out, "step200." + rule.carry, golden.integers(prefix + "c"), rule.element);
      if (rule.name != "precision_aware") continue;
      const std::vector<float> alpha = golden.floats(prefix + "alpha");
      const std::vector<double> ratio = golden.doubles(prefix + "ratio");
      for (size_t t = 0; t < alpha.size(); ++t) {
        EXPECT_EQ(static_cast<float>(*report_.steps.at(t).alpha_over_lr * settings_.lr), alpha[t]);
        EXPECT_NEAR(*report_.steps.at(t).ratio, ratio[t], 1e-9) << t;
      }
    }
  }
}

TEST_P(UpdateFile, GoesOnWhereItStopped) {
  const GoldenFile golden("update/trajectories");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (!parameters.contains("rows")) continue;
    const int64_t rows = parameters["rows"], cols = parameters["cols"];
    const std::string element = element_of_format(parameters["format"]);
    for (const Rule& rule : kRules) {
      SCOPED_TRACE(name + " " + rule.name);
      const std::string recipe =
          "optimizer.kind = 'sgd'\n" + weights_in(parameters["format"], rule.update);
      const std::vector<float> scale = golden.floats(name + ".encode_scale0");
      set_key(parameters, 0);
      set_numbers(parameters);
      settings_.show = {};
      take("weight", {rows, cols}, decoded(element, golden.integers(name + ".codes0"), scale));
      take("weight.scale", {1}, {1 / scale[0]});
      take("grad", {7, rows, cols}, gradients_of(golden, name, parameters, 0, 7));
      {
        const io::Safetensors half = update(recipe);
        for (const std::string state : {"momentum", "residual", "compensation"})
          if (half.find("step7." + state) != nullptr)
            take("state." + state, {rows, cols}, io::to_floats(half.at("step7." + state)));
        take("weight", {rows, cols}, io::to_floats(half.at("step7.weight")));
        if (element == "e4m3")
          take("weight.scale", {1}, io::to_floats(half.at("step7.weight.scale")));
      }
      take("grad", {3, rows, cols}, gradients_of(golden, name, parameters, 7, 10));
      set_key(parameters, 7);
      const io::Safetensors out = update(recipe);
      const std::vector<int64_t> codes =
          golden.integers(fmt::format("{}.{}.codes", name, rule.name));
      expect_codes(out, "step3.weight", part(codes, 2, static_cast<size_t>(rows * cols)), element);
    }
  }
}

TEST_P(UpdateFile, SixtyStepsWithFeedback) {
  const GoldenFile golden("update/trajectories");
  for (const auto& [name, parameters] : golden.cases().items()) {
    const bool draws = name.ends_with("feedback_stochastic");
    if (!name.ends_with("feedback_nearest") && !draws) continue;
    SCOPED_TRACE(name);
    const std::string format = name.substr(0, name.find('.'));
    const Json& of_format = golden.cases()[format];
    const int64_t rows = of_format["rows"], cols = of_format["cols"];
    const std::string element = element_of_format(of_format["format"]);
    const std::vector<float> d = golden.floats(format + ".d");
    std::vector<float> grads;
    for (uint32_t step = 0; step < 60; ++step) {
      const RandomKey key{.seed = std::stoull(of_format.value("seed", "0")),
                          .tensor = of_format.value("tensor_id", 0u) + 1,
                          .step = step};
      const std::vector<float> g = drawn(d, key, cols, 0.01f, 1e-3f);
      grads.insert(grads.end(), g.begin(), g.end());
    }
    const std::vector<float> scale = golden.floats(format + ".encode_scale0");
    take("weight", {rows, cols}, decoded(element, golden.integers(format + ".codes0"), scale));
    take("weight.scale", {1}, {1 / scale[0]});
    take("grad", {60, rows, cols}, grads);
    set_key(of_format, 0);
    set_numbers(parameters);
    settings_.show = parameters["shown"].get<std::vector<int64_t>>();
    const std::string update_key =
        fmt::format("update = [{}'momentum_feedback']", draws ? "'stochastic', " : "");
    const io::Safetensors out = update(weights_in(of_format["format"], update_key));
    const std::vector<int64_t> codes = golden.integers(name + ".codes");
    const std::vector<float> m = golden.floats(name + ".m"), v = golden.floats(name + ".v");
    for (size_t i = 0; i < settings_.show.size(); ++i) {
      const std::string step = fmt::format("step{}.", settings_.show[i]);
      expect_codes(out, step + "weight", part(codes, i, d.size()), element);
      EXPECT_EQ(io::to_floats(out.at(step + "moment1")), part(m, i, d.size())) << step;
      EXPECT_EQ(io::to_floats(out.at(step + "moment2")), part(v, i, d.size())) << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, UpdateFile, testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace ng
