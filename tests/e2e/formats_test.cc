// `formats` against the scalar definition, the reference backend and the worked examples of the
// specification.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/ref/operand.h"
#include "base/json.h"
#include "format/codec.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Formats : public Program {
 protected:
  [[nodiscard]] Json json(std::vector<std::string> args) const {
    args.insert(args.begin(), "formats");
    args.emplace_back("--json");
    return Json::parse(run_well(args));
  }
  /// The steps of one value.
  [[nodiscard]] Json steps(const std::string& name, const std::string& value) const {
    return json({name, "--value", value})["values"][0];
  }
  /// The way of a block that a rule chooses.
  [[nodiscard]] Json way(const std::string& name, const std::string& values,
                         const std::string& rule, const std::string& amax = "") const {
    std::vector<std::string> args = {name, "--value", values};
    if (!amax.empty()) args.insert(args.end(), {"--amax", amax});
    const Json all = json(args);
    for (const Json& w : all["ways"])
      for (const Json& r : w["rules"])
        if (r == rule) return w;
    ADD_FAILURE() << name << " has no rule " << rule;
    return {};
  }
};

float number(const Json& value) {
  if (value.is_number()) return value.get<float>();
  return value == "inf" ? HUGE_VALF : value == "-inf" ? -HUGE_VALF : NAN;
}

bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

std::vector<int> firsts(const Json& bytes, size_t count) {
  std::vector<int> first;
  for (size_t i = 0; i < count; ++i) first.push_back(bytes[i].get<int>());
  return first;
}
using Ints = std::vector<int>;
using Floats = std::vector<float>;

std::vector<float> near(const Json& values, float step) {  // rounded to a multiple of `step`
  std::vector<float> rounded;
  for (const Json& v : values) rounded.push_back(std::round(number(v) / step) * step);
  return rounded;
}

// ---------------------------------------------------------------- codes

TEST_F(Formats, ListEveryCodeWithItsNeighbours) {
  for (const ElementFormat& f : element_formats()) {
    if (f.bits > 8) continue;
    const Json facts = json({std::string(f.short_name), "--element", "--codes"});
    const std::vector<float> values = decode_table(f);
    ASSERT_EQ(facts["codes"].size(), values.size()) << f.name;
    std::set<float> finite;
    for (const float v : values)
      if (std::isfinite(v)) finite.insert(v);
    EXPECT_EQ(facts["distinct_values"], finite.size()) << f.name;
    for (size_t code = 0; code < values.size(); ++code) {
      const Json& c = facts["code_facts"][code];
      ASSERT_TRUE(same(number(facts["codes"][code]), values[code])) << f.name << code;
      ASSERT_TRUE(same(number(c["value"]), values[code])) << f.name << code;
      if (!std::isfinite(values[code])) continue;
      const auto above = finite.upper_bound(values[code]);
      const auto at = finite.lower_bound(values[code]);
      ASSERT_EQ(c["upper"].is_null(), above == finite.end()) << f.name << code;
      ASSERT_EQ(c["lower"].is_null(), at == finite.begin()) << f.name << code;
      if (above != finite.end()) {
        ASSERT_EQ(number(c["upper"]), *above) << f.name << code;
        ASSERT_EQ(number(c["spacing"]), *above - values[code]) << f.name << code;
      }
      if (at != finite.begin()) {
        ASSERT_EQ(number(c["lower"]), *std::prev(at)) << f.name << code;
      }
    }
  }
}

TEST_F(Formats, NameSpecialCodes) {
  const auto what = [&](const std::string& name, size_t code) {
    const Json facts = json({name, "--codes"});
    return facts["code_facts"][code]["class"].get<std::string>();
  };
  EXPECT_EQ(what("e4m3", 0x80), "zero");
  EXPECT_EQ(what("e4m3", 0x07), "subnormal");
  EXPECT_EQ(what("e4m3", 0x08), "normal");
  EXPECT_EQ(what("e4m3", 0xFE), "largest");
  EXPECT_EQ(what("e4m3", 0xFF), "NaN");
  EXPECT_EQ(what("e5m2", 0x7C), "infinity");
  EXPECT_EQ(what("e4m3fnuz", 0x80), "NaN");
  EXPECT_EQ(what("mxint8", 0x80), "not emitted");
  EXPECT_EQ(what("e8m0", 0xFF), "NaN");
  EXPECT_EQ(json({"e3m4"})["special_codes"], "Inf 70, NaN 71-7F");
}

TEST_F(Formats, FitAHundredColumns) {
  std::vector<std::vector<std::string>> all = {{"formats"},
                                               {"formats", "mxfp4", "--value", "7,-2.5"}};
  for (const ElementFormat& f : element_formats()) {
    all.push_back({"formats", std::string(f.short_name)});
    all.push_back({"formats", std::string(f.short_name), "--value", "-1.1754942e-38"});
    all.push_back({"formats", std::string(f.short_name), "--value", "1234.567"});
  }
  for (const std::string_view name : operand_names())
    all.push_back({"formats", std::string(name), "--value", "3.14159274,-0.000123456789,1e-30"});
  for (const auto& args : all) {
    std::istringstream lines(run_well(args));
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(line.size(), 100u) << args[1] << ": " << line;
  }
}

// ---------------------------------------------------------------- one number

/// Magnitudes that meet every kind of place on the grid of a format.
std::vector<float> probes(const ElementFormat& f) {
  std::vector<float> x = {0.78f, 2.2f, -1.0625f - 0x1p-20f, 0.0f, -0.0f, 1e-45f, 3e38f, -1e-30f};
  const float spots[] = {max_value(f), min_normal(f), min_subnormal(f)};
  for (const float v : spots)
    for (const float scale : {0.3f, 0.5f, 0.75f, 1.0f, 1.03f, 1.25f, 1.5f, -1.1f})
      if (std::isfinite(v * scale)) x.push_back(v * scale);
  return x;
}

/// The exact mean of the results over all draws of 8 bits, and how many differ from R = 0.
std::pair<double, int> enumerated(const ElementFormat& f, float x) {
  double sum = 0;
  int ups = 0;
  const float none = decode(f, encode(f, x, {RoundMode::sr, 8, 0}));
  for (uint32_t r = 0; r < 256; ++r) {
    const float value = decode(f, encode(f, x, {RoundMode::sr, 8, r}));
    sum += value;
    ups += value != none ? 1 : 0;
  }
  return {sum / 256, ups};
}

void expect_steps(const ElementFormat& f, float x, const Json& s) {
  const std::pair<const char*, RoundMode> modes[] = {{"nearest even", RoundMode::rne},
                                                     {"half away", RoundMode::rna},
                                                     {"toward zero", RoundMode::rtz},
                                                     {"up (scales)", RoundMode::rup}};
  ASSERT_EQ(s["fp32"]["bits"].get<uint32_t>(), float_bits(x));
  for (const auto& [name, mode] : modes) {
    const Json& m = s["modes"][name];
    ASSERT_EQ(m["saturate"]["code"], encode(f, x, {mode}, OverflowRule::saturate)) << name;
    ASSERT_EQ(m["special"]["code"], encode(f, x, {mode}, OverflowRule::special)) << name;
    if (!s.contains("grid")) continue;
    // The steps say whether it goes up; the codes must agree wherever they are not cut.
    const double chosen = s["grid"][m["up"].get<bool>() ? "above" : "below"].get<double>();
    const double largest = max_value(f);
    ASSERT_EQ(number(m["saturate"]["value"]), std::clamp(chosen, -largest, largest)) << name;
  }
  if (!s.contains("grid")) return;
  const Json& g = s["grid"];
  ASSERT_EQ(std::ldexp(g["n"].get<double>() + g["f"].get<double>(), g["q"].get<int>()),
            std::fabs(x));
  const auto [mean, ups] = enumerated(f, x);
  ASSERT_EQ(s["stochastic"][0]["expectation"].get<double>(), mean);
  if (std::fabs(g["above"].get<double>()) <= static_cast<double>(max_value(f))) {
    ASSERT_EQ(s["stochastic"][0]["F"].get<int>(), ups);
  }
}

TEST_F(Formats, StepsAgreeWithTheDefinitionInEveryFormat) {
  std::vector<std::string> names = {"e3m3", "e2m5fn", "e4m2fnuz", "e5m0", "e6m9"};
  for (const ElementFormat& f : element_formats()) names.emplace_back(f.short_name);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const std::vector<float> x = probes(element_format(name));
    std::string list;
    for (const float v : x) list += fmt::format("{}{:a}", list.empty() ? "" : ",", v);
    const Json all = json({name, "--element", "--value", list})["values"];
    ASSERT_EQ(all.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      SCOPED_TRACE(all[i]["typed"].get<std::string>());
      ASSERT_NO_FATAL_FAILURE(expect_steps(element_format(name), x[i], all[i]));
    }
  }
}

TEST_F(Formats, WorkedExamplesOfOneNumber) {
  // 0.78 in E4M3 lies between 0.75 and 0.8125.
  Json s = steps("e4m3", "0.78");
  EXPECT_EQ(s["modes"]["nearest even"]["saturate"]["bits"], "0 0110 100");
  EXPECT_EQ(s["modes"]["up (scales)"]["saturate"]["code"], 0x35);
  EXPECT_EQ(s["grid"]["below"], 0.75);
  EXPECT_EQ(s["grid"]["above"], 0.8125);
  EXPECT_EQ(s["grid"]["t_binary"], "1100.011110101110000101");
  // 2.2 in E2M1: up iff R >= 52429 of 65536.
  s = steps("e2m1", "2.2");
  EXPECT_EQ(s["fp32"]["bits"], 0x400CCCCDu);
  EXPECT_EQ(s["stochastic"][1]["F"], 13107);
  EXPECT_NEAR(s["stochastic"][1]["probability"].get<double>(), 0.19999695, 5e-9);
  // Ties of E2M1 and E4M3 go to even.
  const std::pair<const char*, float> ties[] = {{"0.25", 0}, {"0.75", 1}, {"1.25", 1}, {"1.75", 2},
                                                {"2.5", 2},  {"3.5", 4},  {"5", 4},    {"5.1", 6}};
  for (const auto& [x, result] : ties)
    EXPECT_EQ(number(steps("e2m1", x)["modes"]["nearest even"]["saturate"]["value"]), result) << x;
  EXPECT_EQ(steps("e4m3", "0x1p-10")["modes"]["nearest even"]["saturate"]["code"], 0);
  EXPECT_EQ(steps("e4m3", "0x1.8p-9")["modes"]["nearest even"]["saturate"]["code"], 2);
  EXPECT_EQ(steps("e4m3", "464")["modes"]["nearest even"]["special"]["code"], 0x7E);
  EXPECT_EQ(steps("e4m3", "464.1")["modes"]["nearest even"]["special"]["value"], "nan");
  // 1.0625 + 2^-20: 1.125 directly, 1.0 through BF16.
  s = steps("e4m3", "0x1.10001p0");
  EXPECT_EQ(number(s["modes"]["nearest even"]["saturate"]["value"]), 1.125f);
  EXPECT_EQ(number(s["through_bf16"]["result"]["value"]), 1.0f);
  EXPECT_EQ(s["through_bf16"]["changes"], true);
}

// ---------------------------------------------------------------- blocks

TEST_F(Formats, WorkedExamplesOfMx) {
  const std::string x = "7,-2.5,0.3,0.75,-5,0.2,1.25,-0.1";
  Json w = way("mxfp4", x, "floor");
  EXPECT_EQ(w["scale"]["code"], 0x7F);
  EXPECT_EQ(w["codes"].get<Ints>(), (Ints{7, 0xC, 1, 2, 0xE, 0, 2, 8}));
  EXPECT_EQ(firsts(w["bytes"], 5), (Ints{0xC7, 0x21, 0x0E, 0x82, 0}));
  EXPECT_EQ(w["bytes"].size(), 16u);
  EXPECT_EQ(w["values"].get<Floats>(), (Floats{6, -2, .5f, 1, -4, 0, 1, -0.0f}));
  for (const char* rule : {"rceil", "even", "ceil"}) {
    w = way("mxfp4", x, rule);
    EXPECT_EQ(w["scale"]["code"], 0x80);
    EXPECT_EQ(w["codes"].get<Ints>(), (Ints{6, 0xA, 0, 1, 0xC, 0, 1, 8}));
    EXPECT_EQ(w["values"].get<Floats>(), (Floats{8, -2, 0, 1, -4, 0, 1, -0.0f}));
  }
  w = way("mxfp6_e2m3", "3,-1.01,.02,2.999", "floor");
  EXPECT_EQ(w["scale"]["code"], 0x7E);
  EXPECT_EQ(w["codes"].get<Ints>(), (Ints{0x1C, 0x30, 0, 0x1C}));
  EXPECT_EQ(firsts(w["bytes"], 3), (Ints{0x1C, 0x0C, 0x70}));
  w = way("mxfp6_e3m2", "3,-1.01,.02,2.999", "floor");
  EXPECT_EQ(w["scale"]["code"], 0x7C);
  EXPECT_EQ(w["codes"].get<Ints>(), (Ints{0x1E, 0x38, 3, 0x1E}));
  EXPECT_EQ(firsts(w["bytes"], 3), (Ints{0x1E, 0x3E, 0x78}));
  w = way("mxfp8_e4m3", "500,3.3,-.01,.001", "floor");
  EXPECT_EQ(w["scale"]["code"], 0x7F);
  EXPECT_EQ(w["codes"].get<Ints>(), (Ints{0x7E, 0x45, 0x85, 1}));
  w = way("mxfp8_e4m3", "500,3.3,-.01,.001", "rceil");
  EXPECT_EQ(w["scale"]["code"], 0x80);
  EXPECT_EQ(w["codes"].get<Ints>(), (Ints{0x78, 0x3D, 0x83, 0}));
  EXPECT_EQ(number(w["values"][0]), 512.0f);
}

TEST_F(Formats, WorkedExamplesOfNvfp4Fp8AndIntegers) {
  Json w = way("nvfp4", "12,-3,1,.4", "nearest");
  EXPECT_EQ(number(w["scale"]["tensor_scale"]), 1.0f / 224.0f);
  EXPECT_EQ(w["scale"]["code"], 0x7E);
  EXPECT_EQ(number(w["scale"]["multiplier"]), 0.5f);
  EXPECT_EQ(w["codes"].get<Ints>(), (Ints{7, 0xB, 1, 0}));
  EXPECT_EQ(near(w["values"], 0.001f), near(Json{12, -3, 1, 0}, 0.001f));
  w = way("nvfp4", ".9,-.25,.1,.02", "nearest", "12");
  EXPECT_EQ(w["scale"]["code"], 0x60);
  EXPECT_NEAR(number(w["scale"]["g"]), 33.6, 1e-5);
  EXPECT_EQ(number(w["scale"]["multiplier"]), 6.9999995f);
  EXPECT_EQ(near(w["values"], 0.0001f), near(Json{.8571, -.2143, .0714, 0}, 0.0001f));

  w = way("fp8_e4m3", "3.7,1,0.01,1e-5", "fp32");
  EXPECT_EQ(number(w["scale"]["encode"]), 121.08108f);
  const float t[] = {448, 120, 1.25f, 0x1p-9f};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(decode(element_format("e4m3"), w["codes"][i].get<uint32_t>()), t[i]);
  EXPECT_NEAR(number(w["values"][1]), 0.99107, 5e-6);
  EXPECT_NEAR(number(w["values"][2]), 0.010324, 5e-7);
  EXPECT_NEAR(number(w["values"][3]), 1.613e-5, 5e-9);
  EXPECT_EQ(way("fp8_e4m3", "3.7,1", "pow2")["scale"]["encode"], 64);

  w = way("int8", "-1,.2,2", "symmetric");
  EXPECT_EQ(w["codes"].get<Ints>(), (Ints{256 - 64, 13, 127}));
  EXPECT_NEAR(number(w["scale"]["scale"]), .0157480, 5e-8);
  EXPECT_NEAR(number(w["values"][0]), -1.00787, 5e-6);
  EXPECT_NEAR(number(w["values"][1]), .20472, 5e-6);
  EXPECT_EQ(number(w["values"][2]), 2.0f);
  EXPECT_EQ(way("uint8", "-1,.2,2", "affine"), way("int8", "-1,.2,2", "affine"));
  w = way("int8", "-1,.2,2", "affine");
  EXPECT_EQ(w["scale"]["zero"], 85);
  EXPECT_NEAR(number(w["scale"]["scale"]), .0117647, 5e-8);
  EXPECT_EQ(w["codes"].get<Ints>(), (Ints{0, 102, 255}));
}

/// What the reference backend makes of one row.
struct Prepared {
  std::vector<uint16_t> codes;
  std::vector<float> values;
};

Prepared by_reference(const Operand& cast, std::vector<float> x) {
  const auto k = static_cast<int64_t>(x.size());
  OperandSpec spec;
  spec.cast = cast;
  spec.rows = 1;
  spec.k = k;
  PackedOperand packed;
  packed.spec = spec;
  packed.bytes = ref::operand_bytes(spec);
  std::vector<float> storage(packed.bytes / sizeof(float) + 1);
  packed.storage = reinterpret_cast<std::byte*>(storage.data());
  ref::prepare(packed, ConstView{x.data(), 1, k, k}, {});
  Prepared result{std::vector<uint16_t>(x.size()), std::vector<float>(x.size())};
  ref::perform(Unpack{
      .packed = &packed, .values = {result.values.data(), 1, k, k}, .codes = result.codes.data()});
  return result;
}

void expect_reference(const Operand& cast, const std::vector<float>& x, const Json& w) {
  const Prepared want = by_reference(cast, x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(w["codes"][i], want.codes[i]) << i << ": " << x[i];
    ASSERT_TRUE(same(number(w["values"][i]), want.values[i])) << i << ": " << x[i];
  }
}

TEST_F(Formats, BlocksAgreeWithTheReferenceUnderEveryRule) {
  const std::pair<const char*, ScaleRule> rules[] = {
      {"floor", ScaleRule::floor}, {"rceil", ScaleRule::rceil}, {"ceil", ScaleRule::ceil},
      {"even", ScaleRule::even},   {"mse", ScaleRule::mse},     {"nearest", ScaleRule::nearest},
      {"up", ScaleRule::up}};
  for (const std::string_view name : operand_names()) {
    Operand cast = operand_of(name);
    if (cast.is_unscaled()) continue;
    const size_t count =
        cast.block.kind == Block::Kind::tile ? static_cast<size_t>(cast.block.cols) : 20;
    for (int trial = 0; trial < 5; ++trial) {
      std::vector<float> x;
      std::string list;
      for (size_t i = 0; i < count; ++i) {
        const auto bits =
            static_cast<uint32_t>(0x9E3779B9u * (i * 7 + static_cast<size_t>(trial) + 1));
        x.push_back(std::ldexp(static_cast<float>(static_cast<int32_t>(bits)),
                               -33 - trial * (static_cast<int>(i) % 5)));
        if (trial == 4 && i % 3 == 0) x.back() = 0;
        list += fmt::format("{}{:a}", i == 0 ? "" : ",", x.back());
      }
      const Json all = json({std::string(name), "--value", list});
      for (const Json& w : all["ways"])
        for (const std::string rule : w["rules"]) {
          SCOPED_TRACE(fmt::format("{} {} {}", name, rule, list));
          if (rule == "affine") continue;
          for (const auto& [text, value] : rules)
            if (rule == text) cast.scale_rule = value;
          if (rule == "fp32" || rule == "pow2")
            cast.scale = rule == "fp32" ? ScaleKind::fp32 : ScaleKind::pow2;
          ASSERT_NO_FATAL_FAILURE(expect_reference(cast, x, w));
        }
    }
  }
}

// ---------------------------------------------------------------- errors

TEST_F(Formats, RefuseWhatTheyCannotShow) {
  expect_refused({"formats", "e4m3", "--value", "0.5x"}, 1, {"--value", "0.5x", "0x1.8p-3"});
  expect_refused({"formats", "e4m3", "--value", "1e99"}, 1, {"--value", "1e99", "FP32"});
  expect_refused({"formats", "e4m3", "--value", "1,,2"}, 1, {"--value", "\"\""});
  expect_refused({"formats", "e4m3", "--markdown"}, 2, {"--markdown", "NAME"});
  expect_refused({"formats", "--value", "1"}, 2, {"NAME", "--value"});
  expect_refused({"formats", "e4m33", "--value", "1"}, 1, {"e4m3"});
  expect_refused({"formats", "mxfp5"}, 1, {"mxfp5", "mxfp4"});
  expect_refused({"formats", "fp32", "--codes"}, 1, {"--codes", "16 bits"});
  expect_refused({"formats", "mxfp4", "--value", "1", "--amax", "3"}, 1, {"--amax", "block"});
  expect_refused({"formats", "nvfp4", "--value", "5", "--amax", "3"}, 1, {"--amax", "3", "5"});
  expect_refused({"formats", "int8", "--value", "5", "--amax", "nan"}, 1, {"--amax", "finite"});
  expect_refused({"formats", "uint8", "--value", "5", "--amax", "9"}, 1, {"--amax", "row"});
  expect_refused({"formats", "uint8", "--value", "nan"}, 1, {"--value", "finite", "--element"});
  expect_refused({"formats", "e4m3", "--value", "5", "--amax", "9"}, 1, {"--amax", "scale"});
  std::string many = "1";
  for (int i = 0; i < 16; ++i) many += ",1";
  expect_refused({"formats", "nvfp4", "--value", many}, 1, {"--value", "17", "16"});
}

TEST_F(Formats, SaysWhatIsNotThere) {
  EXPECT_NE(run_well({"formats", "e1m1"}).find("least normal   none"), std::string::npos);
  EXPECT_TRUE(Json::parse(run_well({"formats", "e1m1", "--json"})).at("min_normal").is_null());
  EXPECT_EQ(Json::parse(run_well({"formats", "e2m1", "--json"})).at("codes").size(), 16U);
  EXPECT_FALSE(Json::parse(run_well({"formats", "bf16", "--json"})).contains("codes"));
  expect_refused({"formats", ""}, 2, {"NAME: an empty argument"});
  EXPECT_EQ(run_well({"formats", "e5m10", "--value", "1"}).find("2^-10 = 2^-10"),
            std::string::npos);
}

}  // namespace
}  // namespace ng::e2e
