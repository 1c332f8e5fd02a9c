// `cast` against the golden vectors: codes, scales and values of every format family.
#include <cmath>
#include <map>
#include <set>

#include "base/json.h"
#include "format/codec.h"
#include "format/operand.h"
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
    const Result result = run(args);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find("  SQNR "), std::string::npos) << result.out;
    std::istringstream lines(result.err);  // notices of values that are not finite
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(line.starts_with("narrowgauge: note: ")) << line;
    return io::Safetensors(path("out.safetensors"));
  }

  // The files of a folder of tests/golden, by their paths below it; fails where there is none.
  [[nodiscard]] std::vector<std::string> golden_files(const std::string& folder) const {
    std::set<std::string> files;
    for (const auto& item : fs::directory_iterator(golden(folder)))
      if (item.path().extension() == ".safetensors")
        files.insert(folder + '/' + item.path().filename().string());
    EXPECT_FALSE(files.empty()) << folder;
    return {files.begin(), files.end()};
  }
};

// Equal as numbers: +0 = -0, NaN = NaN.
void expect_equal(const io::SafetensorsEntry& have, const io::SafetensorsEntry& want) {
  ASSERT_EQ(have.shape, want.shape) << want.name;
  const std::vector<float> a = io::to_floats(have), b = io::to_floats(want);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
        << want.name << '[' << i << "]: " << a[i] << ", golden " << b[i];
}

// Equal codes; the sign of zero is free.
bool same_code(const ElementFormat& f, int64_t a, int64_t b) {
  return a == b || (decode(f, uint32_t(a)) == 0 && decode(f, uint32_t(b)) == 0);
}

// Equal codes of x, or both NaN; formats without NaN have no comparable code for it.
bool same_cast(const ElementFormat& f, float x, int64_t a, int64_t b) {
  if (a == b || (std::isnan(x) && f.specials == Specials::none)) return true;
  return std::isnan(decode(f, uint32_t(a))) && std::isnan(decode(f, uint32_t(b)));
}

TEST_F(Cast, ElementsSaturatingAndNot) {
  for (const std::string& file : golden_files("casts")) {
    const io::Safetensors want(golden(file));
    if (want.find("decode") == nullptr) continue;  // not of one format
    const ElementFormat& f = element_format(golden(file).stem().string());
    const io::Safetensors special = cast(file, std::string(f.name), {"--overflow", "special"});
    const io::Safetensors saturated = cast(file, std::string(f.name), {"--overflow", "saturate"});
    for (const io::SafetensorsEntry& entry : want.entries()) {
      const size_t dot = entry.name.rfind('.');
      const std::string kind = dot == std::string::npos ? "" : entry.name.substr(dot);
      if (!kind.starts_with(".codes")) continue;
      const std::string input = entry.name.substr(0, dot) + ".x";
      const auto& have = (kind == ".codes" ? special : saturated).at(input + ".codes");
      EXPECT_EQ(have.dtype, f.bits > 8 ? "U16" : "U8");
      const std::vector<float> x = io::to_floats(want.at(input));
      const auto a = io::to_integers(have), b = io::to_integers(entry);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_TRUE(same_cast(f, x[i], a.at(i), b.at(i)) ||
                    (kind == ".codes_sat" && std::isinf(x[i])))
            << f.name << ' ' << entry.name << '[' << i << ']';
      EXPECT_EQ(saturated.find(input + ".scale"), nullptr);
    }
  }
}

// A tensor (outer, k, inner), row-major, with a scale for each 32 values along k.
struct Blocks {
  size_t k = 1, inner = 1;

  Blocks(const std::vector<int64_t>& shape, int64_t axis) {
    const auto at = static_cast<size_t>(axis < 0 ? axis + int64_t(shape.size()) : axis);
    k = static_cast<size_t>(shape.at(at));
    for (size_t d = at + 1; d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
  }
  // Index of the scale of value i.
  [[nodiscard]] size_t scale_of(size_t i) const {
    const size_t outer = i / inner / k, block = i / inner % k / 32;
    return (outer * ((k + 31) / 32) + block) * inner + i % inner;
  }
};

// The scale codes that a file asks for: those of blocks of zeros are free (-1), and for an amax
// that `even` rounds up to 2^128 the file has NaN where formats.md 3.4 has 2^(128 - emax).
std::vector<int64_t> wanted_scales(std::vector<int64_t> scales, const std::vector<float>& x,
                                   const Blocks& blocks, const ElementFormat& f) {
  std::vector<bool> zero(scales.size(), true), finite(scales.size(), true);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != 0) zero.at(blocks.scale_of(i)) = false;
    if (!std::isfinite(x[i])) finite.at(blocks.scale_of(i)) = false;
  }
  for (size_t i = 0; i < scales.size(); ++i) {
    if (zero[i])
      scales[i] = -1;
    else if (scales[i] == 255 && finite[i])
      scales[i] = std::min(254, 255 - emax(f));
  }
  return scales;
}

// X.codes, X.scale and X.values of `have` against the tensors of the file that begin with `prefix`.
void expect_codes(const io::Safetensors& have, const io::Safetensors& want,
                  const std::string& x_name, const std::string& prefix, int64_t axis,
                  const ElementFormat& f) {
  const io::SafetensorsEntry& scale = want.at(prefix + "scale");
  ASSERT_EQ(have.at(x_name + ".scale").shape, scale.shape) << prefix;
  const std::vector<float> x = io::to_floats(want.at(x_name));
  const Blocks blocks(want.at(x_name).shape, axis);
  const auto mine = io::to_integers(have.at(x_name + ".scale")), stored = io::to_integers(scale);
  const auto wanted = wanted_scales(stored, x, blocks, f);
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_TRUE(mine[i] == wanted[i] || wanted[i] == -1) << prefix << "scale[" << i << ']';
  if (want.find(prefix + "codes") == nullptr) return;  // they mean nothing where blocks are NaN
  const auto a = io::to_integers(have.at(x_name + ".codes"));
  const auto b = io::to_integers(want.at(prefix + "codes"));
  const std::vector<float> values = io::to_floats(have.at(x_name + ".values"));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto exponent = static_cast<int>(stored[blocks.scale_of(i)]) - 127;
    if (exponent == 128) continue;
    const int64_t code = b.at(i) & 0xFF;  // int8 elements are stored signed
    ASSERT_TRUE(same_code(f, a.at(i), code)) << prefix << "codes[" << i << ']';
    ASSERT_EQ(values.at(i), std::ldexp(decode(f, uint32_t(code)), exponent)) << prefix << i;
  }
}

// What the file has of a case by a scale rule; false where that is nothing.
bool expect_mx(const io::Safetensors& have, const io::Safetensors& want, const std::string& name,
               const std::string& rule, int64_t axis, const ElementFormat& f) {
  const std::string x = name + ".x", prefix = name + '.' + (rule == "floor" ? "" : rule + '.');
  const bool scales = want.find(prefix + "scale") != nullptr;
  const io::SafetensorsEntry* dq = want.find(prefix + "dq");
  if (scales) expect_codes(have, want, x, prefix, axis, f);
  if (dq != nullptr) expect_equal(have.at(x + ".values"), *dq);
  return scales || dq != nullptr;
}

std::string mx_format(const std::string& element) {
  for (const std::string_view name : operand_names()) {
    const std::string_view own = operand_of(name).element->short_name;
    if (name.starts_with("mx") && (own == element || own == "mx" + element))
      return std::string(name);
  }
  ADD_FAILURE() << "no MX format of " << element;
  return "";
}

TEST_F(Cast, MxBlocksAlongEveryAxisByEveryRule) {
  for (const std::string& file : golden_files("mx")) {
    const io::Safetensors want(golden(file));
    const Json cases = Json::parse(want.metadata().at("cases"));
    EXPECT_FALSE(cases.empty()) << file;
    std::map<std::pair<std::string, int64_t>, std::vector<std::string>> names;  // format and axis
    for (const auto& [name, parameters] : cases.items())
      names[{mx_format(parameters.at("elem")), parameters.at("axis")}].push_back(name);
    std::set<std::string> compared;
    for (const auto& [cast_as, group] : names)
      for (const std::string rule : {"floor", "ceil", "even", "rceil"}) {
        const auto& [format, axis] = cast_as;
        const io::Safetensors have =
            cast(file, format, {"--axis", std::to_string(axis), "--scale-rule", rule});
        for (const std::string& name : group)
          if (expect_mx(have, want, name, rule, axis, *operand_of(format).element))
            compared.insert(name);
      }
    EXPECT_EQ(compared.size(), cases.size()) << file;
  }
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
  const Result whole = run({"cast", "in", "all", "--format", "mxfp4"});
  EXPECT_EQ(whole.err,
            "narrowgauge: note: in: 1 tensor without floating-point values skipped: integers\n");
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

// Blocks of tile_rows × 16 of X against <prefix>.codes, .scale and .dq.
void expect_nvfp4(const io::Safetensors& have, const io::Safetensors& want,
                  const std::string& x_name, const std::string& prefix, size_t tile_rows) {
  const ElementFormat& e2m1 = element_format("e2m1");
  const io::SafetensorsEntry &x = want.at(x_name), &scale = want.at(prefix + ".scale");
  ASSERT_EQ(have.at(x_name + ".scale").shape, scale.shape) << prefix;
  const auto mine = io::to_integers(have.at(x_name + ".scale")), scales = io::to_integers(scale);
  ASSERT_EQ(mine, scales) << prefix;
  EXPECT_EQ(have.at(x_name + ".tensor_scale").shape, std::vector<int64_t>{1});
  const auto a = io::to_integers(have.at(x_name + ".codes"));
  const auto b = io::to_integers(want.at(prefix + ".codes"));
  const std::vector<float> values = io::to_floats(have.at(x_name + ".values"));
  const std::vector<float> dq = io::to_floats(want.at(prefix + ".dq"));
  const auto cols = static_cast<size_t>(x.shape.back());
  for (size_t i = 0; i < dq.size(); ++i) {
    const size_t block = i / cols / tile_rows * ((cols + 15) / 16) + i % cols / 16;
    // Scale 0: every code is worth 0; the file has ±6, formats.md 4.1 writes 0.
    ASSERT_TRUE(scales.at(block) == 0 || same_code(e2m1, a.at(i), b.at(i))) << prefix << i;
    ASSERT_NEAR(values.at(i), dq[i], 1e-6 * std::fabs(dq[i])) << prefix << i;
  }
}

TEST_F(Cast, Nvfp4InRowsAndTiles) {
  for (const std::string& file : golden_files("nvfp4")) {
    const io::Safetensors want(golden(file));
    const io::Safetensors rows = cast(file, "nvfp4", {});
    const io::Safetensors tiles = cast(file, "nvfp4", {"--block", "16x16"});
    int64_t compared = 0;
    for (const io::SafetensorsEntry& entry : want.entries()) {
      const std::string name = entry.name.substr(0, entry.name.rfind('.'));
      if (!entry.name.ends_with(".x") || want.find(name + ".xt")) continue;  // cast transforms none
      expect_nvfp4(rows, want, entry.name, name + ".te1d", 1);
      if (want.find(name + ".te2d.codes"))
        expect_nvfp4(tiles, want, entry.name, name + ".te2d", 16);
      ++compared;
    }
    EXPECT_GT(compared, 0) << file;
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
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace ng::e2e
