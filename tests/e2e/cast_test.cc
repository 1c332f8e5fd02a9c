// `cast` against the golden vectors: codes, scales and values of every format family.
#include <cmath>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Cast : public Program {
 protected:
  // The cast of tensors of a golden file.
  [[nodiscard]] io::Safetensors cast(const std::string& file, const std::string& format,
                                     const std::vector<std::string>& flags,
                                     const std::string& tensors = "*.x") const {
    std::vector<std::string> args = {
        "cast", golden(file), "out.safetensors", "--format", format, "--tensor", tensors};
    args.insert(args.end(), flags.begin(), flags.end());
    EXPECT_EQ(run_well(args), "");
    return io::Safetensors(path("out.safetensors"));
  }

  // Equal as numbers: +0 = -0, NaN = NaN.
  static void expect_equal(const io::SafetensorsEntry& have, const io::SafetensorsEntry& want) {
    ASSERT_EQ(have.shape, want.shape) << want.name;
    const std::vector<float> a = io::to_floats(have), b = io::to_floats(want);
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
          << want.name << '[' << i << "]: " << a[i] << ", golden " << b[i];
  }
};

TEST_F(Cast, ElementsSaturatingAndNot) {
  for (const char* format : {"float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float8_e4m3fnuz",
                             "float6_e2m3fn", "float4_e2m1fn", "float16", "bfloat16"}) {
    const std::string file = std::string("casts/") + format + ".safetensors";
    const io::Safetensors want(golden(file));
    const io::Safetensors saturated = cast(file, format, {});
    expect_equal(saturated.at("inrange.x.codes"), want.at("inrange.codes_sat"));
    expect_equal(saturated.at("grid.x.codes"), want.at("grid.codes_sat"));
    EXPECT_EQ(saturated.at("grid.x.codes").dtype,
              std::string(format).back() == '6' && std::string(format).size() < 9 ? "U16" : "U8");
    EXPECT_EQ(saturated.find("grid.x.scale"), nullptr);
  }
  const io::Safetensors want(golden("casts/float8_e5m2.safetensors"));
  const io::Safetensors special =
      cast("casts/float8_e5m2.safetensors", "e5m2", {"--overflow", "special"});
  expect_equal(special.at("grid.x.codes"), want.at("grid.codes"));
}

TEST_F(Cast, MxBlocksAlongRowsAndColumns) {
  const std::string file = "mx/mx_e2m1.safetensors";
  const io::Safetensors want(golden(file));
  const Json cases = Json::parse(want.metadata().at("cases"));
  int64_t axes_seen = 0, compared = 0;
  for (const auto& [name, parameters] : cases.items()) {
    const int axis = parameters.value("axis", -1);
    for (const std::string rule : {"floor", "ceil", "even", "rceil"}) {
      const std::string of_rule = name + '.' + (rule == "floor" ? "" : rule + '.');
      if (want.find(of_rule + "scale") == nullptr) continue;
      const io::Safetensors have =
          cast(file, "mxfp4", {"--axis", std::to_string(axis), "--scale-rule", rule}, name + ".x");
      const io::SafetensorsEntry& mine = have.at(name + ".x.scale");
      ASSERT_EQ(mine.shape, want.at(of_rule + "scale").shape);
      const auto a = io::to_integers(mine), b = io::to_integers(want.at(of_rule + "scale"));
      for (size_t i = 0; i < a.size(); ++i)
        ASSERT_TRUE(a[i] == b[i] || a[i] == 0) << of_rule << i;  // 0: a block of zeros
      if (rule == "floor") expect_equal(have.at(name + ".x.values"), want.at(name + ".dq"));
      ++compared;
      axes_seen |= 1 << (axis + 1);
    }
  }
  EXPECT_EQ(axes_seen, 3) << "the last axis and the first";
  EXPECT_GE(compared, 12);
}

TEST_F(Cast, AMiddleAxisIsThatOfTheTurnedTensor) {
  constexpr int64_t kA = 2, kB = 37, kC = 3;
  std::vector<float> x(kA * kB * kC), turned(x.size());  // (a, b, c) and (a, c, b)
  const auto at = [](int64_t a, int64_t b, int64_t c) { return size_t((a * kB + b) * kC + c); };
  const auto at_turned = [](int64_t a, int64_t b, int64_t c, int64_t length) {
    return size_t((a * kC + c) * length + b);
  };
  for (int64_t a = 0; a < kA; ++a)
    for (int64_t b = 0; b < kB; ++b)
      for (int64_t c = 0; c < kC; ++c)
        turned[at_turned(a, b, c, kB)] = x[at(a, b, c)] = std::sin(float(7 * a + 3 * b + 11 * c));
  const float scalar = 3.3f;
  io::write_safetensors(path("in"), {{"x", "F32", {kA, kB, kC}, x.data()},
                                     {"scalar", "F32", {}, &scalar},
                                     {"none", "F32", {0, 32}, x.data()},
                                     {"integers", "I32", {1}, x.data()}});
  io::write_safetensors(path("turned"), {{"x", "F32", {kA, kC, kB}, turned.data()}});
  (void)run_well({"cast", "in", "out", "--format", "mxfp4", "--axis", "1", "--tensor", "x"});
  (void)run_well({"cast", "turned", "out2", "--format", "mxfp4"});
  const io::Safetensors out(path("out")), out2(path("out2"));
  EXPECT_EQ(out.at("x.scale").shape, (std::vector<int64_t>{kA, 2, kC}));
  EXPECT_EQ(out.at("x.codes").shape, (std::vector<int64_t>{kA, kB, kC}));
  const auto codes = io::to_integers(out.at("x.codes")),
             scales = io::to_integers(out.at("x.scale"));
  const auto codes2 = io::to_integers(out2.at("x.codes"));
  const auto scales2 = io::to_integers(out2.at("x.scale"));
  for (int64_t a = 0; a < kA; ++a)
    for (int64_t c = 0; c < kC; ++c) {
      for (int64_t b = 0; b < kB; ++b)
        ASSERT_EQ(codes[at(a, b, c)], codes2[at_turned(a, b, c, kB)]);
      for (int64_t block = 0; block < 2; ++block)
        ASSERT_EQ(scales[size_t((a * 2 + block) * kC + c)], scales2[at_turned(a, block, c, 2)]);
    }
  (void)run_well({"cast", "in", "all", "--format", "mxfp4"});
  const io::Safetensors all(path("all"));
  EXPECT_EQ(io::to_floats(all.at("scalar.values")), std::vector<float>{3.0f});
  EXPECT_EQ(all.at("none.codes").shape, (std::vector<int64_t>{0, 32}));
  EXPECT_EQ(all.find("integers.codes"), nullptr);
}

TEST_F(Cast, TensorsWithoutValuesKeepTheirShape) {
  const float none = 0;
  io::write_safetensors(path("in"),
                        {{"rows", "F32", {0, 32}, &none}, {"cols", "F32", {3, 0}, &none}});
  const auto scale = [&](const std::string& format, const char* tensor) {
    (void)run_well({"cast", "in", "out", "--format", format});
    const io::Safetensors out(path("out"));
    EXPECT_EQ(out.at(tensor + std::string(".values")).elements(), 0);
    return out.at(tensor + std::string(".scale")).shape;
  };
  EXPECT_EQ(scale("mxfp4", "rows"), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(scale("mxfp4", "cols"), (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(scale("int8", "cols"), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(scale("fp8_e4m3", "cols"), std::vector<int64_t>{1});
  EXPECT_EQ(scale("nvfp4", "rows"), (std::vector<int64_t>{0, 2}));
}

TEST_F(Cast, DrawsBelongToPlacesWhateverTheAxisAndTheSelection) {
  std::vector<float> x(40 * 50);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  io::write_safetensors(path("in"),
                        {{"a", "F32", {2}, x.data()}, {"x", "F32", {40, 50}, x.data()}});
  const auto values = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"cast", "in", "out", "--rounding", "stochastic"});
    (void)run_well(flags);
    return io::to_floats(io::Safetensors(path("out")).at("x.values"));
  };
  for (const char* format : {"fp8_e4m3", "e4m3"}) {  // one scale, or none, whatever the axis
    const std::vector<float> want = values({"--format", format});
    EXPECT_EQ(values({"--format", format, "--axis", "0", "--tensor", "x"}), want) << format;
    EXPECT_EQ(values({"--format", format, "--tensor", "x"}), want) << format;
    EXPECT_NE(values({"--format", format, "--seed", "2"}), want) << format;
  }
}

TEST_F(Cast, Nvfp4InRowsAndTiles) {
  const std::string file = "nvfp4/nvfp4.safetensors";
  const io::Safetensors want(golden(file));
  const io::Safetensors rows = cast(file, "nvfp4", {});
  const io::Safetensors tiles = cast(file, "nvfp4", {"--block", "16x16"});
  for (const char* name : {"lognormal", "heavy_tail", "huge"}) {
    const std::string of_case = name;
    expect_equal(rows.at(of_case + ".x.scale"), want.at(of_case + ".te1d.scale"));
    expect_equal(tiles.at(of_case + ".x.scale"), want.at(of_case + ".te2d.scale"));
    const std::vector<float> have = io::to_floats(rows.at(of_case + ".x.values"));
    const std::vector<float> exact = io::to_floats(want.at(of_case + ".te1d.dq"));
    for (size_t i = 0; i < have.size(); ++i)
      ASSERT_NEAR(have[i], exact[i], 1e-6 * std::fabs(exact[i])) << of_case << i;
    EXPECT_EQ(rows.at(of_case + ".x.tensor_scale").shape, std::vector<int64_t>{1});
  }
}

TEST_F(Cast, StochasticRoundingIsAFunctionOfTheSeed) {
  const std::string file = "casts/float8_e4m3fn.safetensors";
  const auto codes = [&](const std::string& seed, const std::string& format) {
    const io::Safetensors out =
        cast(file, format, {"--rounding", "stochastic", "--seed", seed, "--sr-bits", "16"});
    return io::to_integers(out.at("inrange.x.codes"));
  };
  for (const char* format : {"e4m3", "mxfp4"}) {
    EXPECT_EQ(codes("1", format), codes("1", format));
    EXPECT_NE(codes("1", format), codes("2", format));
  }
}

TEST_F(Cast, FlagsNameEveryKeyOfAnOperand) {
  const std::string file = "fp8/fp8_tensor.safetensors";
  const io::Safetensors want(golden(file));
  const io::Safetensors plain = cast(file, "fp8_e4m3", {});
  const io::Safetensors pow2 = cast(file, "fp8_e4m3", {"--scale", "pow2"});
  const io::Safetensors blocks = cast(file, "e4m3", {"--scale", "fp32", "--block", "1x16"});
  int64_t compared = 0;
  for (const io::SafetensorsEntry& entry : want.entries()) {
    if (!entry.name.ends_with(".x")) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - 2);
    expect_equal(plain.at(entry.name + ".codes"), want.at(name + ".e4m3.codes"));
    expect_equal(pow2.at(entry.name + ".codes"), want.at(name + ".e4m3.pow2.codes"));
    EXPECT_EQ(plain.at(entry.name + ".scale").dtype, "F32");
    EXPECT_EQ(plain.at(entry.name + ".scale").elements(), 1);
    std::vector<int64_t> shape = entry.shape;
    shape.back() = (shape.back() + 15) / 16;
    EXPECT_EQ(blocks.at(entry.name + ".scale").shape, shape);
    ++compared;
  }
  EXPECT_GE(compared, 3);
}

}  // namespace
}  // namespace ng::e2e
