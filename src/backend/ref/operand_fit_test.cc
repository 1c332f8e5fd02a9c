// Scales that are fitted: against plain loops, golden vectors and the figures of rivals.md §2.2.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/toml.h"
#include "format/codec.h"
#include "format/hadamard.h"
#include "format/operand_table.h"
#include "io/safetensors.h"
#include "math/normal.h"
#include "support/prepared_operand.h"

namespace ng::ref {
namespace {

const RandomKey kKey = {.seed = 99, .tensor = 5, .step = 7, .purpose = Purpose::wgrad_grad};

std::vector<float> normal_values(int64_t count, uint64_t seed) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = math::normal({.seed = seed}, i, 1.0f);
  return x;
}

Operand nvfp4(const Fits& fit, Select select = Select::mse, int rows = 1) {
  Operand cast = operand_of("nvfp4");
  cast.block.rows = rows;
  cast.fit = fit;
  cast.select = select;
  cast.scale_max = 256;
  return cast;
}

// ---------------------------------------------------------------- plain loops

constexpr std::array<float, 8> kE2m1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

/// Of numbers in ascending order the nearest to y >= 0, a tie going to the even place; `random`
/// below 2^16 draws instead.
template <class Numbers>
float rounded(const Numbers& numbers, float y, int64_t random = -1) {
  size_t i = 0;
  while (i + 1 < numbers.size() && numbers[i + 1] <= y) ++i;
  if (i + 1 == numbers.size()) return numbers[i];
  const double place = (double{y} - numbers[i]) / (double{numbers[i + 1]} - numbers[i]);
  const bool up = random >= 0 ? std::floor(place * 65536) + static_cast<double>(random) >= 65536
                              : place > 0.5 || (place == 0.5 && i % 2 == 1);
  return numbers[i + (up ? 1 : 0)];
}

std::vector<float> e4m3_values() {
  std::vector<float> values;
  for (int code = 0; code < 127; ++code)
    values.push_back(code < 8 ? std::ldexp(static_cast<float>(code), -9)
                              : std::ldexp(static_cast<float>(8 + code % 8), code / 8 - 10));
  return values;
}

/// What a matrix becomes, at the places of the untransposed source.
struct Plain {
  std::vector<float> values, scales;  ///< scales of blocks, source row by row
};

/// Tiles of height × width source values under fits, F = fit[0]. `draws_apart`: each fit has random
/// bits of its own. [linear.md §4]
Plain plainly(const std::vector<float>& x, int64_t rows, int64_t cols, const Operand& cast,
              int64_t height, int64_t width, bool draws_apart = false) {
  static const std::vector<float> scales = e4m3_values();
  float whole = 0;
  for (const float v : x) whole = std::max(whole, std::fabs(v));
  const float first = cast.fit[0], encode = cast.scale_max * first / whole;
  const float tensor = 1.0f / encode, m = encode * (1.0f / first);
  Plain plain;
  plain.values.resize(x.size());
  for (int64_t row = 0; row < rows; row += height)
    for (int64_t col = 0; col < cols; col += width) {
      const int64_t end_row = std::min(row + height, rows), end_col = std::min(col + width, cols);
      float amax = 0;
      for (int64_t r = row; r < end_row; ++r)
        for (int64_t c = col; c < end_col; ++c)
          amax = std::max(amax, std::fabs(x[static_cast<size_t>(r * cols + c)]));
      double least = INFINITY;
      float taken = 0;
      int tried = 0;
      for (const float fit : cast.fit) {
        const float g = amax * m * (first / fit);
        const float scale = rounded(scales, std::min(g, 448.0f));
        const float inverse = scale == 0 ? 0 : std::min(1.0f / (scale * tensor), 3.4028235e38f);
        std::vector<float> decoded;
        double error = 0;
        for (int64_t r = row; r < end_row; ++r)
          for (int64_t c = col; c < end_col; ++c) {
            const float v = x[static_cast<size_t>(r * cols + c)];
            RandomKey key = kKey;
            if (draws_apart) key.tensor += static_cast<uint32_t>(tried);
            const int64_t random =
                cast.rounding == Rounding::nearest
                    ? int64_t{-1}
                    : int64_t{random_bits(key, static_cast<uint64_t>(r), static_cast<uint64_t>(c),
                                          static_cast<uint64_t>(cols), 16)};
            const float q = rounded(kE2m1, std::min(std::fabs(v * inverse), 6.0f), random);
            decoded.push_back(std::copysign(q, v) * scale * tensor);
            const double off = std::fabs(double{decoded.back()} - double{v});
            if (cast.select == Select::max)
              error = std::max(error, off);
            else
              error += cast.select == Select::mse ? off * off : off;
          }
        ++tried;
        if (!(error < least)) continue;
        least = error;
        taken = scale;
        size_t i = 0;
        for (int64_t r = row; r < end_row; ++r)
          for (int64_t c = col; c < end_col; ++c)
            plain.values[static_cast<size_t>(r * cols + c)] = decoded[i++];
      }
      plain.scales.push_back(taken);
    }
  return plain;
}

TEST(Fits, AreThoseOfPlainLoops) {
  const int64_t rows = 23, cols = 70;
  std::vector<float> x = normal_values(rows * cols, 3);
  for (size_t i = 0; i < x.size(); i += 31) x[i] *= 60;
  for (size_t i = 200; i < 300; ++i) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
  for (const Select select : {Select::mse, Select::mae, Select::max})
    for (const Fits& fit : {Fits{6}, Fits{6, 4}, Fits{4, 6, 5.5f}, Fits{96.0f / 17, 64.0f / 17}})
      for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic})
        for (const int side : {1, 16})
          for (const Contract contract : {Contract::cols, Contract::rows}) {
            Operand cast = nvfp4(fit, select, side);
            cast.rounding = rounding;
            const bool straight = contract == Contract::cols;
            PrepareContext context;
            context.key = kKey;
            const Prepared made(cast, view_of(x, rows, cols), 16, contract, context);
            const Plain plain =
                plainly(x, rows, cols, cast, straight ? side : 16, straight ? 16 : side);
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < cols; ++c)
                ASSERT_EQ(straight ? made.value(r, c) : made.value(c, r),
                          plain.values[static_cast<size_t>(r * cols + c)])
                    << describe(cast) << " " << r << " " << c << " " << straight;
          }
}

TEST(Fits, TilesOfAMatrixAndOfItsTransposeChooseAlike) {
  const std::vector<float> x = normal_values(int64_t{80} * 96, 4);
  for (const Select select : {Select::mse, Select::mae, Select::max}) {
    const Operand cast = nvfp4({6, 4}, select, 16);
    const Prepared w(cast, view_of(x, 80, 96), 16);
    const Prepared turned(cast, view_of(x, 80, 96), 16, Contract::rows);
    for (int64_t r = 0; r < 80; ++r)
      for (int64_t c = 0; c < 96; ++c) ASSERT_EQ(w.code(r, c), turned.code(c, r));
    for (int64_t r = 0; r < 80; r += 16)
      for (int64_t c = 0; c < 96; c += 16)
        ASSERT_EQ(w.parts().scale(r, c), turned.parts().scale(c, r));
  }
}

TEST(Fits, TheFirstOfEqualsStays) {
  std::vector<float> x(32, 0.0f);
  x[0] = 6 * 256.0f;  // the tensor's scale is 1
  x[16] = 6 * 8.0f;   // exact at 6 · 8 and at 4 · 12
  for (const Select select : {Select::mse, Select::mae, Select::max}) {
    const Prepared six(nvfp4({6, 4}, select), view_of(x, 1, 32), 16);
    EXPECT_EQ(six.parts().scale(0, 16), 8.0f);
    EXPECT_EQ(six.code(0, 16), 7);
    const Prepared four(nvfp4({4, 6}, select), view_of(x, 1, 32), 16);
    EXPECT_EQ(four.code(0, 16), 6);
  }
}

// A block that takes 4 needs one and a half times the scale, of which 448 is the limit, not 256.
TEST(Fits, ScalesAreLimitedByTheFormatAlone) {
  std::vector<float> x(16);
  const float quarters[] = {6, 4.5f, 4.5f, 4.5f};  // 4.5 · 4 / 6 = 3 is exact
  for (size_t i = 0; i < x.size(); ++i) x[i] = quarters[i % 4];
  const Prepared made(nvfp4({6, 4}), view_of(x, 1, 16), 16);
  EXPECT_EQ(made.parts().scale(0, 0), 384.0f);
  EXPECT_EQ(made.code(0, 0), 6);
  EXPECT_EQ(made.code(0, 1), 5);
}

// ---------------------------------------------------------------- figures

struct Figure {
  const char* what;
  Operand cast;
  double error;  ///< relative MSE, four places
  double share;  ///< of blocks that take the second fit; 0: there is none
};

/// Sums over blocks, so that their own scatter bounds how far a sample is from the mean.
struct Sample {
  double error = 0, squares = 0, power = 0;
  int64_t others = 0, blocks = 0;

  [[nodiscard]] double relative() const { return error / power; }
  [[nodiscard]] double deviation() const {
    const auto n = static_cast<double>(blocks);
    const double mean = error / n;
    return std::sqrt(std::max(squares / n - mean * mean, 0.0) * n) / power;
  }
};

constexpr int64_t kCols = 4096;

/// Of decoded values, and of the scales of their blocks beside those of the first fit alone.
Sample sample_of(const std::vector<float>& x, const std::vector<float>& values, const float* scales,
                 const float* first) {
  Sample sample;
  for (size_t block = 0; block < x.size() / 16; ++block) {
    double error = 0;
    for (size_t i = 16 * block; i < 16 * block + 16; ++i) {
      const double v = x[i], off = values[i] - v;
      error += off * off;
      sample.power += v * v;
    }
    sample.error += error;
    sample.squares += error * error;
    sample.others += scales[block] != first[block] ? 1 : 0;
    ++sample.blocks;
  }
  return sample;
}

Sample sample_of(const Operand& cast, const std::vector<float>& x) {
  const int64_t rows = static_cast<int64_t>(x.size()) / kCols;
  PrepareContext context;
  context.key = kKey;
  Operand alone = cast;
  alone.fit = {cast.fit[0]};
  const Prepared made(cast, view_of(x, rows, kCols), 16, Contract::cols, context);
  const Prepared first(alone, view_of(x, rows, kCols), 16, Contract::cols, context);
  return sample_of(x, made.values(), made.parts().scales, first.parts().scales);
}

Operand stochastic(Operand cast) {
  cast.rounding = Rounding::stochastic;
  return cast;
}

// [rivals.md §2.2] Both samples scatter: by √2 times four deviations, and the last place given.
TEST(Fits, LoseWhatTheFiguresSay) {
  const std::vector<float> x = normal_values(int64_t{1} << 20, 5);
  const Figure figures[] = {{"6", nvfp4({6}), .00907, 0},
                            {"6, 4 mse", nvfp4({6, 4}), .00759, .45},
                            {"6, 4 mae", nvfp4({6, 4}, Select::mae), .00783, .34},
                            {"6, 4 max", nvfp4({6, 4}, Select::max), .00801, .60},
                            {"6 stochastic", stochastic(nvfp4({6})), .0189, 0},
                            {"96/17 stochastic", stochastic(nvfp4({96.0f / 17})), .0235, 0}};
  for (const Figure& figure : figures) {
    const Sample sample = sample_of(figure.cast, x);
    const double last_place = figure.error < .01 ? .5e-5 : .5e-4;
    EXPECT_NEAR(sample.relative(), figure.error, last_place + 4 * std::sqrt(2) * sample.deviation())
        << figure.what;
    if (figure.share == 0) continue;
    const double share = static_cast<double>(sample.others) / static_cast<double>(sample.blocks);
    const double deviation = std::sqrt(share * (1 - share) / static_cast<double>(sample.blocks));
    EXPECT_NEAR(share, figure.share, .005 + 4 * std::sqrt(2) * deviation) << figure.what;
  }
}

// The figure is one of draws apart; with those of the element the choice gains less.
TEST(Fits, OfAListGainMoreFromDrawsApart) {
  const std::vector<float> x = normal_values(int64_t{1} << 20, 5);
  const Operand list = stochastic(nvfp4({96.0f / 17, 64.0f / 17}));
  const int64_t rows = static_cast<int64_t>(x.size()) / kCols;
  const auto sample = [&](bool draws_apart) {
    const Plain plain = plainly(x, rows, kCols, list, 1, 16, draws_apart);
    return sample_of(x, plain.values, plain.scales.data(), plain.scales.data());
  };
  const Sample apart = sample(true), alike = sample(false);
  EXPECT_NEAR(apart.relative(), .0174, .5e-4 + 4 * std::sqrt(2) * apart.deviation());
  EXPECT_GT(alike.relative(), apart.relative() + 8 * apart.deviation());
  EXPECT_EQ(alike.relative(), sample_of(list, x).relative());
}

// ---------------------------------------------------------------- golden vectors

struct Role {
  const char *key, *source;
  Contract contract;
  Purpose purpose;
  const char* id;
};

constexpr Role kRoles[] = {
    {"fprop.input", "input", Contract::cols, Purpose::fprop_input, "input_id"},
    {"fprop.weight", "weight", Contract::cols, Purpose::fprop_weight, "tensor_id"},
    {"dgrad.grad", "grad", Contract::cols, Purpose::dgrad_grad, "output_id"},
    {"dgrad.weight", "weight", Contract::rows, Purpose::dgrad_weight, "tensor_id"},
    {"wgrad.grad", "grad", Contract::rows, Purpose::wgrad_grad, "output_id"},
    {"wgrad.input", "input", Contract::rows, Purpose::wgrad_input, "input_id"}};

void expect_operand(const io::Safetensors& file, const std::string& name, const Json& facts,
                    const Role& role) {
  const toml::table recipe = parse_toml(facts.at("toml").get<std::string>(), name);
  const std::string linear = "linear.", key = linear + role.key;
  Operand cast = operand_of("fp32");
  read_keys(cast, *find_item(recipe, key, "")->value->as_table(), operand_keys());
  const io::SafetensorsEntry& source = file.at(name + "." + role.source);
  const std::vector<float> x = io::to_floats(source);
  const auto hadamard = find_item(recipe, key.substr(0, key.rfind('.')) + ".hadamard", "");
  const auto size = hadamard ? static_cast<int>(*hadamard->value->value<int64_t>()) : 0;
  OperandSpec spec = spec_of(cast, view_of(x, source.shape[0], source.shape[1]), role.contract,
                             std::lcm(cast.block.cols, std::max(size, 1)));
  if (size > 0) spec.hadamard = {.size = size, .signs = fixed_signs()};
  PrepareContext context;
  const bool is_weight = role.source == std::string("weight");
  context.key = {.seed = std::stoull(facts.at("seed").get<std::string>()),
                 .tensor = facts.at(role.id),
                 .step = facts.at("step"),
                 .purpose = role.purpose,
                 .micro = is_weight ? 0 : facts.at("micro").get<uint32_t>()};
  const Prepared made(spec, view_of(x, source.shape[0], source.shape[1]), context);
  const std::string prefix = name + "." + role.key;
  const std::vector<int64_t> codes = io::to_integers(file.at(prefix + ".codes"));
  ASSERT_EQ(codes.size(), made.codes().size()) << prefix;
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<uint32_t>(codes[i]) & 0xFFu;
    const bool is_zero = is_zero_code(*cast.element, code);
    ASSERT_TRUE(made.codes()[i] == code || (is_zero && made.values()[i] == 0))
        << prefix << " " << i;
  }
  const bool has_codes = cast.scale == ScaleKind::e4m3;
  const io::SafetensorsEntry& scales = file.at(prefix + ".scale");
  const std::vector<int64_t> scale_codes =
      has_codes ? io::to_integers(scales) : std::vector<int64_t>();
  const std::vector<float> numbers = has_codes ? std::vector<float>() : io::to_floats(scales);
  const auto count = made.parts().scale_rows * made.parts().scale_cols;
  ASSERT_EQ(static_cast<int64_t>(has_codes ? scale_codes.size() : numbers.size()), count) << prefix;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    ASSERT_EQ(made.parts().scales[i],
              has_codes ? decode(element_format("e4m3"), static_cast<uint32_t>(scale_codes[i]))
                        : numbers[i])
        << prefix << " " << i;
  if (!has_codes) return;
  EXPECT_EQ(*made.parts().tensor_scales, io::to_floats(file.at(prefix + ".tensor_scale")).at(0));
}

TEST(Fits, EqualTheGoldenVectors) {
  const io::Safetensors file(golden("linear/fits"));
  const Json cases = Json::parse(file.metadata().at("cases"));
  EXPECT_EQ(cases.size(), 6u);
  for (const auto& [name, facts] : cases.items())
    for (const Role& role : kRoles)
      ASSERT_NO_FATAL_FAILURE(expect_operand(file, name, facts, role)) << name;
}

}  // namespace
}  // namespace ng::ref
