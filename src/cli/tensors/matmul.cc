// narrowgauge matmul A B: a product of two tensors in narrow numbers, and how wrong it is.
#include <cmath>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "cli/tensors/tensor_text.h"
#include "format/hadamard.h"
#include "io/named_tensors.h"
#include "io/tensor_files.h"
#include "numbers/measured_product.h"
#include "recipe/cast_words.h"

namespace ng::cli {
namespace {

struct MatmulArgs {
  std::string a, b, out;
  std::string a_format = "fp32", b_format = "fp32", rounding, sum = "chain";
  int64_t hadamard = 0;
  MachineFlags machine;
  uint64_t seed = 1;
  bool transpose_b = false, json = false;
};

/// A tensor as a matrix: all but the last dimension count as rows.
struct Matrix {
  std::string file, name;
  std::vector<float> values;
  int64_t rows = 0, cols = 0;

  [[nodiscard]] Rows<const float> view() const { return {values.data(), rows, cols, cols}; }
};

// "PLACE:tensor", a file, a model, a run.
Matrix matrix_of(const std::string& word) {
  const std::optional<io::TensorWord> parted = io::parted_word(word);
  if (!parted)
    refuse(word, "names no tensor of a file", "FILE.safetensors:NAME, of a file that exists");
  Matrix matrix{parted->place, parted->name, {}, 0, 0};
  const io::SafetensorsEntry entry = io::NamedTensors(matrix.file).at(matrix.name);
  const auto refuse = [&](const std::string& problem, const char* remedy) {
    throw Error({.place = matrix.file, .key = matrix.name, .problem = problem, .remedy = remedy});
  };
  if (!io::is_float(entry)) refuse("dtype " + entry.dtype, "a tensor of floating-point values");
  if (entry.shape.empty()) refuse("has no dimensions", "a matrix");
  if (entry.elements() == 0) refuse("has no values", "a matrix that has some");
  matrix.cols = entry.shape.back();
  matrix.rows = entry.elements() / matrix.cols;
  matrix.values = io::to_floats(entry);
  return matrix;
}

Operand operand_at(const std::string& flag, const std::string& text, const std::string& rounding) {
  Operand operand = factor_cast(flag, text);
  if (rounding == "stochastic" && operand.element->bits < 32)
    operand.rounding = Rounding::stochastic;
  if (rounding == "nearest") operand.rounding = Rounding::nearest;
  return operand;
}

void check_shapes(const MatmulArgs& args, const Matrix& a, const Matrix& b) {
  const int64_t k = args.transpose_b ? b.rows : b.cols;
  if (a.cols == k) return;
  const char* way = args.transpose_b ? "" : " (or --transpose-b, if B is (K, N))";
  throw Error({.place = b.file,
               .key = b.name,
               .problem = fmt::format("is ({}, {}){} beside ({}, {})", b.rows, b.cols,
                                      args.transpose_b ? ", transposed," : "", a.rows, a.cols),
               .remedy = fmt::format("K = {} in both{}", a.cols, way)});
}

bool is_product(const std::string& path) {
  try {
    const io::Safetensors file(path);
    const std::vector<io::SafetensorsEntry>& entries = file.entries();
    return entries.size() == 1 && entries[0].name == "C" && entries[0].dtype == "F32";
  } catch (const Error&) {
    return false;
  }
}

void check_out(const std::string& out, const Matrix& a, const Matrix& b) {
  refuse_input(out, a.file, "--out");
  refuse_input(out, b.file, "--out");
  require_target(out, "a product", is_product);
}

// Of a product without a finite value nothing is known.
double max_abs_of(const ErrorMetrics& errors) {
  return errors.values == 0 ? std::nan("") : errors.max_abs;
}

Json errors_json(const ErrorMetrics& errors) {
  return {{"relative_error", json_number(std::sqrt(errors.relative_mse))},
          {"sqnr_db", json_number(errors.sqnr_db)},
          {"max_abs", json_number(max_abs_of(errors))}};
}

Json operand_json(const Matrix& matrix, const Operand& cast, const OperandStats& counts) {
  return {{"file", matrix.file},
          {"tensor", matrix.name},
          {"shape", {matrix.rows, matrix.cols}},
          {"format", describe(cast)},
          {"bits_per_value", bits_per_value(cast)},
          {"saturated", counts.saturated},
          {"flushed", counts.flushed},
          {"nan", counts.nan},
          {"inf", counts.inf}};
}

void print_text(const ProductJob& job, const MeasuredProduct& product) {
  print("C ({}, {}) = A·Bᵀ over K = {}\n  A  {}\n  B  {}\n", job.m(), job.n(), job.k(),
        describe(job.a_cast), describe(job.b_cast));
  if (job.sum != SumOrder::chain) print("  sums as {}\n", name_of(job.sum));
  if (job.hadamard.size > 0) print("  Hadamard transform of {} values\n", job.hadamard.size);
  Table table({"error of", "relative", "SQNR dB", "max abs", "against"}, 1);
  const auto row = [&](const char* name, const ErrorMetrics& errors, const char* against) {
    table.row({name, fmt::format("{:.3g}", std::sqrt(errors.relative_mse)),
               decibel_text(errors.sqnr_db), fmt::format("{:.3g}", max_abs_of(errors)), against});
  };
  row("quantization", product.quantization, "FP64 product of A and B");
  row("accumulation", product.accumulation, "FP64 product of the rounded A and B");
  row("both", product.total, "FP64 product of A and B");
  print("{}", table.text());
  const auto outputs = static_cast<uint64_t>(job.m() * job.n());
  if (product.total.values < outputs)
    note(fmt::format("{} of {} outputs are not finite in FP64: errors are those of the others",
                     outputs - product.total.values, outputs));
}

void note_counts(const char* name, const OperandStats& counts) {
  if (counts.nan + counts.inf > 0)
    note(fmt::format("{}: {} NaN and {} infinite values", name, counts.nan, counts.inf));
}

void matmul(const MatmulArgs& args) {
  ProductJob job;
  job.a_cast = operand_at("--a", args.a_format, args.rounding);
  job.b_cast = operand_at("--b", args.b_format, args.rounding);
  require_fitting_blocks(job.a_cast, job.b_cast);
  if (args.sum == name_of(SumOrder::tile32)) job.sum = SumOrder::tile32;
  require_summable(job.sum, job.a_cast, job.b_cast);
  const Matrix a = matrix_of(args.a), b = matrix_of(args.b);
  check_shapes(args, a, b);
  if (!args.out.empty()) check_out(args.out, a, b);
  job.a = a.view();
  job.b = b.view();
  job.b_is_turned = args.transpose_b;
  if (args.hadamard > 0)
    job.hadamard = {.size = static_cast<int>(args.hadamard), .signs = fixed_signs()};
  job.seed = args.seed;
  job.threads = args.machine.use();
  const std::unique_ptr<Backend> backend = args.machine.other_than_cpu();
  job.backend = backend.get();
  MeasuredProduct product;
  {
    ProgressLine line("rows");
    product = measure_product(job, [&](int64_t rows) { line.show(rows, job.m()); });
  }
  if (!args.out.empty())
    io::write_safetensors(args.out, {{"C", "F32", {job.m(), job.n()}, product.c.data()}});
  note_counts("A", product.a_counts);
  note_counts("B", product.b_counts);
  if (args.json)
    print_json({{"m", job.m()},
                {"n", job.n()},
                {"k", job.k()},
                {"hadamard", job.hadamard.size},
                {"sum", name_of(job.sum)},
                {"finite_outputs", product.total.values},
                {"a", operand_json(a, job.a_cast, product.a_counts)},
                {"b", operand_json(b, job.b_cast, product.b_counts)},
                {"quantization", errors_json(product.quantization)},
                {"accumulation", errors_json(product.accumulation)},
                {"total", errors_json(product.total)}});
  else
    print_text(job, product);
}

void declare_matmul(Flags flags, MatmulArgs& args) {
  flags.option("A", args.a, "PLACE:NAME of a tensor (M, K), of a file, model or run").required();
  flags.option("B", args.b, "PLACE:NAME of a tensor (N, K)").required();
  flags.setting("--a F", args.a_format,
                "format of A: a name as for cast, or {key = value, ...} as in recipes");
  flags.setting("--b F", args.b_format, "format of B");
  flags.flag("--transpose-b", args.transpose_b, "B is (K, N)");
  flags.option("--hadamard G", args.hadamard, "transform blocks of 16, 32, 64 or 128 along K")
      .one_of({0, 16, 32, 64, 128});
  flags.option("--rounding", args.rounding, "of both: nearest or stochastic")
      .one_of({"nearest", "stochastic"});
  flags.option("--sum", args.sum, "order of its sums, as the recipes' key: chain or tile32")
      .one_of({"chain", "tile32"});
  add_seed(flags, args.seed, "of stochastic rounding");
  flags.option("--out FILE", args.out, "safetensors file for C");
  args.machine.declare(flags);
  flags.flag("--json", args.json, "as JSON");
  flags.footer(
      "C = A·Bᵀ with both rounded as asked, by the backend's accumulation rules. Three "
      "errors:\nof the rounding (the exact product of the rounded numbers against that of A and "
      "B), of the\naccumulation (C against the exact product of the rounded numbers), of both. "
      "Relative: the norm\nof the difference over the norm of the product.");
}

}  // namespace

const Command kMatmul{"matmul", "a product in narrow numbers, and its errors",
                      with_flags<MatmulArgs, declare_matmul, matmul>};

}  // namespace ng::cli
