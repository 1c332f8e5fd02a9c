// Updates and optimizer states against independent oracles, code by code, on every backend:
// tests/golden/update and tests/golden/optim.
#include <gtest/gtest.h>

#include <cmath>

#include "format/codec.h"
#include "run/backends.h"
#include "support/golden_file.h"
#include "support/stored_tensor.h"

namespace ng {
namespace {

Operand weight_cast(const std::string& format) {
  Operand cast = operand_of(format);
  if (format == "fp8_e4m3") cast.scale = ScaleKind::pow2;
  cast.overflow = Overflow::saturate;
  return cast;
}

RandomKey key_of(const Json& parameters, uint32_t step) {
  return {.seed = std::stoull(parameters.value("seed", "0")),
          .tensor = parameters.value("tensor_id", 0u),
          .step = step};
}

struct Rule {
  std::string name;
  UpdateRule rule;
  std::string_view carry;  ///< element of it
};
const Rule kRules[] = {{"nearest", UpdateRule::nearest, ""},
                       {"stochastic", UpdateRule::stochastic, ""},
                       {"kahan", UpdateRule::kahan, "bf16"},
                       {"residual8", UpdateRule::residual, "int8"},
                       {"residual4", UpdateRule::residual, "int4"},
                       {"precision_aware", UpdateRule::precision_aware, ""}};

Operand carry_cast(std::string_view element) {
  Operand cast = operand_of("bf16");
  if (!element.empty()) cast.element = &element_format(element);
  return cast;
}

/// How many codes differ where both are not zeros.
int64_t differences(const std::vector<uint16_t>& got, const std::vector<int64_t>& want,
                    size_t first, const ElementFormat& element,
                    const std::vector<int64_t>& sure = {}) {
  int64_t wrong = 0;
  const auto mask = (int64_t{1} << element.bits) - 1;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!sure.empty() && sure[first + i] == 0) continue;
    const int64_t wanted = want[first + i] & mask;
    const bool zeros =
        is_zero_code(element, got[i]) && is_zero_code(element, static_cast<uint32_t>(wanted));
    wrong += got[i] == wanted || zeros ? 0 : 1;
  }
  return wrong;
}

/// A weight that is moved along given directions by one rule.
class RuledWeight {
 public:
  RuledWeight(Backend& backend, const Json& parameters, const Rule& rule)
      : backend_(backend),
        parameters_(parameters),
        rule_(rule),
        weight_(backend, weight_cast(parameters["format"]), parameters["rows"], parameters["cols"]),
        u_(backend, operand_of("fp32"), parameters["rows"], parameters["cols"]),
        carry_(backend, carry_cast(rule.carry), parameters["rows"], parameters["cols"]) {}

  void start_from(const std::vector<int64_t>& codes, const std::vector<float>& encode_scale) {
    weight_.put_codes(codes.data());
    weight_.put_encode_scales(encode_scale.data());
  }
  [[nodiscard]] StoredTensor& carry() { return carry_; }

  void step(const std::vector<float>& u, uint32_t step, UpdateReport* report = nullptr) {
    u_.put_floats(u.data());
    backend_.execute(Update{.optimizer = OptimizerRule::direction,
                            .weight = {.value = weight_.stored(),
                                       .carry = rule_.carry.empty() ? View() : carry_.view(),
                                       .rule = rule_.rule},
                            .grad = u_.view(),
                            .numbers = {.lr = parameters_["lr"]},
                            .key = key_of(parameters_, step),
                            .report = report});
  }

  /// The codes of this weight from place `first` on of `codes`.
  void expect(const std::vector<int64_t>& codes, size_t first, float encode_scale) const {
    EXPECT_EQ(differences(weight_.codes(), codes, first, *weight_.stored().cast.element), 0);
    EXPECT_EQ(weight_.decode_scales()[0], 1 / encode_scale);
  }
  void expect_carry(const GoldenFile& golden, const std::string& name) const {
    if (rule_.carry.empty()) return;
    EXPECT_EQ(differences(carry_.codes(), golden.integers(name), 0, element_format(rule_.carry)),
              0);
  }

 private:
  Backend& backend_;
  const Json& parameters_;
  const Rule& rule_;
  StoredTensor weight_, u_, carry_;
};

class UpdateGolden : public ::testing::TestWithParam<std::string_view> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(std::string(GetParam()), Threads{2});
};

TEST_P(UpdateGolden, OneStepOfEveryRule) {
  const GoldenFile golden("update/onestep");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (parameters.contains("rounding")) continue;  // feedback: below
    for (const Rule& rule : kRules) {
      SCOPED_TRACE(name + " " + rule.name);
      const std::string prefix = name + "." + rule.name + ".";
      RuledWeight weight(*backend_, parameters, rule);
      weight.start_from(golden.integers(name + ".codes"), golden.floats(name + ".encode_scale"));
      if (!rule.carry.empty()) weight.carry().put_codes(golden.integers(prefix + "c0").data());
      const BackendMemory report(*backend_, sizeof(UpdateReport));
      weight.step(golden.floats(name + ".u"), parameters["step"],
                  reinterpret_cast<UpdateReport*>(report.data()));
      weight.expect(golden.integers(prefix + "codes"), 0,
                    golden.floats(prefix + "encode_scale")[0]);
      weight.expect_carry(golden, prefix + "c");
      if (rule.rule != UpdateRule::precision_aware) continue;
      UpdateReport seen;
      backend_->download(&seen, report.data(), sizeof seen);
      EXPECT_EQ(static_cast<float>(seen.alpha), golden.floats(prefix + "alpha")[0]);
      EXPECT_NEAR(std::sqrt(seen.update_squares / seen.target_squares),
                  golden.floats(prefix + "ratio")[0], 1e-6);
    }
  }
}

/// u_t = fl(d + fl(10·U_t)) of a trajectory. [tests/golden/README.md]
std::vector<float> direction_at(const std::vector<float>& d, const RandomKey& key, int64_t cols,
                                float factor, float scale) {
  std::vector<float> u(d.size());
  for (size_t i = 0; i < u.size(); ++i) {
    const auto at = static_cast<uint64_t>(i), width = static_cast<uint64_t>(cols);
    const uint32_t h = random_bits(key, at / width, at % width, width, 16);
    const float uniform = (static_cast<float>(h) + 0.5f) * 0x1p-16f - 0.5f;
    u[i] = d[i] * scale + factor * uniform;
  }
  return u;
}

TEST_P(UpdateGolden, TwoHundredStepsOfEveryRule) {
  const GoldenFile golden("update/trajectories");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (!parameters.contains("rows")) continue;
    const int64_t cols = parameters["cols"];
    const std::vector<float> d = golden.floats(name + ".d");
    const std::vector<int64_t> shown = parameters["steps"];
    for (const Rule& rule : kRules) {
      SCOPED_TRACE(name + " " + rule.name);
      const std::string prefix = name + "." + rule.name + ".";
      RuledWeight weight(*backend_, parameters, rule);
      weight.start_from(golden.integers(name + ".codes0"), golden.floats(name + ".encode_scale0"));
      const std::vector<int64_t> codes = golden.integers(prefix + "codes");
      const std::vector<float> scales = golden.floats(prefix + "encode_scale");
      size_t next = 0;
      for (uint32_t step = 0; step < 200; ++step) {
        RandomKey key = key_of(parameters, step);
        key.purpose = Purpose::data;
        const std::vector<float> now = direction_at(d, key, cols, 10.0f, 1.0f);
        if (step == 199) {
          EXPECT_EQ(now, golden.floats(name + ".u199"));
        }
        weight.step(now, step);
        if (shown[next] != step + 1) continue;
        SCOPED_TRACE(fmt::format("after {}", step + 1));
        weight.expect(codes, next * d.size(), scales[next]);
        ++next;
      }
      weight.expect_carry(golden, prefix + "c");
    }
  }
}

OptimizerNumbers numbers_at(const Json& parameters, int64_t step) {
  OptimizerNumbers n{.lr = parameters["lr"],
                     .beta1 = parameters["beta1"],
                     .beta2 = parameters["beta2"],
                     .eps = parameters["eps"],
                     .weight_decay = parameters["weight_decay"]};
  const auto t = static_cast<double>(step + 1);
  n.correction1 = static_cast<float>(1 - std::pow(double{n.beta1}, t));
  n.correction2 = static_cast<float>(1 - std::pow(double{n.beta2}, t));
  return n;
}

TEST_P(UpdateGolden, SixtyStepsWithFeedback) {
  const GoldenFile golden("update/trajectories");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (!name.ends_with("feedback_nearest") && !name.ends_with("feedback_stochastic")) continue;
    SCOPED_TRACE(name);
    const std::string format = name.substr(0, name.find('.'));
    const Json& of_format = golden.cases()[format];
    const int64_t rows = of_format["rows"], cols = of_format["cols"];
    const std::vector<float> d = golden.floats(format + ".d");
    const std::vector<int64_t> shown = parameters["shown"];
    StoredTensor weight(*backend_, weight_cast(of_format["format"]), rows, cols);
    weight.put_codes(golden.integers(format + ".codes0").data());
    weight.put_encode_scales(golden.floats(format + ".encode_scale0").data());
    const Operand fp32 = operand_of("fp32");
    StoredTensor m(*backend_, fp32, rows, cols), v(*backend_, fp32, rows, cols),
        g(*backend_, fp32, rows, cols);
    const std::vector<int64_t> codes = golden.integers(name + ".codes");
    const std::vector<float> want_m = golden.floats(name + ".m");
    const bool draws = name.ends_with("stochastic");
    size_t next = 0;
    for (uint32_t step = 0; step < 60; ++step) {
      RandomKey key = key_of(of_format, step);
      key.purpose = Purpose::data;
      ++key.tensor;
      g.put_floats(direction_at(d, key, cols, 0.01f, 1e-3f).data());
      backend_->execute(
          Update{.weight = {.value = weight.stored(),
                            .rule = draws ? UpdateRule::stochastic : UpdateRule::nearest,
                            .momentum_feedback = true},
                 .moment1 = m.stored(),
                 .moment2 = v.stored(),
                 .grad = g.view(),
                 .numbers = numbers_at(parameters, step),
                 .key = key_of(of_format, step)});
      if (shown[next] != step + 1) continue;
      const size_t first = next++ * d.size();
      EXPECT_EQ(differences(weight.codes(), codes, first, *weight.stored().cast.element), 0)
          << "after " << step + 1;
      const std::vector<float> now = m.floats();
      EXPECT_TRUE(std::equal(now.begin(), now.end(), want_m.begin() + static_cast<int64_t>(first)))
          << "after " << step + 1;
    }
  }
}

/// States of an AdamW run with narrow states: name in the file, and how it is stored.
struct State {
  std::string name;
  StoredTensor* tensor;
};

void expect_states(const GoldenFile& golden, const std::string& prefix, size_t at,
                   std::initializer_list<State> states) {
  for (const State& state : states) {
    SCOPED_TRACE(fmt::format("{}{} at row {}", prefix, state.name, at));
    const ElementFormat& element = *state.tensor->stored().cast.element;
    const std::vector<uint16_t> codes = state.tensor->codes();
    EXPECT_EQ(differences(codes, golden.integers(prefix + state.name), at * codes.size(), element),
              0);
    if (!state.tensor->view().has_scales()) continue;
    const std::vector<float> scales = state.tensor->decode_scales(),
                             want = golden.floats(prefix + state.name + "_scale");
    for (size_t i = 0; i < scales.size(); ++i)
      EXPECT_EQ(scales[i], 1 / want[at * scales.size() + i]) << i;
  }
}

TEST_P(UpdateGolden, Fp8LmAdamW) {
  const GoldenFile golden("optim/fp8lm_adamw");
  Operand e4m3 = operand_of("fp8_e4m3"), fp16 = operand_of("fp16");
  e4m3.scale = fp16.scale = ScaleKind::pow2;
  for (const auto& [name, parameters] : golden.cases().items()) {
    const std::string prefix = name + ".";
    const int64_t rows = parameters["rows"], cols = parameters["cols"];
    const std::vector<int64_t> shown = golden.integers(prefix + "steps");
    const std::vector<float> grads = golden.floats(prefix + "grads");
    Operand second = fp16;
    if (parameters["moment2"] == "fp8_e4m3") {
      second = e4m3;
      second.scale = ScaleKind::fp32;
    }
    StoredTensor m(*backend_, e4m3, rows, cols), v(*backend_, second, rows, cols),
        w(*backend_, fp16, rows, cols), w8(*backend_, e4m3, rows, cols),
        g(*backend_, operand_of("fp32"), rows, cols);
    g.put_floats(golden.floats(prefix + "w0").data());
    backend_->execute(Store{.y = w.stored(), .x = g.view(), .key = {}});
    backend_->execute(Store{.y = w8.stored(), .x = w.view(), .key = {}});
    expect_states(golden, prefix, 0, {{"w", &w}, {"w8", &w8}});
    size_t next = 1;
    for (int64_t step = 0; step < parameters["steps"]; ++step) {
      g.put_floats(grads.data() + step * rows * cols);
      backend_->execute(Update{.weight = {.value = w8.stored(), .master = w.stored()},
                               .moment1 = m.stored(),
                               .moment2 = v.stored(),
                               .grad = g.view(),
                               .numbers = numbers_at(parameters, step)});
      if (next == shown.size() || shown[next] != step + 1) continue;
      expect_states(golden, prefix, next++, {{"m", &m}, {"v", &v}, {"w", &w}, {"w8", &w8}});
    }
    EXPECT_EQ(next, shown.size());
  }
}

TEST_P(UpdateGolden, AdamWWithFp8States) {
  const GoldenFile golden("optim/adamw_fp8_states");
  for (const auto& [name, parameters] : golden.cases().items()) {
    const std::string prefix = name + ".";
    const std::string shared = name.substr(0, name.find('.')) + ".nearest.";
    const int64_t rows = parameters["rows"], cols = parameters["cols"];
    const std::vector<int64_t> shown = golden.integers(prefix + "steps");
    const std::vector<float> grads = golden.floats(shared + "grads");
    Operand first = operand_of("fp8_e4m3"), second = operand_of("bf16");
    first.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
    if (name.ends_with("stochastic")) first.rounding = second.rounding = Rounding::stochastic;
    const Operand fp32 = operand_of("fp32");
    StoredTensor m(*backend_, first, rows, cols), v(*backend_, second, rows, cols),
        w(*backend_, fp32, rows, cols), g(*backend_, fp32, rows, cols);
    w.put_floats(golden.floats(shared + "w0").data());
    const std::vector<float> want = golden.floats(prefix + "w");
    size_t next = 1;
    for (int64_t step = 0; step < parameters["steps"]; ++step) {
      g.put_floats(grads.data() + step * rows * cols);
      backend_->execute(Update{.weight = {.value = w.stored()},
                               .moment1 = m.stored(),
                               .moment2 = v.stored(),
                               .grad = g.view(),
                               .numbers = numbers_at(parameters, step),
                               .key = key_of(parameters, static_cast<uint32_t>(step))});
      if (next == shown.size() || shown[next] != step + 1) continue;
      expect_states(golden, prefix, next, {{"m", &m}, {"v", &v}});
      const std::vector<float> now = w.floats();
      EXPECT_TRUE(std::equal(now.begin(), now.end(),
                             want.begin() + static_cast<int64_t>(next * now.size())))
          << "w after " << step + 1;
      ++next;
    }
    EXPECT_EQ(next, shown.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, UpdateGolden, ::testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace ng
