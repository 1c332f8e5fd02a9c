#include "train/operand_error.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/hadamard.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

/// A random matrix as an operand on a backend.
struct Cast {
  /// `is_centered`: column c lacks c / 64, as a mean.
  Cast(Run& run, const OperandSpec& spec, bool is_centered = false)
      : values(static_cast<size_t>(spec.rows * spec.k)) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = static_cast<double>(draw({.seed = 3}, i)[0]) / 0x1p32 - 0.5;
      values[i] = static_cast<float>(x * std::exp(6 * x));
    }
    const bool turned = spec.contract == Contract::rows;
    const int64_t rows = turned ? spec.k : spec.rows, cols = turned ? spec.rows : spec.k;
    source = {values.data(), rows, cols, cols};
    mean.resize(static_cast<size_t>(cols));
    for (size_t c = 0; is_centered && c < mean.size(); ++c) mean[c] = static_cast<float>(c) / 64;
    packed.spec = spec;
    packed.bytes = run.operand_bytes(spec);
    storage.resize(packed.bytes / sizeof(double) + 8);
    const auto at = reinterpret_cast<uintptr_t>(storage.data());
    packed.storage = reinterpret_cast<std::byte*>((at + 63) / 64 * 64);
    PrepareContext context;
    context.key = {.seed = 1};
    if (is_centered) context.mean = mean.data();
    run.execute(Prepare{&packed, source, context});
    origin.values = source;
    if (is_centered) origin.mean = Rows<const float>{mean.data(), 1, cols, cols};
  }

  std::vector<float> values, mean;  ///< of a column; 0: it lacks nothing
  std::vector<double> storage;
  Rows<const float> source;
  OperandOrigin origin;
  PackedOperand packed;
};

// From all values, transformed back: the other way round than OperandErrors, which transforms.
double sqnr_by_definition(Run& run, const Cast& cast) {
  const OperandSpec& spec = cast.packed.spec;
  std::vector<float> q(static_cast<size_t>(spec.rows * spec.k_padded()));
  run.execute(Unpack{.packed = &cast.packed,
                     .values = {q.data(), spec.rows, spec.k_padded(), spec.k_padded()}});
  const int g = spec.hadamard.size;
  double errors = 0, squares = 0;
  for (int64_t r = 0; r < spec.rows; ++r) {
    float* row = q.data() + r * spec.k_padded();
    constexpr uint32_t kNoSigns[4] = {};
    for (int64_t k = 0; g > 0 && k < spec.k_padded(); k += g) {
      hadamard_transform(row + k, g, kNoSigns);
      for (int j = 0; j < g; ++j) {
        const bool negative = ((spec.hadamard.signs[size_t(j) / 32] >> (j % 32)) & 1) != 0;
        row[k + j] *= hadamard_alpha(g) * (negative ? -1.0f : 1.0f);
      }
    }
    for (int64_t k = 0; k < spec.k; ++k) {
      const bool is_turned = spec.contract == Contract::rows;
      const float x = (is_turned ? cast.source.row(k)[r] : cast.source.row(r)[k]) -
                      cast.mean[static_cast<size_t>(is_turned ? r : k)];
      const double e = row[k] / spec.cast.prescale - x;
      errors += e * e;
      squares += static_cast<double>(x) * x;
    }
  }
  return -10 * std::log10(errors / squares);
}

OperandSpec spec(const char* format, Contract contract, int64_t rows, int64_t k) {
  return {.cast = operand_of(format),
          .contract = contract,
          .rows = rows,
          .k = k,
          .k_multiple = 64,
          .hadamard = {}};
}

TEST(OperandErrors, AreThoseOfTheDefinition) {
  for (const char* backend : {"ref", "cpu"}) {
    ng::Run run(make_backend(backend, {1}), 7);
    for (const char* format : {"mxfp4", "nvfp4", "fp8_e4m3", "int8"})
      for (const Contract contract : {Contract::cols, Contract::rows})
        for (const auto& [hadamard, is_centered] :
             {std::pair(0, false), {64, false}, {0, true}, {64, true}}) {
          SCOPED_TRACE(
              fmt::format("{} {} {} {} {}", backend, format, int(contract), hadamard, is_centered));
          OperandSpec form = spec(format, contract, 32, 192);
          form.hadamard = {.size = hadamard, .signs = {0x12345678u, 0x9ABCDEF0u, 0, 0}};
          form.cast.prescale = std::string_view(format) == "mxfp4" ? 0.75f : 1.0f;
          const Cast cast(run, form, is_centered);
          OperandErrors errors(run);
          errors.operand(cast.packed, cast.origin, "layer", "role");
          const double want = sqnr_by_definition(run, cast);
          EXPECT_GT(want, 5);
          EXPECT_NEAR(errors.sqnr_db("layer", "role"), want, 0.01);
        }
  }
}

TEST(OperandErrors, OfLargeOperandsAreEstimates) {
  ng::Run run(make_backend("cpu", {1}), 7);
  for (const Contract contract : {Contract::cols, Contract::rows}) {
    const Cast cast(run, spec("mxfp4", contract, 200, 4096));
    OperandErrors errors(run);
    errors.operand(cast.packed, cast.origin, "layer", "role");
    EXPECT_NEAR(errors.sqnr_db("layer", "role"), sqnr_by_definition(run, cast), 0.5);
  }
}

TEST(OperandErrors, KeepTheFirstOfEachLayerAndRole) {
  ng::Run run(make_backend("cpu", {1}), 7);
  const Cast first(run, spec("mxfp4", Contract::cols, 8, 64));
  const Cast second(run, spec("fp8_e4m3", Contract::cols, 8, 64));
  OperandErrors errors(run);
  errors.operand(first.packed, first.origin, "layer", "role");
  const double want = errors.sqnr_db("layer", "role");
  errors.operand(second.packed, second.origin, "layer", "role");
  errors.operand(second.packed, second.origin, "layer", "other");
  EXPECT_EQ(errors.sqnr_db("layer", "role"), want);
  EXPECT_GT(errors.sqnr_db("layer", "other"), want);
  EXPECT_TRUE(std::isnan(errors.sqnr_db("head", "role")));
  errors.forget();
  EXPECT_TRUE(std::isnan(errors.sqnr_db("layer", "role")));
}

TEST(OperandErrors, OfAStepNameEveryOperandThatCanLoseValues) {
  TinyRunOptions options;
  options.recipe =
      "name = \"n\"\nlinear.dgrad = { grad=\"mxfp4\", weight=\"mxfp4\" }\n"
      "linear.fprop = { input=\"bf16\", weight=\"bf16\" }\n";
  TinyRun tiny(options);
  const OperandErrors& errors = tiny.trainer().operand_errors();
  tiny.step(0);
  EXPECT_TRUE(std::isnan(errors.sqnr_db("blocks.0.mlp.up", "dgrad.grad"))) << "nobody looks";
  tiny.trainer().set_reports_details(true);
  tiny.step(1);
  for (const char* layer : {"blocks.0.attn.q", "blocks.0.attn.k", "blocks.1.mlp.down"}) {
    EXPECT_GT(errors.sqnr_db(layer, "dgrad.grad"), 5) << layer;
    EXPECT_GT(errors.sqnr_db(layer, "dgrad.weight"), 5) << layer;
    EXPECT_TRUE(std::isnan(errors.sqnr_db(layer, "fprop.input"))) << layer;
    EXPECT_TRUE(std::isnan(errors.sqnr_db(layer, "wgrad.grad"))) << layer;
  }
}

}  // namespace
}  // namespace ng
