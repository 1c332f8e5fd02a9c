#include "train/self_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/sum_bound.h"
#include "format/hadamard.h"
#include "math/round.h"
#include "nn/linear.h"
#include "run/transfer.h"
#include "train/known_values.h"

namespace ng {
namespace {

// Ragged against every tile, and several blocks of every kind along K.
constexpr int64_t kLeftRows = 24, kRightRows = 56, kDepth = 160;

/// An operand, and as what its source is stored.
struct TestedSource {
  OperandSpec spec;
  const ElementFormat* element = &fp32_format();

  friend bool operator==(const TestedSource&, const TestedSource&) = default;
};

/// One GEMM of a layer by its two operands.
struct TestedGemm {
  TestedSource left, right;
  const ElementFormat* output = &fp32_format();
  SumOrder sum = SumOrder::chain;

  friend bool operator==(const TestedGemm&, const TestedGemm&) = default;
};

/// What the sources hold, in every GEMM and on both backends.
struct TestedValues {
  std::vector<float> left = known_values(kLeftRows * kDepth, 1, 1.0f),
                     right = known_values(kRightRows * kDepth, 2, 1.0f);
};

/// An operand that one backend prepared, with all that it refers to.
class TestOperand {
 public:
  TestOperand(Backend& backend, const TestedSource& source, const std::vector<float>& values)
      : values_(values_of(backend, source)),
        scale_(backend, 1, 1),
        history_(backend, 1, std::max(source.spec.cast.amax_history, 1)),
        memory_(backend, std::max<size_t>(backend.operand_bytes(source.spec), 1)) {
    const OperandSpec& spec = source.spec;
    values_.upload(values);
    scale_.upload(std::vector{1.0f});
    packed_ = {.spec = spec,
               .source = {},
               .storage = memory_.data(),
               .bytes = backend.operand_bytes(spec)};
    PrepareContext context;
    context.key = {.seed = 7, .tensor = 3, .step = 11, .purpose = Purpose::dgrad_grad};
    context.delayed = {scale_.view().as<float>().data, history_.view().as<float>().data};
    backend.execute(Prepare{&packed_, values_.view(), context});
  }
  TestOperand(const TestOperand&) = delete;
  TestOperand& operator=(const TestOperand&) = delete;

  [[nodiscard]] const PackedOperand& packed() const { return packed_; }

 private:
  [[nodiscard]] static TemporaryTensor values_of(Backend& backend, const TestedSource& source) {
    const OperandSpec& spec = source.spec;
    const bool straight = spec.contract == Contract::cols;
    return {backend, *source.element, straight ? spec.rows : spec.k, straight ? spec.k : spec.rows};
  }

  TemporaryTensor values_, scale_, history_;
  BackendMemory memory_;
  PackedOperand packed_;
};

std::vector<float> product(Backend& backend, const TestedGemm& gemm, const TestedValues& values) {
  const TestOperand left(backend, gemm.left, values.left), right(backend, gemm.right, values.right);
  const TemporaryTensor y(backend, *gemm.output, kLeftRows, kRightRows);
  backend.execute(
      Gemm{.y = y.view(), .a = &left.packed(), .b = &right.packed(), .bias = {}, .sum = gemm.sum});
  return y.download();
}

/// An operand's values as `reference` has them, [rows][k_padded].
std::vector<float> values_of(Backend& reference, const TestedSource& source,
                             const std::vector<float>& from) {
  const TestOperand operand(reference, source, from);
  const TemporaryTensor values(reference, source.spec.rows, source.spec.k_padded());
  reference.execute(
      Unpack{.packed = &operand.packed(), .values = values.view(), .undoes_prescale = true});
  return values.download();
}

/// How far sums in another order may lie from `ref`'s, for each value; of BF16 results a step more.
std::vector<double> bounds_of(Backend& reference, const TestedGemm& gemm,
                              const TestedValues& values, SumUnits units) {
  const std::vector<float> a = values_of(reference, gemm.left, values.left);
  const std::vector<float> b = values_of(reference, gemm.right, values.right);
  const std::span<const float> all_a(a), all_b(b);
  const auto k = static_cast<size_t>(gemm.left.spec.k_padded());
  const double alpha = hadamard_alpha(gemm.left.spec.hadamard.size);
  std::vector<double> bounds;
  for (size_t row = 0; row < kLeftRows; ++row)
    for (size_t col = 0; col < kRightRows; ++col)
      bounds.push_back(alpha *
                       sum_bound(all_a.subspan(row * k, k), all_b.subspan(col * k, k), units));
  return bounds;
}

void compare(Backend& backend, Backend& reference, const TestedGemm& gemm,
             const TestedValues& values) {
  const std::vector<float> got = product(backend, gemm, values),
                           want = product(reference, gemm, values);
  const SumUnits units = backend.sum_units(gemm.left.spec, gemm.right.spec, gemm.sum);
  const bool is_exact = units == SumUnits::defined;
  const std::vector<double> bounds =
      is_exact ? std::vector<double>(want.size()) : bounds_of(reference, gemm, values, units);
  for (size_t i = 0; i < want.size(); ++i) {
    if (float_bits(got[i]) == float_bits(want[i]) || (std::isnan(got[i]) && std::isnan(want[i])))
      continue;
    const double step = gemm.output == &bf16_format() ? 0x1p-7 * std::abs(want[i]) : 0.0;
    if (!is_exact && std::abs(static_cast<double>(got[i]) - want[i]) <= bounds[i] + step) continue;
    throw Error(
        {.place = "self-check",
         .key = describe(gemm.left.spec.cast) + " x " + describe(gemm.right.spec.cast),
         .problem = fmt::format("the product is {} where the definition gives {}", got[i], want[i]),
         .remedy = is_exact ? "--isa scalar, or --backend ref, and a report with `narrowgauge info`"
                            : "--backend cuda-exact, and a report with `narrowgauge info`"});
  }
}

}  // namespace

int self_check(Backend& backend, Backend& reference, std::span<const LinearRecipe> recipes,
               Compute compute) {
  const ElementFormat& stored = element_of(compute);
  const auto source_of = [&](const LinearRecipe& recipe, OperandRole role, int64_t rows) {
    TestedSource source{operand_form(recipe, role), is_weight(role) ? &fp32_format() : &stored};
    source.spec.rows = rows;
    source.spec.k = kDepth;
    return source;
  };
  const TestedValues values;
  std::vector<TestedGemm> done;
  for (const LinearRecipe& recipe : recipes)
    for (size_t role = 0; role < kOperandRoles; role += 2) {
      const auto left = static_cast<OperandRole>(role), right = static_cast<OperandRole>(role + 1);
      const TestedGemm gemm{
          source_of(recipe, left, kLeftRows), source_of(recipe, right, kRightRows),
          left == OperandRole::wgrad_grad ? &fp32_format() : &stored, gemm_of(recipe, left).sum};
      if (std::find(done.begin(), done.end(), gemm) != done.end()) continue;
      compare(backend, reference, gemm, values);
      done.push_back(gemm);
    }
  return static_cast<int>(done.size());
}

}  // namespace ng
