// Stochastic rounding: the draw of an element depends on its place in the whole, untransposed
// tensor and on nothing else. [formats.md §2.3, recipes.md §0]
#include <algorithm>

#include "format/codec.h"
#include "format/scale.h"
#include "operands.h"

namespace ng::conformance {
namespace {

/// A cast of single elements: no scale, `bits` random bits.
Operand element_cast(const ElementFormat& format, int bits) {
  Operand cast;
  cast.element = &format;
  cast.rounding = Rounding::stochastic;
  cast.sr_bits = bits;
  return cast;
}

/// Elements that GEMMs take.
std::vector<const ElementFormat*> operand_elements() {
  std::vector<const ElementFormat*> elements;
  for (const ElementFormat& format : element_formats())
    if (format.is_signed && format.kind != ElementKind::power && format.bits <= 16)
      elements.push_back(&format);
  return elements;
}

Matrix transposed(const Matrix& x) {
  Matrix turned(x.cols(), x.rows());
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) turned.at(c, r) = x.at(r, c);
  return turned;
}

/// The values of x, or of its transpose, prepared as an operand.
Matrix values_of(const Place& with, const Operand& cast, Contract contract, const Matrix& x,
                 const PrepareContext& context = drawing()) {
  const bool straight = contract == Contract::cols;
  const OperandSpec spec = spec_of(cast, {contract, Side::left}, straight ? x.rows() : x.cols(),
                                   straight ? x.cols() : x.rows(), 0, 1);
  return unpacked(with, spec, x, context).at("values");
}

void expect_equal(const Matrix& got, const Matrix& want) {
  ASSERT_EQ(got.rows(), want.rows());
  ASSERT_EQ(got.cols(), want.cols());
  for (int64_t r = 0; r < want.rows(); ++r)
    for (int64_t c = 0; c < want.cols(); ++c)
      ASSERT_TRUE(same_bits(got.at(r, c), want.at(r, c)))
          << fmt::format("[{}][{}] = {} instead of {}", r, c, got.at(r, c), want.at(r, c));
}

/// Runs `body` on ref and on every target, of a card on one; what it lacks it says by name.
template <class Body>
void on_every_target(const Body& body) {
  body(Place{reference()});
  for (const Target& target : targets_without_units(tested_isas())) {
    if (is_card(target.backend) && target.threads == 1) continue;
    SCOPED_TRACE(target.label());
    try {
      ASSERT_NO_FATAL_FAILURE(body(Place{backend_of(target)}));
    } catch (const Unsupported&) {
      ASSERT_TRUE(is_card(target.backend));
    }
  }
  force_isa(supported_isas().back());
}

// ---------------------------------------------------------------- expectation

/// A tensor of one number in which every R of 8 bits is drawn.
constexpr int64_t kRows = 67, kCols = 61;

/// By R: the value that the backend gave. Places with the same R must agree.
std::map<uint32_t, float> results_by_draw(const Place& with, const Operand& cast, float x) {
  const Matrix values = values_of(with, cast, Contract::cols, Matrix(kRows, kCols).fill(x));
  const PrepareContext context = drawing();
  std::map<uint32_t, float> results;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kCols; ++c) {
      const uint32_t random =
          random_bits(context.key, static_cast<uint64_t>(r + context.first_row),
                      static_cast<uint64_t>(c), static_cast<uint64_t>(kCols), cast.sr_bits);
      const auto [known, added] = results.try_emplace(random, values.at(r, c));
      EXPECT_TRUE(added || same_bits(known->second, values.at(r, c))) << x << " R " << random;
    }
  return results;
}

/// Over all 256 draws the mean is low + F/256 · (high - low), F = floor(f · 256): exact in double.
void expect_exact_mean(const ElementFormat& format, float x, const std::map<uint32_t, float>& got) {
  ASSERT_EQ(got.size(), 256u) << "draws that occur";
  const double low = decode(format, encode(format, x, {.mode = RoundMode::rtz}));
  const double high = decode(format, encode(format, x, {.mode = RoundMode::rup}));
  double sum = 0;
  for (const auto& [random, value] : got) sum += value;
  const double fraction = high == low ? 0 : (static_cast<double>(x) - low) / (high - low);
  // int8 and int4 are rounded down to the integer below, not toward zero.
  const bool floors = format.kind == ElementKind::integer && format.mantissa_bits == 0 && x < 0;
  const double ups = floors ? 256 - std::floor((1 - fraction) * 256) : std::floor(fraction * 256);
  EXPECT_EQ(sum, 256 * low + (high == low ? 0 : ups) * (high - low)) << x;
}

TEST(Draws, MeanOverAllRandomNumbersOfEightBitsIsExactInEveryFormat) {
  for (const ElementFormat* format : operand_elements()) {
    SCOPED_TRACE(std::string(format->short_name));
    const float steps[] = {min_subnormal(*format), min_normal(*format), max_value(*format) / 4};
    on_every_target([&](const Place& with) {
      for (const float step : steps)
        for (const float factor : {1.0f, 1.23456f, -1.375f, 2.71828f, -3.0078125f}) {
          const float x = step * factor;
          const auto got = results_by_draw(with, element_cast(*format, 8), x);
          ASSERT_NO_FATAL_FAILURE(expect_exact_mean(*format, x, got));
        }
    });
  }
}

// ---------------------------------------------------------------- places

TEST(Draws, OfEveryFormatAndWidthAreThoseOfTheDefinition) {
  for (const ElementFormat* format : operand_elements())
    for (const int bits : {8, 16, 32})
      for (const Contract contract : {Contract::cols, Contract::rows}) {
        Matrix x = spread(70, 83, 11, 2);
        for (int64_t r = 0; r < x.rows(); ++r)
          for (int64_t c = 0; c < x.cols(); ++c) x.at(r, c) *= min_normal(*format) * 4;
        conform(fmt::format("{} bits {} contract {}", format->short_name, bits,
                            static_cast<int>(contract)),
                [&](const Place& with) -> Results {
                  return {{"values", values_of(with, element_cast(*format, bits), contract, x)}};
                });
      }
}

/// Rows [first, first + count) of x, prepared alone as that part of the tensor.
Matrix part_of(const Place& with, const Operand& cast, Contract contract, const Matrix& x,
               int64_t first, int64_t count) {
  Matrix rows(count, x.cols());
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < x.cols(); ++c) rows.at(r, c) = x.at(first + r, c);
  PrepareContext context = drawing();
  context.first_row += first;
  return values_of(with, cast, contract, rows, context);
}

std::vector<Operand> casts_by_blocks(int bits) {
  std::vector<Operand> casts = {element_cast(element_format("e4m3"), bits), operand_of("mxfp4"),
                                operand_of("nvfp4"), operand_of("fp8_e5m2"), operand_of("mxint8")};
  casts[2].tensor_scale = ScaleKind::none;
  casts[3].block = {.kind = Block::Kind::tile, .rows = 1, .cols = 32};
  for (Operand& cast : casts) {
    cast.rounding = Rounding::stochastic;
    cast.sr_bits = bits;
  }
  return casts;
}

// However a tensor is cut into pieces of whole blocks, each element keeps its bits.
TEST(Draws, DoNotDependOnHowTheTensorIsCut) {
  const Matrix x = spread(160, 96, 12);
  for (const int bits : {8, 16, 32})
    for (const Operand& cast : casts_by_blocks(bits))
      for (const Contract contract : {Contract::cols, Contract::rows}) {
        SCOPED_TRACE(describe(cast));
        on_every_target([&](const Place& with) {
          const Matrix whole = values_of(with, cast, contract, x);
          for (int64_t first = 0, count = 32; first < x.rows(); first += count, count = 64) {
            const Matrix part = part_of(with, cast, contract, x, first, count);
            for (int64_t r = 0; r < count; ++r)
              for (int64_t c = 0; c < x.cols(); ++c) {
                const bool straight = contract == Contract::cols;
                const float got = straight ? part.at(r, c) : part.at(c, r);
                const float want = straight ? whole.at(first + r, c) : whole.at(c, first + r);
                ASSERT_TRUE(same_bits(got, want)) << first << "+" << r << " " << c;
              }
          }
        });
      }
}

// ---------------------------------------------------------------- the transposed quantizer

TEST(Transposed, NearestIsThePlainQuantizerOnTheTransposedTensor) {
  const Matrix x = spread(96, 70, 13);
  const Matrix turned = transposed(x);
  for (const std::string_view name : operand_names())
    on_every_target([&](const Place& with) {
      SCOPED_TRACE(std::string(name));
      ASSERT_NO_FATAL_FAILURE(
          expect_equal(values_of(with, operand_of(name), Contract::rows, x),
                       values_of(with, operand_of(name), Contract::cols, turned)));
    });
}

// Where the scale is the same in both directions, so is every element: its draw is keyed by its
// place in the untransposed tensor, so Q(X)ᵀ = Q(Xᵀ) to the bit, stochastic rounding included.
TEST(Transposed, StochasticElementsKeepTheirDrawUnderScalesOfBothDirections) {
  const Matrix x = spread(96, 64, 14);
  for (const int bits : {8, 16, 32}) {
    std::vector<Operand> casts = {element_cast(element_format("e5m2"), bits),
                                  operand_of("fp8_e4m3"), operand_of("mxfp4"), operand_of("nvfp4"),
                                  operand_of("mxfp6_e3m2")};
    for (size_t i = 2; i < casts.size(); ++i) casts[i].block.rows = casts[i].block.cols;
    for (Operand& cast : casts) {
      cast.rounding = Rounding::stochastic;
      cast.sr_bits = bits;
      SCOPED_TRACE(describe(cast));
      on_every_target([&](const Place& with) {
        const Matrix plain = values_of(with, cast, Contract::cols, x);
        ASSERT_NO_FATAL_FAILURE(
            expect_equal(values_of(with, cast, Contract::rows, x), transposed(plain)));
      });
    }
  }
}

// Blocks of one row lie along the other dimension of a transposed tensor. There the scales are
// those of the plain quantizer on Xᵀ, and the draws still those of the places in X: the same codes
// as quantizing Xᵀ with each element's own draw.
TEST(Transposed, StochasticBlocksDrawByTheUntransposedPlace) {
  const Matrix x = spread(96, 40, 15);
  Operand cast = operand_of("mxfp4");
  cast.rounding = Rounding::stochastic;
  const PrepareContext context = drawing();
  on_every_target([&](const Place& with) {
    const Matrix got = values_of(with, cast, Contract::rows, x);
    const ElementRange range = range_of(*cast.element);
    for (int64_t row = 0; row < x.cols(); ++row)
      for (int64_t k = 0; k < x.rows(); ++k) {
        float amax = 0;
        for (int64_t i = k / 32 * 32; i < k / 32 * 32 + 32; ++i)
          amax = std::max(amax, std::abs(x.at(i, row)));
        const uint32_t code =
            amax == 0 ? 0 : e8m0_code(e8m0_exponent(ScaleRule::floor, amax, range));
        const uint32_t random =
            random_bits(context.key, static_cast<uint64_t>(k + context.first_row),
                        static_cast<uint64_t>(row), static_cast<uint64_t>(x.cols()), 16);
        const uint32_t element = encode(*cast.element, x.at(k, row) * e8m0_multiplier(code),
                                        {RoundMode::sr, 16, random});
        const float want = decode(*cast.element, element) * e8m0_value(code);
        ASSERT_TRUE(same_bits(got.at(row, k), want)) << row << " " << k;
      }
  });
}

}  // namespace
}  // namespace ng::conformance
