// Products of narrow numbers, and how far numbers are from what they stand for.
#include <nanobind/stl/variant.h>
#include <narrowgauge/dot.h>

#include <cmath>
#include <variant>

#include "base/error.h"
#include "library/access.h"
#include "numbers/errors.h"
#include "numbers/measured_product.h"
#include "quantized.h"
#include "recipe/cast_words.h"

namespace ng::python {
namespace {

Values multiply(const Quantized& a, const Quantized& b, int64_t threads) {
  const int workers = threads_of(threads).count;
  std::vector<float> y;
  {
    const Unlocked unlocked;
    y = narrowgauge::multiply(a.as_public(), b.as_public(), workers);
  }
  const auto rows = [](const Quantized& q) {
    return q.matrix.along == Contract::cols ? q.rows() : q.cols();
  };
  return array_of(std::move(y), {rows(a), rows(b)});
}

}  // namespace

Operand factor_of(const char* key, const Factor& format, const std::string& rounding) {
  const auto* words = std::get_if<std::string>(&format);
  Operand cast = words != nullptr ? factor_cast(key, *words)
                                  : operand_of(std::get<narrowgauge::Format>(format));
  if (rounding.empty()) return cast;
  require_word("rounding", rounding, {"nearest", "stochastic"});
  if (cast.element->bits < 32)
    cast.rounding = rounding == "stochastic" ? Rounding::stochastic : Rounding::nearest;
  return cast;
}

void set_sum(ProductJob& job, const std::string& word) {
  require_word("sum", word, {name_of(SumOrder::chain), name_of(SumOrder::tile32)});
  if (word == name_of(SumOrder::tile32)) job.sum = SumOrder::tile32;
  as_call([&] { require_summable(job.sum, job.a_cast, job.b_cast); });
}

void require_product_shapes(const ProductJob& job) {
  const int64_t k = job.b_is_turned ? job.b.rows : job.b.cols;
  const auto refuse = [](const char* key, const std::string& problem, const std::string& remedy) {
    throw Error({.place = "", .key = key, .problem = problem, .remedy = remedy});
  };
  if (job.k() == k && job.k() > 0 && job.m() > 0 && job.n() > 0) return;
  refuse(
      "b", fmt::format("({}, {}) beside ({}, {})", job.b.rows, job.b.cols, job.a.rows, job.a.cols),
      job.b_is_turned ? "(K, N) beside (M, K), none of them 0"
                      : "(N, K) beside (M, K), none of them 0, or transpose_b where b is (K, N)");
}

namespace {

/// What matmul is told of its factors.
struct Words {
  Factor a_format, b_format;
  std::string rounding;
  bool transpose_b = false;
  int hadamard = 0;
  std::string sum;
};

Values product(const FloatMatrix& a, const FloatMatrix& b, const Words& words, uint64_t seed,
               int64_t threads) {
  ProductJob job;
  job.a = rows_of(a);
  job.b = rows_of(b);
  job.b_is_turned = words.transpose_b;
  job.a_cast = factor_of("a_format", words.a_format, words.rounding);
  job.b_cast = factor_of("b_format", words.b_format, words.rounding);
  job.hadamard = hadamard_of(job.a_cast, words.hadamard);
  job.seed = seed;
  job.threads = threads_of(threads);
  require_product_shapes(job);
  set_sum(job, words.sum);
  as_call([&] { require_fitting_blocks(job.a_cast, job.b_cast); });
  std::vector<float> c;
  {
    const Unlocked unlocked;
    c = ng::product(job);
  }
  return array_of(std::move(c), {static_cast<size_t>(job.m()), static_cast<size_t>(job.n())});
}

nb::tuple error_metrics(const FloatMatrix& x, const FloatMatrix& q, int64_t threads) {
  const Rows<const float> source = rows_of(x), rounded = rows_of(q);
  const Threads workers = threads_of(threads);
  ErrorMetrics e;
  {
    const Unlocked unlocked;
    e = error_sums(source, rounded, workers).metrics();
  }
  return nb::make_tuple(e.values, e.mse, e.relative_mse, e.sqnr_db, e.max_abs, e.max_relative,
                        e.underflow, e.bias);
}

}  // namespace

void add_products(nb::module_& module) {
  module.def("multiply", multiply, "a"_a, "b"_a, "threads"_a);
  module.def(
      "product",
      [](const FloatMatrix& a, const FloatMatrix& b, const Factor& a_format, const Factor& b_format,
         const std::string& rounding, bool transpose_b, int hadamard, const std::string& sum,
         uint64_t seed, int64_t threads) {
        return product(a, b, {a_format, b_format, rounding, transpose_b, hadamard, sum}, seed,
                       threads);
      },
      "a"_a.noconvert(), "b"_a.noconvert(), "a_format"_a, "b_format"_a, "rounding"_a,
      "transpose_b"_a, "hadamard"_a, "sum"_a, "seed"_a, "threads"_a);
  module.def("error_metrics", error_metrics, "x"_a.noconvert(), "q"_a.noconvert(), "threads"_a);
}

}  // namespace ng::python
