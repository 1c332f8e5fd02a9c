// What a card makes of single FP32 numbers, beside the scalar definition: some here, all of them
// where benchmarks/card/prove asks for it by name.
#include "conformance.h"
#include "exhaustive/element_casts.h"
#include "numbers/by_definition.h"
#include "run/transfer.h"

namespace ng::conformance {
namespace {

using exhaustive::ElementCast;

constexpr int64_t kFloatCols = 1024;

/// Numbers `apart` by their bits, in operands of `rows` times kFloatCols, as many as `operands`.
struct Floats {
  int64_t rows, operands;
  uint32_t apart;

  [[nodiscard]] int64_t count() const { return rows * kFloatCols; }
  [[nodiscard]] float at(int64_t operand, int64_t i) const {
    return float_of_bits(static_cast<uint32_t>(operand * count() + i) * apart);
  }
};

/// Operands without scale, as quantize_on makes them, but for what would take hours of 2^32.
class BackendCaster {
 public:
  BackendCaster(Backend& backend, const ElementCast& cast, const Floats& floats)
      : backend_(backend),
        spec_{.cast = cast.operand(), .rows = floats.rows, .k = kFloatCols, .hadamard = {}},
        x_(backend, floats.rows, kFloatCols),
        values_(backend, floats.rows, kFloatCols),
        codes_(backend, static_cast<size_t>(floats.count()) * sizeof(uint16_t)),
        storage_(backend, backend.operand_bytes(spec_)) {}

  void encode(std::span<const float> x, std::span<uint16_t> codes) {
    x_.upload(x);
    PackedOperand packed{.spec = spec_,
                         .source = {},
                         .storage = storage_.data(),
                         .bytes = backend_.operand_bytes(spec_)};
    backend_.execute(Prepare{&packed, x_.view(), {}});
    backend_.execute(Unpack{.packed = &packed,
                            .values = values_.view(),
                            .codes = reinterpret_cast<uint16_t*>(codes_.data())});
    backend_.download(codes.data(), codes_.data(), codes.size_bytes());
  }

 private:
  Backend& backend_;
  OperandSpec spec_;
  TemporaryTensor x_, values_;
  BackendMemory codes_, storage_;
};

void expect_encoded(Backend& backend, const ElementCast& cast, const Floats& floats) {
  SCOPED_TRACE(cast.text());
  const Threads threads{available_cores()};
  BackendCaster caster(backend, cast, floats);
  const auto count = static_cast<size_t>(floats.count());
  std::vector<float> x(count);
  std::vector<uint16_t> got(count);
  std::vector<uint8_t> want(count);
  std::vector<size_t> equal(static_cast<size_t>(floats.rows));  // codes of each row, from its begin
  for (int64_t operand = 0; operand < floats.operands; ++operand) {
    parallel_for(threads, floats.rows, [&](int64_t row, int) {
      for (int64_t i = row * kFloatCols; i < (row + 1) * kFloatCols; ++i)
        x[static_cast<size_t>(i)] = floats.at(operand, i);
    });
    caster.encode(x, got);
    parallel_for(threads, floats.rows, [&](int64_t row, int) {
      const auto at = static_cast<size_t>(row * kFloatCols);
      const auto of_row = std::span(want).subspan(at, kFloatCols);
      exhaustive::codes_by_definition(cast, std::span(x).subspan(at, kFloatCols), of_row);
      const auto wrong = std::ranges::mismatch(of_row, std::span(got).subspan(at, kFloatCols));
      equal[static_cast<size_t>(row)] = static_cast<size_t>(wrong.in1 - of_row.begin());
    });
    for (size_t row = 0; row < equal.size(); ++row) {
      const size_t at = row * kFloatCols + equal[row];
      ASSERT_EQ(equal[row], static_cast<size_t>(kFloatCols))
          << fmt::format("{:#010x}: {:#x} instead of {:#x}", float_bits(x[at]), got[at], want[at]);
    }
  }
}

/// On the first card there is.
void expect_all_casts(const Floats& floats) {
  const auto& names = compared_backends();
  const auto card = std::ranges::find_if(names, [](const auto& name) { return is_card(name); });
  if (card == names.end()) GTEST_SKIP() << "no card, and none emulated";
  const std::unique_ptr<Backend> backend = make_backend(*card, {1});
  for (const ElementFormat* format : exhaustive::narrow_formats())
    for (const ElementCast& cast : exhaustive::casts_of(*format))
      if (!is_by_definition(cast.operand())) expect_encoded(*backend, cast, floats);
}

// An odd distance meets all exponents and many mantissas.
TEST(EveryFloat, SomeAreEncodedByACardAsDefined) {
  expect_all_casts({.rows = 64, .operands = 1, .apart = 65521});
}

TEST(EveryFloat, DISABLED_IsEncodedByACardAsDefined) {
  expect_all_casts({.rows = 1024, .operands = 4096, .apart = 1});
}

}  // namespace
}  // namespace ng::conformance
