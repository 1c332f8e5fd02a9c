#include "numbers/measured_product.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/quantize/quantize.h"
#include "base/error.h"
#include "format/hadamard.h"
#include "numbers/on_backend.h"
#include "numbers/product.h"

namespace ng {
namespace {

constexpr size_t kSumLanes = 8;
constexpr int64_t kPanelRows = 64;
constexpr int64_t kPanelCols = 64;

/// The values that an operand stands for, (rows, k_padded).
class Decoded {
 public:
  Decoded(Threads threads, const PackedOperand& packed)
      : rows_(packed.spec.rows),
        k_(packed.spec.k_padded()),
        values_(static_cast<size_t>(rows_ * k_)) {
    cpu::unpack(threads, {.packed = &packed, .values = {values_.data(), rows_, k_, k_}});
  }
  [[nodiscard]] Rows<const float> view() const { return {values_.data(), rows_, k_, k_}; }

 private:
  int64_t rows_, k_;
  std::vector<float> values_;
};

double dot(const float* a, const float* b, int64_t k) {
  std::array<double, kSumLanes> sums{};
  int64_t i = 0;
  for (; i + int64_t{kSumLanes} <= k; i += kSumLanes)
    for (size_t lane = 0; lane < kSumLanes; ++lane)
      sums[lane] += double{a[i + int64_t(lane)]} * double{b[i + int64_t(lane)]};
  for (size_t lane = 0; i < k; ++i, ++lane) sums[lane] += double{a[i]} * double{b[i]};
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// Rows [row, row + rows) of x · yᵀ · factor, in FP64.
void multiply_rows(Rows<const float> x, Rows<const float> y, int64_t row, double factor,
                   double* out) {
  for (int64_t first = 0; first < y.rows; first += kPanelCols)
    for (int64_t r = row; r < std::min(row + kPanelRows, x.rows); ++r)
      for (int64_t c = first; c < std::min(first + kPanelCols, y.rows); ++c)
        out[(r - row) * y.rows + c] = dot(x.row(r), y.row(c), x.cols) * factor;
}

std::vector<float> turned(Rows<const float> x) {
  std::vector<float> out(static_cast<size_t>(x.size()));
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) out[static_cast<size_t>(c * x.rows + r)] = x.row(r)[c];
  return out;
}

/// Both factors of a job, rounded, and their product.
struct Factors {
  explicit Factors(const ProductJob& job)
      : workspace(job.threads),
        a(workspace, spec_of(job, Side::left), job.a, key_of(job, Side::left)),
        b(workspace, spec_of(job, Side::right), job.b, key_of(job, Side::right)),
        sum(job.sum) {}

  [[nodiscard]] std::vector<float> product(int64_t m, int64_t n) {
    std::vector<float> c(static_cast<size_t>(m * n));
    cpu::gemm(
        workspace,
        {.y = {c.data(), m, n, n}, .a = &a.packed(), .b = &b.packed(), .bias = {}, .sum = sum});
    return c;
  }

  cpu::Workspace workspace;
  Factor a, b;
  SumOrder sum;
};

struct Sums {
  ErrorSums total, quantization, accumulation;
};

}  // namespace

OperandSpec spec_of(const ProductJob& job, Side side) {
  const bool is_a = side == Side::left;
  OperandSpec spec;
  spec.cast = is_a ? job.a_cast : job.b_cast;
  spec.contract = !is_a && job.b_is_turned ? Contract::rows : Contract::cols;
  spec.side = side;
  spec.rows = is_a ? job.m() : job.n();
  spec.k = job.k();
  spec.k_multiple = k_multiple(job.a_cast, job.b_cast, job.hadamard);
  spec.hadamard = job.hadamard;
  return spec;
}

RandomKey key_of(const ProductJob& job, Side side) {
  const bool is_a = side == Side::left;
  return {.seed = job.seed,
          .tensor = is_a ? 0u : 1u,
          .step = 0,
          .purpose = is_a ? Purpose::fprop_input : Purpose::fprop_weight};
}

void require_fitting_blocks(const Operand& a, const Operand& b) {
  const auto length = [](const Operand& cast) {
    return cast.block.kind == Block::Kind::tile ? cast.block.cols : 1;
  };
  const int small = std::min(length(a), length(b)), large = std::max(length(a), length(b));
  if (large % small == 0) return;
  throw Error({.place = "--b",
               .key = "block",
               .problem = fmt::format("blocks of {} beside blocks of {}", length(b), length(a)),
               .remedy = "one length along K divides the other"});
}

void require_summable(SumOrder sum, const Operand& a, const Operand& b) {
  if (sum == SumOrder::chain) return;
  for (const Operand* cast : {&a, &b})
    if (!cast->factors_are_bf16())
      throw Error({.place = "--sum",
                   .key = {},
                   .problem = fmt::format("\"{}\" of {}, which BF16 does not hold", name_of(sum),
                                          describe(*cast)),
                   .remedy = "chain, or at most 8 significant bits with the scales of blocks"});
}

std::vector<float> product(const ProductJob& job) { return Factors(job).product(job.m(), job.n()); }

MeasuredProduct measure_product(const ProductJob& job, const ProductProgress& progress) {
  Factors factors(job);
  const Factor &a = factors.a, &b = factors.b;
  const Decoded a_values(job.threads, a.packed()), b_values(job.threads, b.packed());
  const int64_t m = job.m(), n = job.n();
  MeasuredProduct product;
  product.c = job.backend != nullptr ? product_on(*job.backend, job) : factors.product(m, n);

  const std::vector<float> b_rows = job.b_is_turned ? turned(job.b) : std::vector<float>();
  const Rows<const float> exact_b =
      job.b_is_turned ? Rows<const float>{b_rows.data(), n, job.k(), job.k()} : job.b;
  // Undoes what the operands still carry: the transform's factor and the prescales.
  const double factor = double{hadamard_alpha(job.hadamard.size)} /
                        (double{job.a_cast.prescale} * double{job.b_cast.prescale});
  const auto panels = static_cast<size_t>((m + kPanelRows - 1) / kPanelRows);
  std::vector<Sums> sums(panels);
  const auto workers = static_cast<int64_t>(std::max(job.threads.count, 1));
  for (int64_t begin = 0; begin < int64_t(panels); begin += workers) {
    parallel_for(job.threads, std::min(workers, int64_t(panels) - begin), [&](int64_t item, int) {
      const int64_t row = (begin + item) * kPanelRows, rows = std::min(kPanelRows, m - row);
      const auto count = static_cast<size_t>(rows * n);
      std::vector<double> exact(count), decoded(count);
      multiply_rows(job.a, exact_b, row, 1, exact.data());
      multiply_rows(a_values.view(), b_values.view(), row, factor, decoded.data());
      const std::span<const float> c(product.c.data() + row * n, count);
      Sums& own = sums[static_cast<size_t>(begin + item)];
      own.total.add(std::span<const double>(exact), c);
      own.quantization.add(std::span<const double>(exact), std::span<const double>(decoded));
      own.accumulation.add(std::span<const double>(decoded), c);
    });
    progress(std::min((begin + workers) * kPanelRows, m));
  }
  Sums whole;
  for (const Sums& part : sums) {
    whole.total.add(part.total);
    whole.quantization.add(part.quantization);
    whole.accumulation.add(part.accumulation);
  }
  product.total = whole.total.metrics();
  product.quantization = whole.quantization.metrics();
  product.accumulation = whole.accumulation.metrics();
  product.a_counts = a.counts();
  product.b_counts = b.counts();
  return product;
}

}  // namespace ng
