// Operands against the golden vectors: MX, NVFP4, FP8, Hadamard.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "backend/ref/prepared.h"
#include "format/codec.h"
#include "format/hadamard.h"
#include "format/scale.h"
#include "io/safetensors.h"

namespace ng::ref {
namespace {

/// Names of the cases of a file: everything before the last ".x".
std::vector<std::string> cases_of(const io::Safetensors& file) {
  std::vector<std::string> names;
  for (const io::SafetensorsEntry& entry : file.entries())
    if (entry.name.ends_with(".x")) names.push_back(entry.name.substr(0, entry.name.size() - 2));
  return names;
}

struct Matrix {
  std::vector<float> values;
  int64_t rows = 0, cols = 0;
  [[nodiscard]] ConstView view() const { return view_of(values, rows, cols); }
};
Matrix matrix(const io::Safetensors& file, const std::string& name) {
  const io::SafetensorsEntry& entry = file.at(name);
  return {io::to_floats(entry), entry.shape.at(0), entry.shape.at(1)};
}

/// Golden tensor as seen along the operand: [row][k], transposed where the blocks run down.
class Along {
 public:
  Along(const io::Safetensors& file, const std::string& name, Contract contract)
      : entry_(file.at(name)), straight_(contract == Contract::cols) {
    if (entry_.dtype == "F32" || entry_.dtype == "F64") {
      floats_ = io::to_floats(entry_);
    } else {
      integers_ = io::to_integers(entry_);
    }
  }
  [[nodiscard]] uint32_t byte(int64_t row, int64_t k) const {
    return static_cast<uint32_t>(integers_.at(at(row, k))) & 0xFF;
  }
  [[nodiscard]] float value(int64_t row, int64_t k) const { return floats_.at(at(row, k)); }

 private:
  [[nodiscard]] size_t at(int64_t row, int64_t k) const {
    return static_cast<size_t>(straight_ ? row * entry_.shape[1] + k : k * entry_.shape[1] + row);
  }
  const io::SafetensorsEntry& entry_;
  bool straight_;
  std::vector<float> floats_;
  std::vector<int64_t> integers_;
};

bool same_code(const ElementFormat& f, uint32_t a, uint32_t b) {
  return a == b || (decode(f, a) == 0 && decode(f, b) == 0);  // the sign of zero is free
}

/// One case and one scale rule: scale bytes, codes, and (floor) values.
void expect_mx(const io::Safetensors& file, const std::string& name, const Operand& cast,
               const std::string& rule) {
  const Contract contract = name.ends_with("axis0") ? Contract::rows : Contract::cols;
  const Matrix x = matrix(file, name + ".x");
  const Prepared q(cast, x.view(), 32, contract);
  const std::string prefix = name + "." + (rule == "floor" ? "" : rule + ".");
  if (file.find(prefix + "scale") == nullptr) return;
  const Along scale(file, prefix + "scale", contract);
  std::optional<Along> codes;  // absent where blocks are NaN
  if (file.find(prefix + "codes") != nullptr) codes.emplace(file, prefix + "codes", contract);
  const OperandSpec& spec = q.packed().spec;
  for (int64_t r = 0; r < spec.rows; ++r) {
    for (int64_t b = 0; b < spec.k_padded() / 32; ++b) {
      const float stored = q.parts().scale(r, 32 * b);
      const uint32_t code =
          std::isnan(stored) ? 255 : static_cast<uint32_t>(std::ilogb(stored) + 127);
      bool zero = true;
      for (int64_t k = 32 * b; k < 32 * (b + 1); ++k) zero = zero && q.value(r, k) == 0;
      const uint32_t expected = scale.byte(r, b);
      if (rule == "even" && expected == 255 && code == 254) continue;  // formats.md 3.4
      if (!zero) {
        ASSERT_EQ(code, expected) << prefix << " row " << r << " block " << b;
      }
      if (expected == 255 || !codes) continue;
      for (int64_t k = 32 * b; k < std::min(32 * (b + 1), spec.k); ++k)
        ASSERT_TRUE(same_code(*cast.element, q.code(r, k), codes->byte(r, k)))
            << prefix << " row " << r << " k " << k << " code " << q.code(r, k);
    }
  }
  if (rule != "floor") return;
  const Along dq(file, name + ".dq", contract);
  for (int64_t r = 0; r < spec.rows; ++r)
    for (int64_t k = 0; k < spec.k; ++k)
      ASSERT_TRUE(q.value(r, k) == dq.value(r, k) ||
                  (std::isnan(q.value(r, k)) && std::isnan(dq.value(r, k))))
          << name << " row " << r << " k " << k;
}

TEST(Mx, ScalesCodesAndValuesEqualTheGoldenVectors) {
  const std::pair<const char*, const char*> files[] = {
      {"e2m1", "mxfp4"},      {"e2m3", "mxfp6_e2m3"}, {"e3m2", "mxfp6_e3m2"},
      {"e4m3", "mxfp8_e4m3"}, {"e5m2", "mxfp8_e5m2"}, {"int8", "mxint8"}};
  const std::pair<const char*, ScaleRule> rules[] = {{"floor", ScaleRule::floor},
                                                     {"ceil", ScaleRule::ceil},
                                                     {"even", ScaleRule::even},
                                                     {"rceil", ScaleRule::rceil}};
  for (const auto& [file_name, format] : files) {
    const io::Safetensors file(golden(std::string("mx/mx_") + file_name));
    Operand cast = operand_of(format);
    for (const auto& [rule_name, rule] : rules) {
      cast.scale_rule = rule;
      for (const std::string& name : cases_of(file)) expect_mx(file, name, cast, rule_name);
    }
  }
}

/// te1d or te2d of one NVFP4 case.
void expect_nvfp4(const io::Safetensors& file, const Prepared& q, const std::string& prefix,
                  int64_t tile_rows) {
  const ElementFormat& e2m1 = element_format("e2m1");
  const ElementFormat& e4m3 = element_format("e4m3");
  const Along codes(file, prefix + ".codes", Contract::cols);
  const Along scales(file, prefix + ".scale", Contract::cols);
  const OperandSpec& spec = q.packed().spec;
  for (int64_t r = 0; r < spec.rows; ++r) {
    for (int64_t k = 0; k < spec.k; ++k) {
      const uint32_t scale = scales.byte(r / tile_rows, k / 16);
      ASSERT_EQ(q.parts().scale(r, k), decode(e4m3, scale)) << prefix << " " << r << " " << k;
      if (scale == 0) {  // both decode to 0; ours stores zero codes
        ASSERT_EQ(q.value(r, k), 0.0f);
        continue;
      }
      ASSERT_TRUE(same_code(e2m1, q.code(r, k), codes.byte(r, k)))
          << prefix << " " << r << " " << k << " code " << q.code(r, k);
    }
  }
  if (file.find(prefix + ".dq") == nullptr) return;
  const Along dq(file, prefix + ".dq", Contract::cols);
  for (int64_t r = 0; r < spec.rows; ++r)
    for (int64_t k = 0; k < spec.k; ++k)
      ASSERT_NEAR(q.value(r, k), dq.value(r, k), 1e-6 * std::fabs(dq.value(r, k))) << prefix;
}

TEST(Nvfp4, RowsAndTilesEqualTransformerEngine) {
  const io::Safetensors file(golden("nvfp4/nvfp4"));
  Operand tiles = operand_of("nvfp4");
  tiles.block = {.kind = Block::Kind::tile, .rows = 16, .cols = 16};
  int compared = 0;
  for (const std::string& name : cases_of(file)) {
    if (name == "rht_t") continue;
    const Matrix x = matrix(file, name + ".x");
    const Prepared rows(operand_of("nvfp4"), x.view(), 16);
    const float encode_scale = io::to_floats(file.at(name + ".encode_scale")).at(0);
    // amax 0: formats.md 4.1 takes 1, the file FLT_MAX; all values are 0 either way.
    if (name != "all_zero") {
      EXPECT_EQ(*rows.parts().tensor_scale, 1.0f / encode_scale) << name;
    }
    expect_nvfp4(file, rows, name + ".te1d", 1);
    expect_nvfp4(file, Prepared(tiles, x.view(), 16), name + ".te2d", 16);
    ++compared;
  }
  EXPECT_EQ(compared, 10);
}

SignBits signs_from(const std::vector<float>& sign) {
  SignBits words{};
  for (size_t j = 0; j < sign.size(); ++j)
    if (sign[j] < 0) words[j / 32] |= 1u << (j % 32);
  return words;
}

TEST(Nvfp4, TransformedAndTransposedEqualsTransformerEngine) {
  const io::Safetensors file(golden("nvfp4/nvfp4"));
  const Matrix x = matrix(file, "rht_t.x");
  const Matrix xt = matrix(file, "rht_t.xt");
  EXPECT_EQ(signs_from(io::to_floats(file.at("rht_t.sign")))[0] & 0xFFFF,
            fixed_signs()[0] & 0xFFFF);
  // The quantizer alone, from the oracle's transformed tensor: exact.
  expect_nvfp4(file, Prepared(operand_of("nvfp4"), xt.view(), 16), "rht_t.te1d", 1);
  // Our own transform: c_16 = 1/sqrt(16), so the values agree up to FP32 rounding.
  OperandSpec spec = spec_of(operand_of("fp32"), x.view(), Contract::rows, 16);
  spec.hadamard = {.size = 16, .signs = fixed_signs()};
  const Prepared transformed(spec, x.view());
  float largest = 0;
  for (const float v : xt.values) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < xt.values.size(); ++i)
    ASSERT_NEAR(transformed.values()[i], xt.values[i], 1e-5 * largest);
}

TEST(Fp8, TensorScalesAndCodesEqualTheGoldenVectors) {
  const io::Safetensors file(golden("fp8/fp8_tensor"));
  for (const std::string& name : cases_of(file)) {
    const Matrix x = matrix(file, name + ".x");
    for (const std::string element : {"e4m3", "e5m2"}) {
      for (const bool power : {false, true}) {
        Operand cast = operand_of("fp8_" + element);
        if (power) cast.scale = ScaleKind::pow2;
        const Prepared q(cast, x.view());
        const std::string prefix = name + "." + element + (power ? ".pow2" : "");
        const float s = io::to_floats(file.at(prefix + ".s")).at(0);
        EXPECT_EQ(q.parts().scale(0, 0), 1.0f / s) << prefix;
        const std::vector<int64_t> codes = io::to_integers(file.at(prefix + ".codes"));
        const std::vector<float> dq = io::to_floats(file.at(prefix + ".dq"));
        ASSERT_EQ(codes.size(), q.codes().size());
        for (size_t i = 0; i < codes.size(); ++i) {
          ASSERT_EQ(q.codes()[i], codes[i]) << prefix << " " << i;
          const float step = std::nextafter(std::fabs(dq[i]), INFINITY) - std::fabs(dq[i]);
          ASSERT_NEAR(q.values()[i], dq[i], step) << prefix << " " << i;
        }
      }
    }
  }
}

TEST(Hadamard, EqualsTheGoldenVectorsTimesCAndRootN) {
  const io::Safetensors file(golden("hadamard/hadamard"));
  for (const std::string& name : cases_of(file)) {
    const Matrix x = matrix(file, name + ".x");
    const std::vector<float> sign = io::to_floats(file.at(name + ".sign"));
    const int n = static_cast<int>(sign.size());
    OperandSpec spec = spec_of(operand_of("fp32"), x.view(), Contract::cols, n);
    spec.hadamard = {.size = n, .signs = signs_from(sign)};
    const Prepared z(spec, x.view());
    const std::vector<float> y = io::to_floats(file.at(name + ".y"));
    const double factor = hadamard_factor(n) * std::sqrt(n);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t k = 0; k < x.cols; ++k) {
        float largest = 0;  // of the group
        for (int64_t j = k / n * n; j < (k / n + 1) * n; ++j)
          largest = std::max(largest, std::fabs(x.view().row(r)[j]));
        const double expected = y[static_cast<size_t>(r * x.cols + k)] * factor;
        ASSERT_NEAR(z.value(r, k), expected, 2e-7 * std::sqrt(n) * largest * factor) << name;
      }
    }
  }
}

}  // namespace
}  // namespace ng::ref
