// Weight noise against independent oracles, on every backend: tests/golden/noise.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/noise_operations.h"
#include "math/bf16.h"
#include "run/backends.h"
#include "support/golden_file.h"
#include "support/stored_tensor.h"

namespace ng {
namespace {

/// FP32 values in memory of a backend.
struct Values : StoredTensor {
  Values(Backend& backend, int64_t rows, int64_t cols)
      : StoredTensor(backend, operand_of("fp32"), rows, cols) {}
  Values(Backend& backend, const std::vector<float>& values, int64_t rows, int64_t cols)
      : Values(backend, rows, cols) {
    put_floats(values.data());
  }
};

std::vector<float> as_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// Equal but for a level where a weight lies on the edge of two, which these cases have none of.
void expect_levels(const std::vector<float>& found, const std::vector<double>& expected,
                   double level) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * level) << i;
}

/// One case of forward or gradients: a weight, its bit-widths, and their noise.
struct Case {
  Case(Backend& made_by, const std::vector<float>& w, const std::vector<float>& b_i, int64_t r,
       int64_t c, NoiseKind kind, const Json& parameters, const Json& key)
      : backend(made_by),
        rows(r),
        cols(c),
        weight(backend, w, rows, cols),
        bits(backend, b_i, blocks(rows), blocks(cols)),
        scales(backend, blocks(rows), blocks(cols)),
        of{.kind = kind,
           .weight = weight.view(),
           .bit_widths = bits.view(),
           .block = {.kind = Block::Kind::tile, .rows = 32, .cols = 32},
           .b_init = parameters["b_init"],
           .b_target = parameters["b_target"],
           .key = {.seed = std::stoull(key["seed"].get<std::string>()),
                   .tensor = key["tensor_id"],
                   .step = key["step"]}} {}

  static int64_t blocks(int64_t size) { return (size + 31) / 32; }
  [[nodiscard]] std::vector<uint16_t> noisy_in_bf16() {
    StoredTensor y(backend, operand_of("bf16"), rows, cols);
    backend.execute(AddNoise{.y = y.view(), .scales = scales.view(), .of = of});
    return y.codes();
  }

  Backend& backend;
  int64_t rows, cols;
  Values weight, bits, scales;
  NoisyWeight of;
};

class Noise : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(GetParam(), {2});

  void expect_codes(const GoldenFile& golden, const std::string& name, const std::string& prefix,
                    NoiseKind kind) {
    SCOPED_TRACE(name + prefix);
    const Json& parameters = golden.cases()[name];
    Case noise(*backend_, golden.floats(name + ".w"), golden.floats(name + ".b_i"),
               parameters["rows"], parameters["cols"], kind, parameters, parameters);
    const std::vector<uint16_t> codes = noise.noisy_in_bf16();
    const std::vector<int64_t> want = golden.integers(name + prefix + ".codes");
    const std::vector<int64_t> sure = golden.integers(name + prefix + ".sure");
    int64_t wrong = 0;
    for (size_t i = 0; i < codes.size(); ++i)
      wrong += sure[i] != 0 && codes[i] != (want[i] & 0xFFFF) ? 1 : 0;
    EXPECT_EQ(wrong, 0);
    const std::vector<float> scales = noise.scales.floats();
    const std::vector<double> s = golden.doubles(name + ".s");
    for (size_t i = 0; i < scales.size(); ++i)
      EXPECT_NEAR(scales[i], s[i], parameters["exact_scale"] ? 0 : s[i] * 0x1p-21) << i;
  }
};

TEST_P(Noise, Forward) {
  const GoldenFile golden("noise/forward");
  int cases = 0;
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (name == "histogram") continue;
    expect_codes(golden, name, "", NoiseKind::gaussws);
    expect_codes(golden, name, ".diffq", NoiseKind::diffq);
    ++cases;
  }
  EXPECT_EQ(cases, 7);
}

/// Σ X·cotangent, the gradient of a linear layer's weight: (N, K) of G (T, N) and X (T, K).
std::vector<float> weight_gradient(const std::vector<float>& g, const std::vector<float>& x,
                                   int64_t tokens, int64_t n, int64_t k) {
  std::vector<float> dw(static_cast<size_t>(n * k));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < k; ++j) {
      double sum = 0;
      for (int64_t t = 0; t < tokens; ++t)
        sum += double{g[static_cast<size_t>(t * n + i)]} * x[static_cast<size_t>(t * k + j)];
      dw[static_cast<size_t>(i * k + j)] = static_cast<float>(sum);
    }
  return dw;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want) {
  double most = 0;
  for (const double x : want) most = std::max(most, std::fabs(x));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * most) << i;
}

TEST_P(Noise, Gradients) {
  const GoldenFile golden("noise/gradients");
  for (const auto& [name, parameters] : golden.cases().items())
    for (const std::string kind : {"gaussws", "diffq"})
      for (const std::string cast : {"fp32", "bf16"})
        for (int64_t layer = 0; layer < parameters["layers"]; ++layer) {
          const std::string of = fmt::format("{}.layer{}", name, layer);
          const std::string to = fmt::format("{}.{}.{}.layer{}", name, kind, cast, layer);
          SCOPED_TRACE(to);
          const std::vector<int64_t> widths = parameters["widths"];
          const auto l = static_cast<size_t>(layer);
          Case noise(*backend_, golden.floats(of + ".w"), golden.floats(of + ".b_i"), widths[l + 1],
                     widths[l], kind == "gaussws" ? NoiseKind::gaussws : NoiseKind::diffq,
                     parameters, parameters["keys"][l]);
          (void)noise.noisy_in_bf16();
          const Values grad(*backend_, as_floats(golden.doubles(to + ".dw_hat")), noise.rows,
                            noise.cols);
          Values bits(*backend_, Case::blocks(noise.rows), Case::blocks(noise.cols));
          backend_->execute(AddNoiseBackward{.bits = bits.view(),
                                             .grad = grad.view(),
                                             .scales = noise.scales.view(),
                                             .of = noise.of});
          expect_near(bits.floats(), golden.doubles(to + ".db_t"));
          backend_->execute(FinishNoiseGradient{
              .bits = bits.view(), .of = noise.of, .lambda = parameters["bitwidth_loss"]});
          expect_near(bits.floats(), golden.doubles(to + ".db_i"));
        }
}

// dL/dŵ of one layer is that of an ordinary GEMM: what the oracle's other files say of it.
TEST_P(Noise, TheWeightsGradientIsThatOfTheNoisyWeight) {
  const GoldenFile golden("noise/gradients");
  const Json& parameters = golden.cases()["one"];
  const std::vector<int64_t> widths = parameters["widths"];
  expect_near(weight_gradient(golden.floats("one.cotangent"), golden.floats("one.x"),
                              parameters["T"], widths[1], widths[0]),
              golden.doubles("one.gaussws.fp32.layer0.dw_hat"));
}

TEST_P(Noise, Nipq) {
  const GoldenFile golden("noise/rivals");
  int cases = 0;
  for (const std::string name : {"nipq", "nipq_clip"}) {
    SCOPED_TRACE(name);
    const auto number = [&](const char* what) {
      return static_cast<float>(golden.doubles(name + "." + what).at(0));
    };
    const int64_t rows = golden.shape(name + ".w").at(0), cols = golden.shape(name + ".w").at(1);
    const Values w(*backend_, golden.floats(name + ".w"), rows, cols);
    const Values n(*backend_, as_floats(golden.doubles(name + ".n")), rows, cols);
    const Values beta(*backend_, {number("beta")}, 1, 1);
    const Values a(*backend_, {number("a")}, 1, 1);
    const Values u(*backend_, {number("u_bit")}, 1, 1);
    const NoisyWeight of{.kind = NoiseKind::nipq,
                         .weight = w.view(),
                         .bit_widths = beta.view(),
                         .clip = a.view(),
                         .block = {.kind = Block::Kind::tensor},
                         .noise = n.view(),
                         .bit_noise = u.view()};
    Values y(*backend_, rows, cols);
    Values delta(*backend_, 1, 1);
    backend_->execute(AddNoise{.y = y.view(), .scales = delta.view(), .of = of});
    expect_near(y.floats(), golden.doubles(name + ".w_hat"));
    expect_near(delta.floats(), golden.doubles(name + ".delta"));
    const Values grad(*backend_, as_floats(golden.doubles(name + ".dw_hat")), rows, cols);
    Values bits(*backend_, 1, 1);
    Values clip(*backend_, 1, 1);
    backend_->execute(AddNoiseBackward{.bits = bits.view(),
                                       .clip = clip.view(),
                                       .grad = grad.view(),
                                       .scales = delta.view(),
                                       .of = of});
    expect_near(grad.floats(), golden.doubles(name + ".dw"));
    expect_near(bits.floats(), golden.doubles(name + ".db"));
    expect_near(clip.floats(), golden.doubles(name + ".dalpha"));
    backend_->execute(
        FinishNoiseGradient{.bits = bits.view(), .clip = clip.view(), .of = of, .lambda = 0});
    expect_near(bits.floats(), golden.doubles(name + ".dbeta"));
    expect_near(clip.floats(), golden.doubles(name + ".da"));
    backend_->execute(QuantizeByProxy{.y = y.view(), .of = of});
    expect_levels(y.floats(), golden.doubles(name + ".w_eval"), quiet_proxy_of(of).delta);
    ++cases;
  }
  EXPECT_EQ(cases, 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, Noise, testing::Values("ref", "cpu"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace ng
