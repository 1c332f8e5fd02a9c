#include "speed/gemm_speed.h"

#include <algorithm>
#include <memory>

#include "backend/cpu/gemm/gemm.h"
#include "base/error.h"
#include "math/normal.h"
#include "numbers/product.h"
#include "recipe/cast_words.h"
#include "speed/timing.h"

namespace ng {
namespace {

constexpr double kLeastGemmSeconds = 4e-3;  // of one measurement

// Makes `values` at least `rows` · `cols` normal ones.
void grow(std::vector<float>& values, Threads threads, int64_t rows, int64_t cols, uint64_t seed) {
  const size_t first = values.size();
  values.resize(std::max(first, static_cast<size_t>(rows * cols)));
  parallel_for(threads, rows, [&](int64_t row, int) {
    const auto end = static_cast<size_t>((row + 1) * cols);
    for (size_t i = std::max(first, static_cast<size_t>(row * cols)); i < end; ++i)
      values[i] = math::normal({.seed = seed}, i, 1.0f);
  });
}

// FORMAT/RxC, the slash at `slash`.
Operand with_block(const std::string& format, size_t slash) {
  CastWords flags;
  flags.format = format.substr(0, slash);
  flags.words["block"] = format.substr(slash + 1);
  try {
    if (flags.has("block")) return flags.operand();
  } catch (const Error& error) {
    throw Error({.place = "--formats",
                 .key = format,
                 .problem = error.parts().problem,
                 .remedy = error.parts().remedy});
  }
  throw Error({.place = "--formats",
               .key = format,
               .problem = "no block",
               .remedy = "FORMAT/RxC, or FORMAT/tile32"});
}

// Both operands of GemmRun::formats.
struct Pair {
  Operand left, right;
  SumOrder sum = SumOrder::chain;

  explicit Pair(const std::string& format) {
    const size_t slash = format.find('/');
    left = right = operand_of(format.substr(0, slash));
    if (slash == std::string::npos) return;
    if (format.substr(slash + 1) == name_of(SumOrder::tile32)) {
      sum = SumOrder::tile32;
      if (left.factors_are_bf16()) return;
      throw Error({.place = "--formats",
                   .key = format,
                   .problem = "BF16 does not hold its elements with their scales",
                   .remedy = "a format of at most 8 significant bits"});
    }
    right = with_block(format, slash);
    if (right.block.cols == left.block.cols) return;
    throw Error({.place = "--formats",
                 .key = format,
                 .problem = "the two operands' blocks differ in length",
                 .remedy = fmt::format("RxC with C = {}", left.block.cols)});
  }
};

}  // namespace

std::vector<GemmShape> training_shapes() {
  std::vector<GemmShape> shapes;
  for (const int64_t tokens : {512, 1024, 2048})
    for (const auto& [n, k] : {std::pair{384, 384},
                               {1152, 384},
                               {1536, 384},
                               {384, 1536},
                               {768, 768},
                               {2304, 768},
                               {3072, 768},
                               {768, 3072}})
      shapes.push_back({tokens, n, k});
  for (const GemmShape& wgrad : {GemmShape{768, 768, 1024},
                                 {3072, 768, 1024},
                                 {768, 3072, 1024},
                                 {1536, 384, 2048},
                                 {384, 1536, 2048}})
    shapes.push_back(wgrad);
  return shapes;
}

std::vector<double> GemmSpeed::seconds(const GemmShape& shape) {
  cpu::Workspace workspace(run_.threads);
  grow(left_, run_.threads, shape.m, shape.k, 1);
  grow(right_, run_.threads, shape.n, shape.k, 2);
  std::vector<std::unique_ptr<Factor>> a, b;
  std::vector<SumOrder> sums;
  for (const std::string& format : run_.formats) {
    const Pair pair(format);
    sums.push_back(pair.sum);
    OperandSpec spec{.cast = pair.left, .rows = shape.m, .k = shape.k, .hadamard = {}};
    spec.k_multiple = k_multiple(pair.left, pair.right, {});
    a.push_back(std::make_unique<Factor>(
        workspace, spec, Rows<const float>{left_.data(), shape.m, shape.k, shape.k}, RandomKey{}));
    spec.cast = pair.right;
    spec.side = Side::right;
    spec.rows = shape.n;
    b.push_back(std::make_unique<Factor>(
        workspace, spec, Rows<const float>{right_.data(), shape.n, shape.k, shape.k}, RandomKey{}));
  }
  std::vector<float> y(static_cast<size_t>(shape.m * shape.n));
  std::vector<double> best(run_.formats.size(), 1e30);
  for (int round = 0; round < run_.rounds; ++round)
    for (size_t i = 0; i < best.size(); ++i)
      best[i] =
          std::min(best[i], seconds_per_call(
                                [&] {
                                  cpu::gemm(workspace, {.y = {y.data(), shape.m, shape.n, shape.n},
                                                        .a = &a[i]->packed(),
                                                        .b = &b[i]->packed(),
                                                        .sum = sums[i]});
                                },
                                kLeastGemmSeconds));
  return best;
}

}  // namespace ng
