// Operands against the golden vectors: MX, NVFP4, FP8, Hadamard. Files, cases, shapes and axes are
// those that the files name; every tensor of a file is compared or named here as not comparable.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "format/codec.h"
#include "format/hadamard.h"
#include "format/scale.h"
#include "io/safetensors.h"
#include "support/prepared_operand.h"

namespace ng::ref {
namespace {

/// The tensors of a case as operands have them: lines along one axis.
template <class Value>
struct Lines {
  std::vector<Value> values;
  int64_t rows = 0, k = 0;

  /// A tensor (outer, k, inner), row-major: line o·inner + i is its [o, :, i].
  Lines(const std::vector<Value>& tensor, const std::vector<int64_t>& shape, int64_t axis)
      : values(tensor.size()), rows(1) {
    const int64_t rank = static_cast<int64_t>(shape.size());
    const int64_t split = axis < 0 ? axis + rank : axis;
    k = shape.at(static_cast<size_t>(split));
    int64_t inner = 1;
    for (int64_t d = 0; d < rank; ++d) {
      if (d > split) inner *= shape[static_cast<size_t>(d)];
      if (d != split) rows *= shape[static_cast<size_t>(d)];
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < k; ++j)
        values[place(r, j)] =
            tensor.at(static_cast<size_t>((r / inner * k + j) * inner + r % inner));
  }
  [[nodiscard]] size_t place(int64_t row, int64_t j) const {
    return static_cast<size_t>(row * k + j);
  }
  [[nodiscard]] Value at(int64_t row, int64_t j) const { return values.at(place(row, j)); }
  [[nodiscard]] ConstView view() const { return view_of(values, rows, k); }
};

Lines<float> transposed(const Lines<float>& x) { return {x.values, {x.rows, x.k}, 0}; }

/// Largest |x| of the line's values [first, first + count), as far as there are.
float largest(const Lines<float>& x, int64_t row, int64_t first, int64_t count) {
  float amax = 0;
  for (int64_t j = first; j < std::min(first + count, x.k); ++j)
    amax = std::max(amax, std::fabs(x.at(row, j)));
  return amax;
}
float largest(const Lines<float>& x) {
  float amax = 0;
  for (const float v : x.values) amax = std::max(amax, std::fabs(v));
  return amax;
}

/// A golden file that remembers which of its tensors a test asked for.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path)
      : file_(path), cases_(Json::parse(file_.metadata().at("cases"))) {
    EXPECT_FALSE(cases_.empty()) << path;
  }
  [[nodiscard]] const Json& cases() const { return cases_; }
  [[nodiscard]] bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  [[nodiscard]] Lines<float> floats(const std::string& name, int64_t axis = -1) {
    const io::SafetensorsEntry& entry = at(name);
    return {io::to_floats(entry), entry.shape, axis};
  }
  [[nodiscard]] Lines<int64_t> codes(const std::string& name, int64_t axis = -1) {
    const io::SafetensorsEntry& entry = at(name);
    std::vector<int64_t> codes = io::to_integers(entry);
    for (int64_t& code : codes) code &= 0xFF;  // int8 elements are stored signed
    return {codes, entry.shape, axis};
  }
  [[nodiscard]] float scalar(const std::string& name) { return io::to_floats(at(name)).at(0); }

  /// `apart`: ends of the names of tensors that no test compares.
  void expect_all_read(const std::vector<std::string>& apart = {}) const {
    for (const io::SafetensorsEntry& entry : file_.entries())
      EXPECT_TRUE(read_.contains(entry.name) ||
                  std::any_of(apart.begin(), apart.end(),
                              [&](const std::string& end) { return entry.name.ends_with(end); }))
          << file_.path() << ": " << entry.name << " is not compared";
  }

 private:
  const io::SafetensorsEntry& at(const std::string& name) {
    read_.insert(name);
    return file_.at(name);
  }
  io::Safetensors file_;
  Json cases_;
  std::set<std::string> read_;
};

/// The files of a folder of tests/golden; fails where there is none.
std::vector<GoldenFile> files_of(const std::string& folder) {
  std::set<std::string> paths;
  for (const auto& item : std::filesystem::directory_iterator(
           std::filesystem::path(golden(folder)).replace_extension()))
    if (item.path().extension() == ".safetensors") paths.insert(item.path());
  EXPECT_FALSE(paths.empty()) << folder;
  std::vector<GoldenFile> files;
  for (const std::string& path : paths) files.emplace_back(path);
  return files;
}

bool same_code(const ElementFormat& f, uint32_t a, int64_t b) {
  const auto code = static_cast<uint32_t>(b);
  return a == code || (decode(f, a) == 0 && decode(f, code) == 0);  // the sign of zero is free
}

bool same_value(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Operand mx_operand(const std::string& element) {
  for (const std::string_view name : operand_names()) {
    const Operand cast = operand_of(name);
    const std::string_view own = cast.element->short_name;
    if (name.starts_with("mx") && (own == element || own == "mx" + element)) return cast;
  }
  throw std::invalid_argument("no MX format of element " + element);
}

void expect_mx_scale(const Prepared& q, const Lines<float>& x, int64_t row, int64_t block,
                     int64_t expected) {
  const Operand& cast = q.packed().spec.cast;
  const float scale = q.parts().scale(row, 32 * block);
  const int code = std::isnan(scale) ? 255 : std::ilogb(scale) + 127;
  bool zero = true, finite = true;
  for (int64_t j = 32 * block; j < std::min(32 * (block + 1), x.k); ++j) {
    zero = zero && x.at(row, j) == 0;
    finite = finite && std::isfinite(x.at(row, j));
  }
  if (zero) return;  // the oracles differ; the value is 0 by any scale
  if (cast.scale_rule == ScaleRule::even && finite && expected == 255)
    // amax rounds up to 2^128: NaN in the file, 2^(128 - emax) by formats.md 3.4.
    expected = std::min(254, 255 - emax(*cast.element));
  EXPECT_EQ(code, expected) << "row " << row << " block " << block;
}

/// Scales, codes and the values that they make.
void expect_mx(GoldenFile& file, const std::string& prefix, const Prepared& q,
               const Lines<float>& x, int64_t axis) {
  SCOPED_TRACE(prefix);
  const auto scales = file.codes(prefix + "scale", axis);
  ASSERT_EQ(scales.rows, x.rows);
  ASSERT_EQ(scales.k, (x.k + 31) / 32);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t b = 0; b < scales.k; ++b) expect_mx_scale(q, x, r, b, scales.at(r, b));
  if (!file.has(prefix + "codes")) return;  // they mean nothing where blocks are NaN
  const auto codes = file.codes(prefix + "codes", axis);
  const ElementFormat& element = *q.packed().spec.cast.element;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t j = 0; j < x.k; ++j) {
      const auto scale = static_cast<int>(scales.at(r, j / 32));
      if (scale == 255) continue;
      const float unscaled = decode(element, static_cast<uint32_t>(codes.at(r, j)));
      ASSERT_TRUE(same_code(element, q.code(r, j), codes.at(r, j)))
          << "row " << r << " k " << j << " code " << q.code(r, j);
      ASSERT_EQ(q.value(r, j), std::ldexp(unscaled, scale - 127)) << "row " << r << " k " << j;
    }
  }
}

void expect_values(GoldenFile& file, const std::string& name, const Prepared& q, int64_t axis) {
  const Lines<float> dq = file.floats(name, axis);
  ASSERT_EQ(dq.rows, q.packed().spec.rows);
  for (int64_t r = 0; r < dq.rows; ++r)
    for (int64_t j = 0; j < dq.k; ++j)
      ASSERT_TRUE(same_value(q.value(r, j), dq.at(r, j))) << name << " row " << r << " k " << j;
}

/// Every scale rule of one case, the operand made both of the lines and of their transpose.
void expect_mx_case(GoldenFile& file, const std::string& name, const Json& parameters) {
  const std::pair<const char*, ScaleRule> rules[] = {{"", ScaleRule::floor},
                                                     {"ceil.", ScaleRule::ceil},
                                                     {"even.", ScaleRule::even},
                                                     {"rceil.", ScaleRule::rceil}};
  ASSERT_EQ(parameters.at("block"), 32) << name;
  const auto axis = parameters.at("axis").get<int64_t>();
  const Lines<float> x = file.floats(name + ".x", axis);
  const Lines<float> turned = transposed(x);
  Operand cast = mx_operand(parameters.at("elem"));
  int compared = 0;
  for (const auto& [rule_name, rule] : rules) {
    cast.scale_rule = rule;
    const std::string prefix = name + "." + rule_name;
    const Prepared straight(cast, x.view(), 32);
    const Prepared across(cast, turned.view(), 32, Contract::rows);
    for (const Prepared* q : {&straight, &across}) {
      if (file.has(prefix + "scale")) expect_mx(file, prefix, *q, x, axis);
      if (file.has(prefix + "dq")) expect_values(file, prefix + "dq", *q, axis);
    }
    compared += file.has(prefix + "scale") || file.has(prefix + "dq") ? 1 : 0;
  }
  EXPECT_GT(compared, 0) << name;
}

TEST(Mx, ScalesCodesAndValuesEqualTheGoldenVectors) {
  for (GoldenFile& file : files_of("mx")) {
    for (const auto& [name, parameters] : file.cases().items())
      expect_mx_case(file, name, parameters);
    file.expect_all_read();
  }
}

/// Scales, codes and values of blocks of `tile_rows` × 16 by TransformerEngine's rule.
void expect_nvfp4(GoldenFile& file, const Prepared& q, const std::string& prefix,
                  int64_t tile_rows) {
  const auto codes = file.codes(prefix + ".codes");
  const auto scales = file.codes(prefix + ".scale");
  const OperandSpec& spec = q.packed().spec;
  for (int64_t r = 0; r < spec.rows; ++r) {
    for (int64_t k = 0; k < spec.k; ++k) {
      const auto scale = static_cast<uint32_t>(scales.at(r / tile_rows, k / 16));
      ASSERT_EQ(q.parts().scale(r, k), decode(element_format("e4m3"), scale))
          << prefix << " " << r << " " << k;
      if (scale == 0) {  // both decode to 0; ours stores zero codes
        ASSERT_EQ(q.value(r, k), 0.0f);
        continue;
      }
      ASSERT_TRUE(same_code(*spec.cast.element, q.code(r, k), codes.at(r, k)))
          << prefix << " " << r << " " << k << " code " << q.code(r, k);
    }
  }
  if (!file.has(prefix + ".dq")) return;
  const Lines<float> dq = file.floats(prefix + ".dq");
  for (int64_t r = 0; r < spec.rows; ++r)
    for (int64_t k = 0; k < spec.k; ++k)
      ASSERT_NEAR(q.value(r, k), dq.at(r, k), 1e-6 * std::fabs(dq.at(r, k))) << prefix;
}

/// pytorch/ao's single level, E4M3(clamp(amax / 6, 2^-6, 448)), is ours without a tensor scale but
/// for that least scale and one FP32 rounding of amax / 6, which matters at ties of E4M3.
void expect_single_level(GoldenFile& file, const std::string& name, const Lines<float>& x) {
  Operand cast = operand_of("nvfp4");
  cast.tensor_scale = ScaleKind::none;
  const Prepared q(cast, x.view(), 16);
  const ElementFormat& e4m3 = element_format("e4m3");
  const auto codes = file.codes(name + ".codes"), scales = file.codes(name + ".scale");
  const Lines<float> dq = file.floats(name + ".dq");
  EXPECT_EQ(file.scalar(name + ".tensor_scale"), 1.0f) << name;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t k = 0; k < x.k; ++k) {
      const float ours = q.parts().scale(r, k);
      const float theirs = decode(e4m3, static_cast<uint32_t>(scales.at(r, k / 16)));
      const float exact = largest(x, r, k / 16 * 16, 16) / 6;
      const float least = decode(e4m3, encode(e4m3, std::nextafter(exact, 0.0f)));
      const float most = decode(e4m3, encode(e4m3, std::nextafter(exact, INFINITY)));
      ASSERT_TRUE(least <= ours && ours <= most) << name << " " << r << " " << k;
      ASSERT_TRUE(std::max(least, 0x1p-6f) <= theirs && theirs <= std::max(most, 0x1p-6f)) << name;
      if (ours != theirs) continue;
      ASSERT_TRUE(same_code(*cast.element, q.code(r, k), codes.at(r, k))) << name << r << " " << k;
      ASSERT_NEAR(q.value(r, k), dq.at(r, k), 1e-6 * std::fabs(dq.at(r, k))) << name;
    }
  }
}

SignBits signs_from(const Lines<float>& sign) {
  SignBits words{};
  for (size_t j = 0; j < sign.values.size(); ++j)
    if (sign.values[j] < 0) words[j / 32] |= 1u << (j % 32);
  return words;
}

/// A case of the transform of x's transpose.
void expect_transformed_nvfp4(GoldenFile& file, const std::string& name) {
  const Lines<float> x = file.floats(name + ".x"), xt = file.floats(name + ".xt");
  const Lines<float> sign = file.floats(name + ".sign");
  // The quantizer alone, from the oracle's transformed tensor: exact.
  expect_nvfp4(file, Prepared(operand_of("nvfp4"), xt.view(), 16), name + ".te1d", 1);
  // Our own transform: c_16 = 1/sqrt(16), so the values agree up to FP32 rounding.
  ASSERT_EQ(sign.k, 16);
  OperandSpec spec = spec_of(operand_of("fp32"), x.view(), Contract::rows, 16);
  spec.hadamard = {.size = 16, .signs = signs_from(sign)};
  const Prepared transformed(spec, x.view());
  const double tolerance = 1e-5 * largest(xt);
  for (int64_t r = 0; r < xt.rows; ++r)
    for (int64_t k = 0; k < xt.k; ++k)
      ASSERT_NEAR(transformed.value(r, k), xt.at(r, k), tolerance) << name;
}

void expect_nvfp4_case(GoldenFile& file, const std::string& name) {
  Operand tiles = operand_of("nvfp4");
  tiles.block = {.kind = Block::Kind::tile, .rows = 16, .cols = 16};
  const Lines<float> x = file.floats(name + ".x");
  const Prepared rows(operand_of("nvfp4"), x.view(), 16);
  const float encode_scale = file.scalar(name + ".encode_scale");
  // amax 0: formats.md 4.1 takes 1, the file FLT_MAX; all values are 0 either way.
  if (largest(x) > 0) {
    EXPECT_EQ(*rows.parts().tensor_scales, 1.0f / encode_scale) << name;
  }
  expect_nvfp4(file, rows, name + ".te1d", 1);
  if (file.has(name + ".te2d.codes"))
    expect_nvfp4(file, Prepared(tiles, x.view(), 16), name + ".te2d", 16);
  if (file.has(name + ".ao1.codes")) expect_single_level(file, name + ".ao1", x);
}

TEST(Nvfp4, EveryCaseEqualsTransformerEngine) {
  for (GoldenFile& file : files_of("nvfp4")) {
    for (const auto& [name, parameters] : file.cases().items()) {
      if (file.has(name + ".xt"))
        expect_transformed_nvfp4(file, name);
      else
        expect_nvfp4_case(file, name);
    }
    // ao2 rounds its tensor scale and multiplier in another order and stops at 2^-6: another
    // definition than ours (formats.md 4.2), so its ties may fall otherwise. amax follows from x.
    file.expect_all_read({".ao2.codes", ".ao2.scale", ".ao2.dq", ".ao2.tensor_scale", ".amax"});
  }
}

float step_above(float x) { return std::nextafter(std::fabs(x), INFINITY) - std::fabs(x); }

void expect_fp8(GoldenFile& file, const std::string& prefix, const Prepared& q) {
  const float s = file.scalar(prefix + ".s"), s_inv = file.scalar(prefix + ".s_inv");
  EXPECT_EQ(q.parts().scale(0, 0), 1.0f / s) << prefix;
  EXPECT_NEAR(q.parts().scale(0, 0), s_inv, step_above(s_inv)) << prefix;
  const auto codes = file.codes(prefix + ".codes");
  const Lines<float> dq = file.floats(prefix + ".dq");
  ASSERT_EQ(codes.values.size(), q.codes().size());
  for (size_t i = 0; i < q.codes().size(); ++i) {
    ASSERT_EQ(q.codes()[i], codes.values[i]) << prefix << " " << i;
    ASSERT_NEAR(q.values()[i], dq.values[i], step_above(dq.values[i])) << prefix << " " << i;
  }
}

TEST(Fp8, TensorScalesAndCodesEqualTheGoldenVectors) {
  for (GoldenFile& file : files_of("fp8")) {
    for (const auto& [name, parameters] : file.cases().items()) {
      const Lines<float> x = file.floats(name + ".x");
      for (const std::string element : {"e4m3", "e5m2"}) {
        const std::string prefix = name + "." + element;
        Operand cast = operand_of("fp8_" + element);
        expect_fp8(file, prefix, Prepared(cast, x.view()));
        cast.scale = ScaleKind::pow2;
        const Prepared pow2(cast, x.view());
        expect_fp8(file, prefix + ".pow2", pow2);
        EXPECT_EQ(pow2.parts().scale(0, 0), 1.0f / file.scalar(prefix + ".s_msamp")) << prefix;
      }
    }
    file.expect_all_read({".amax"});  // follows from x
  }
}

/// `y` holds the transform by 1/√n; ours is by c_n.
void expect_hadamard(const Prepared& z, const Lines<float>& x, const Lines<float>& y, int n,
                     double tolerance) {
  const double factor = hadamard_factor(n) * std::sqrt(n);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t k = 0; k < x.k; ++k)
      ASSERT_NEAR(z.value(r, k), y.at(r, k) * factor,
                  tolerance * std::sqrt(n) * largest(x, r, k / n * n, n) * factor)
          << r << " " << k;
}

TEST(Hadamard, EqualsTheGoldenVectorsTimesCAndRootN) {
  for (GoldenFile& file : files_of("hadamard")) {
    for (const auto& [name, parameters] : file.cases().items()) {
      SCOPED_TRACE(name);
      const Lines<float> x = file.floats(name + ".x"), sign = file.floats(name + ".sign");
      const int n = parameters.at("n");
      ASSERT_EQ(sign.k, n);
      OperandSpec spec = spec_of(operand_of("fp32"), x.view(), Contract::cols, n);
      spec.hadamard = {.size = n, .signs = signs_from(sign)};
      const Prepared z(spec, x.view());
      expect_hadamard(z, x, file.floats(name + ".y"), n, 2e-7);
      if (!file.has(name + ".y_te")) continue;
      // TransformerEngine's own signs and FP32 result, as far from y as ours.
      expect_hadamard(z, x, file.floats(name + ".y_te"), n, 2 * 2e-7);
      EXPECT_EQ(signs_from(sign)[0] & 0xFFFF, fixed_signs()[0] & 0xFFFF);
    }
    file.expect_all_read();
  }
}

}  // namespace
}  // namespace ng::ref
