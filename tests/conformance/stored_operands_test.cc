// Operands of weights that are stored in few bits: the stored codes under the stored scales.
// [recipes.md §7, rule g]
#include "operands.h"
#include "stored_casts.h"
#include "support/stored_tensor.h"

namespace ng::conformance {
namespace {

std::vector<Operand> casts_with_scales() {
  return {cast_of("fp8_e4m3"),   scaled_by_power("fp8_e4m3"), cast_of("fp8_e5m2"),
          cast_of("mxfp8_e4m3"), cast_of("mxfp6_e3m2"),       cast_of("mxfp6_e2m3"),
          cast_of("mxfp4"),      in_blocks("mxfp4", 32, 32),  cast_of("mxint8"),
          cast_of("nvfp4"),      in_blocks("nvfp4", 16, 16),  cast_of("int8"),
          cast_of("int4")};
}

bool can_be_turned(const Operand& cast) {
  const bool is_square = cast.block.rows == cast.block.cols;
  return cast.block.kind == Block::Kind::tensor ||
         (cast.block.kind == Block::Kind::tile && is_square);
}

/// The operand of a stored tensor, whose values are those of the tensor.
Results taken(const Place& with, const OperandSpec& spec, int64_t rows, int64_t cols) {
  StoredTensor weight(with.backend, spec.cast, rows, cols);
  const Tensor values = with.fp32(spread(rows, cols, 72));
  with.execute(Store{.y = weight.stored(), .x = values, .key = {}});
  View elements = weight.view();
  elements.scales = {};
  Tensor plain = with.fp32(Matrix(rows, cols)), whole = with.fp32(Matrix(rows, cols));
  with.execute(Store{.y = stored_plainly(plain), .x = elements, .key = {}});
  with.execute(Store{.y = stored_plainly(whole), .x = weight.view(), .key = {}});
  PrepareContext context;
  context.stored = weight.view();
  const Prepared operand = prepare(with, spec, plain, context);
  const Unpacked all = unpack(with, operand.packed);
  const Matrix expected = whole.values();
  const bool straight = spec.contract == Contract::cols;
  for (int64_t r = 0; r < spec.rows; ++r)
    for (int64_t k = 0; k < spec.k; ++k) {
      const float value = straight ? expected.at(r, k) : expected.at(k, r);
      EXPECT_EQ(all.values.at(r, k), value) << describe(spec.cast) << " at " << r << ", " << k;
    }
  Results results{{"values", all.values}, {"codes", all.codes}};
  if (straight) results.emplace("passed", passed(with, spec, plain, context));
  return results;
}

TEST(Conformance, OperandsOfStoredWeights) {
  for (const Operand& cast : casts_with_scales())
    for (const Contract contract : {Contract::cols, Contract::rows}) {
      if (contract == Contract::rows && !can_be_turned(cast)) continue;
      for (const auto& [rows, cols] :
           {std::pair<int64_t, int64_t>{19, 150}, {64, 256}, {300, 96}}) {
        const bool straight = contract == Contract::cols;
        OperandSpec spec = spec_of(cast, {contract, Side::right}, straight ? rows : cols,
                                   straight ? cols : rows, 0, 64);
        spec.signed_zeros = true;
        conform(fmt::format("{} {}x{} contract {}", describe(cast), rows, cols,
                            straight ? "cols" : "rows"),
                [&, rows = rows, cols = cols](const Place& with) {
                  return taken(with, spec, rows, cols);
                });
      }
    }
}

}  // namespace
}  // namespace ng::conformance
