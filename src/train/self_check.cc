#include "train/self_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "math/normal.h"
#include "math/round.h"
#include "nn/linear.h"

namespace ng {
namespace {

// Ragged against every tile, and several blocks of every kind along K.
constexpr int64_t kLeftRows = 24, kRightRows = 56, kLength = 160;
constexpr size_t kAlignment = 64;

/// One GEMM of a layer by its two operands.
struct Gemm {
  OperandSpec left, right;
};

bool is_same(const OperandSpec& a, const OperandSpec& b) {
  return a.cast == b.cast && a.contract == b.contract && a.hadamard == b.hadamard;
}

/// Normal values over some binades, as activations have them.
std::vector<float> known_values(const OperandSpec& spec) {
  std::vector<float> values(static_cast<size_t>(spec.rows * spec.k));
  const RandomKey key{.seed = 5, .tensor = spec.side == Side::left ? 1u : 2u};
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(math::normal(key, i, 1.0f), static_cast<int>(i / 64 % 5) - 2);
  return values;
}

/// An operand that one backend prepared, with all that it refers to.
class TestOperand {
 public:
  TestOperand(Backend& backend, const OperandSpec& spec)
      : values_(known_values(spec)),
        history_(static_cast<size_t>(std::max(spec.cast.amax_history, 1)), 0.0f),
        memory_(backend.operand_bytes(spec) + kAlignment) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    packed_ = {.spec = spec,
               .source = {},
               .storage = memory_.data() + (kAlignment - address % kAlignment),
               .bytes = memory_.size() - kAlignment};
    PrepareContext context;
    context.key = {.seed = 7, .tensor = 3, .step = 11, .purpose = Purpose::dgrad_grad};
    context.delayed = {&encode_scale_, history_.data()};
    const bool straight = spec.contract == Contract::cols;
    const int64_t rows = straight ? spec.rows : spec.k, cols = straight ? spec.k : spec.rows;
    backend.prepare(packed_, {values_.data(), rows, cols, cols}, context);
  }
  TestOperand(const TestOperand&) = delete;
  TestOperand& operator=(const TestOperand&) = delete;

  [[nodiscard]] const PackedOperand& packed() const { return packed_; }

 private:
  std::vector<float> values_, history_;
  float encode_scale_ = 1.0f;
  std::vector<std::byte> memory_;
  PackedOperand packed_;
};

std::vector<float> product(Backend& backend, const Gemm& gemm) {
  const TestOperand left(backend, gemm.left), right(backend, gemm.right);
  std::vector<float> y(static_cast<size_t>(kLeftRows * kRightRows));
  backend.gemm({.y = {y.data(), kLeftRows, kRightRows, kRightRows}}, left.packed(), right.packed());
  return y;
}

void compare(Backend& backend, Backend& reference, const Gemm& gemm) {
  const std::vector<float> got = product(backend, gemm), want = product(reference, gemm);
  for (size_t i = 0; i < want.size(); ++i) {
    if (float_bits(got[i]) == float_bits(want[i]) || (std::isnan(got[i]) && std::isnan(want[i])))
      continue;
    throw Error(
        {.place = "self-check",
         .key = describe(gemm.left.cast) + " x " + describe(gemm.right.cast),
         .problem = fmt::format("the product is {} where the definition gives {}", got[i], want[i]),
         .remedy = "--isa scalar, or --backend ref, and a report with `narrowgauge info`"});
  }
}

}  // namespace

int self_check(Backend& backend, Backend& reference, std::span<const LinearRecipe> recipes) {
  std::vector<Gemm> done;
  for (const LinearRecipe& recipe : recipes)
    for (size_t role = 0; role < kOperandRoles; role += 2) {
      Gemm gemm{operand_form(recipe, static_cast<OperandRole>(role)),
                operand_form(recipe, static_cast<OperandRole>(role + 1))};
      const bool known = std::any_of(done.begin(), done.end(), [&](const Gemm& other) {
        return is_same(gemm.left, other.left) && is_same(gemm.right, other.right);
      });
      if (known) continue;
      gemm.left.rows = kLeftRows;
      gemm.right.rows = kRightRows;
      gemm.left.k = gemm.right.k = kLength;
      compare(backend, reference, gemm);
      done.push_back(gemm);
    }
  return static_cast<int>(done.size());
}

}  // namespace ng
