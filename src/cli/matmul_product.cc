#include "cli/matmul_product.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "format/hadamard.h"

namespace ng::cli {
namespace {

constexpr size_t kLanes = 8;
constexpr int64_t kPanelRows = 64;
constexpr int64_t kPanelCols = 64;

int64_t block_along_k(const Operand& cast) {
  return cast.block.kind == Block::Kind::tile && !cast.is_unscaled() ? cast.block.cols : 1;
}

/// An operand, its memory, and the values it stands for.
class Factor {
 public:
  Factor(Backend& backend, const OperandSpec& spec, ConstView source, const RandomKey& key)
      : backend_(backend), values_(static_cast<size_t>(spec.rows * spec.k_padded())) {
    packed_.spec = spec;
    packed_.source = source;
    packed_.bytes = backend.operand_bytes(spec);
    if (packed_.bytes > 0) packed_.storage = backend.allocate(packed_.bytes);
    PrepareContext context;
    context.key = key;
    context.stats = &counts_;
    backend.prepare(packed_, source, context);
    backend.unpack(packed_, {values_.data(), spec.rows, spec.k_padded(), spec.k_padded()}, nullptr);
  }
  ~Factor() {
    if (packed_.bytes > 0) backend_.release(packed_.storage, packed_.bytes);
  }
  Factor(const Factor&) = delete;
  Factor& operator=(const Factor&) = delete;

  [[nodiscard]] const PackedOperand& packed() const { return packed_; }
  [[nodiscard]] const OperandStats& counts() const { return counts_; }
  [[nodiscard]] ConstView values() const {
    const int64_t k = packed_.spec.k_padded();
    return {values_.data(), packed_.spec.rows, k, k};
  }

 private:
  Backend& backend_;
  PackedOperand packed_;
  std::vector<float> values_;
  OperandStats counts_;
};

OperandSpec spec_of(const ProductJob& job, Side side) {
  const bool is_a = side == Side::left;
  OperandSpec spec;
  spec.cast = is_a ? job.a_cast : job.b_cast;
  spec.contract = !is_a && job.b_is_turned ? Contract::rows : Contract::cols;
  spec.side = side;
  spec.rows = is_a ? job.m() : job.n();
  spec.k = job.k();
  spec.k_multiple = std::lcm(std::lcm(block_along_k(job.a_cast), block_along_k(job.b_cast)),
                             int64_t{std::max(job.hadamard.size, 1)});
  spec.hadamard = job.hadamard;
  return spec;
}

double dot(const float* a, const float* b, int64_t k) {
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + int64_t{kLanes} <= k; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += double{a[i + int64_t(lane)]} * double{b[i + int64_t(lane)]};
  for (size_t lane = 0; i < k; ++i, ++lane) sums[lane] += double{a[i]} * double{b[i]};
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// Rows [row, row + rows) of x · yᵀ · factor, in FP64.
void multiply_rows(ConstView x, ConstView y, int64_t row, double factor, double* out) {
  for (int64_t first = 0; first < y.rows; first += kPanelCols)
    for (int64_t r = row; r < std::min(row + kPanelRows, x.rows); ++r)
      for (int64_t c = first; c < std::min(first + kPanelCols, y.rows); ++c)
        out[(r - row) * y.rows + c] = dot(x.row(r), y.row(c), x.cols) * factor;
}

std::vector<float> turned(ConstView x) {
  std::vector<float> out(static_cast<size_t>(x.size()));
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) out[static_cast<size_t>(c * x.rows + r)] = x.row(r)[c];
  return out;
}

struct Sums {
  ErrorSums total, quantization, accumulation;
};

}  // namespace

Product multiply(const ProductJob& job, const ProductProgress& progress) {
  const auto backend = make_cpu_backend(job.threads);
  const RandomKey key{.seed = job.seed, .tensor = 0, .step = 0, .purpose = Purpose::fprop_input};
  const RandomKey other{.seed = job.seed, .tensor = 1, .step = 0, .purpose = Purpose::fprop_weight};
  const Factor a(*backend, spec_of(job, Side::left), job.a, key);
  const Factor b(*backend, spec_of(job, Side::right), job.b, other);
  const int64_t m = job.m(), n = job.n();
  Product product;
  product.c.resize(static_cast<size_t>(m * n));
  backend->gemm({.y = {product.c.data(), m, n, n}}, a.packed(), b.packed());

  const std::vector<float> b_rows = job.b_is_turned ? turned(job.b) : std::vector<float>();
  const ConstView exact_b = job.b_is_turned ? ConstView{b_rows.data(), n, job.k(), job.k()} : job.b;
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
      multiply_rows(a.values(), b.values(), row, factor, decoded.data());
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

}  // namespace ng::cli
