// What a card makes of single FP32 numbers, beside the scalar definition: some here, all of them
// where benchmarks/card/prove asks for it by name.
#include "conformance.h"
#include "exhaustive/element_casts.h"
#include "numbers/by_definition.h"
#include "run/transfer.h"

namespace ng::conformance {
namespace {

using exhaustive::ElementCast;

constexpr int64_t kFloatRows = 64, kFloatCols = 1024;
constexpr int64_t kFloats = kFloatRows * kFloatCols;  ///< numbers of one operand
constexpr int64_t kAllBlocks = (int64_t{1} << 32) / kFloats;

Operand operand_of_elements(const ElementCast& cast) {
  Operand operand;
  operand.element = cast.format;
  operand.overflow = cast.overflow;
  return operand;
}

/// Operands without scale of kFloats numbers each.
class BackendCaster {
 public:
  BackendCaster(Backend& backend, const ElementCast& cast)
      : backend_(backend),
        x_(backend, kFloatRows, kFloatCols),
        values_(backend, kFloatRows, kFloatCols),
        codes_(backend, kFloats * sizeof(uint16_t)) {
    spec_.cast = operand_of_elements(cast);
    spec_.rows = kFloatRows;
    spec_.k = kFloatCols;
    spec_.k_multiple = 1;
    storage_.emplace(backend, backend.operand_bytes(spec_));
  }

  void encode(std::span<const float> x, std::span<uint16_t> codes) {
    x_.upload(x);
    PackedOperand packed{.spec = spec_,
                         .source = {},
                         .storage = storage_->data(),
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
  BackendMemory codes_;
  std::optional<BackendMemory> storage_;
};

/// Blocks of numbers whose bits are `apart`.
void expect_encoded(Backend& backend, const ElementCast& cast, int64_t blocks, uint32_t apart) {
  SCOPED_TRACE(cast.text());
  const Threads threads{available_cores()};
  BackendCaster caster(backend, cast);
  std::vector<float> x(kFloats);
  std::vector<uint16_t> got(kFloats);
  std::vector<uint8_t> want(kFloats);
  for (int64_t block = 0; block < blocks; ++block) {
    const auto first = static_cast<uint32_t>(block * kFloats);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = float_of_bits((first + static_cast<uint32_t>(i)) * apart);
    caster.encode(x, got);
    parallel_for(threads, kFloatRows, [&](int64_t row, int) {
      const auto at = static_cast<size_t>(row * kFloatCols);
      exhaustive::codes_by_definition(cast, std::span(x).subspan(at, kFloatCols),
                                      std::span(want).subspan(at, kFloatCols));
    });
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(got[i], want[i]) << fmt::format("{:#010x}", float_bits(x[i]));
  }
}

/// On the first card there is.
void expect_all_casts(int64_t blocks, uint32_t apart) {
  const auto& names = compared_backends();
  const auto card = std::ranges::find_if(names, [](const auto& name) { return is_card(name); });
  if (card == names.end()) GTEST_SKIP() << "no card, and none emulated";
  const std::unique_ptr<Backend> backend = make_backend(*card, {1});
  for (const ElementFormat* format : exhaustive::narrow_formats())
    for (const ElementCast& cast : exhaustive::casts_of(*format))
      if (!is_by_definition(operand_of_elements(cast)))
        expect_encoded(*backend, cast, blocks, apart);
}

// An odd distance meets all exponents and, over the blocks, all kinds of mantissas.
TEST(EveryFloat, SomeAreEncodedByACardAsDefined) { expect_all_casts(1, 65521); }

TEST(EveryFloat, DISABLED_IsEncodedByACardAsDefined) { expect_all_casts(kAllBlocks, 1); }

}  // namespace
}  // namespace ng::conformance
