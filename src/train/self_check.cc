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

/// One GEMM of a layer by its two operands.
struct TestedGemm {
  OperandSpec left, right;
};

/// Normal values over some binades, as activations have them.
std::vector<float> known_values(const OperandSpec& spec) {
  std::vector<float> values(static_cast<size_t>(spec.rows * spec.k));
  const RandomKey key{.seed = 5, .tensor = spec.side == Side::left ? 1u : 2u};
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(math::normal(key, i, 1.0f), static_cast<int>(i / 64 % 5) - 2);
  return values;
}

/// Memory of a backend.
class Memory {
 public:
  Memory(Backend& backend, size_t bytes)
      : backend_(backend), bytes_(bytes), data_(backend.allocate(bytes)) {}
  ~Memory() { backend_.release(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  Backend& backend_;
  size_t bytes_;
  std::byte* data_;
};

size_t float_bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

/// An operand that one backend prepared, with all that it refers to.
class TestOperand {
 public:
  TestOperand(Backend& backend, const OperandSpec& spec)
      : values_(backend, float_bytes(spec.rows * spec.k)),
        scale_(backend, sizeof(float)),
        history_(backend, float_bytes(std::max(spec.cast.amax_history, 1))),
        memory_(backend, std::max<size_t>(backend.operand_bytes(spec), 1)) {
    const std::vector<float> values = known_values(spec);
    backend.upload(values_.data(), values.data(), float_bytes(std::ssize(values)));
    const float one = 1.0f;
    backend.upload(scale_.data(), &one, sizeof one);
    packed_ = {.spec = spec,
               .source = {},
               .storage = memory_.data(),
               .bytes = backend.operand_bytes(spec)};
    PrepareContext context;
    context.key = {.seed = 7, .tensor = 3, .step = 11, .purpose = Purpose::dgrad_grad};
    context.delayed = {scale_.floats(), history_.floats()};
    const bool straight = spec.contract == Contract::cols;
    const int64_t rows = straight ? spec.rows : spec.k, cols = straight ? spec.k : spec.rows;
    backend.execute(Prepare{&packed_, {values_.floats(), rows, cols, cols}, context});
  }
  TestOperand(const TestOperand&) = delete;
  TestOperand& operator=(const TestOperand&) = delete;

  [[nodiscard]] const PackedOperand& packed() const { return packed_; }

 private:
  Memory values_, scale_, history_, memory_;
  PackedOperand packed_;
};

std::vector<float> product(Backend& backend, const TestedGemm& gemm) {
  const TestOperand left(backend, gemm.left), right(backend, gemm.right);
  std::vector<float> y(static_cast<size_t>(kLeftRows * kRightRows));
  const Memory memory(backend, float_bytes(std::ssize(y)));
  backend.execute(Gemm{.y = {memory.floats(), kLeftRows, kRightRows, kRightRows},
                       .a = &left.packed(),
                       .b = &right.packed()});
  backend.download(y.data(), memory.data(), float_bytes(std::ssize(y)));
  return y;
}

void compare(Backend& backend, Backend& reference, const TestedGemm& gemm) {
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
  std::vector<TestedGemm> done;
  for (const LinearRecipe& recipe : recipes)
    for (size_t role = 0; role < kOperandRoles; role += 2) {
      TestedGemm gemm{operand_form(recipe, static_cast<OperandRole>(role)),
                      operand_form(recipe, static_cast<OperandRole>(role + 1))};
      gemm.left.rows = kLeftRows;
      gemm.right.rows = kRightRows;
      gemm.left.k = gemm.right.k = kLength;
      const bool known = std::any_of(done.begin(), done.end(), [&](const TestedGemm& other) {
        return gemm.left == other.left && gemm.right == other.right;
      });
      if (known) continue;
      compare(backend, reference, gemm);
      done.push_back(gemm);
    }
  return static_cast<int>(done.size());
}

}  // namespace ng
