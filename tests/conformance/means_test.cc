// Operands of a source whose mean is taken off as it is read. [linear.md §8]
#include <array>
#include <limits>
#include <vector>

#include "operands.h"

namespace ng::conformance {
namespace {

std::vector<float> numbers_of(const Matrix& row) {
  std::vector<float> numbers;
  for (int64_t c = 0; c < row.cols(); ++c) numbers.push_back(row.at(0, c));
  return numbers;
}

Matrix without(Matrix values, const Matrix& mean) {
  for (int64_t r = 0; r < values.rows(); ++r)
    for (int64_t c = 0; c < values.cols(); ++c) values.at(r, c) -= mean.at(0, c);
  return values;
}

/// Taken off where a backend and an operand can have it, else before.
Results unpacked_without(const Place& with, const OperandSpec& spec, const Matrix& source,
                         const Matrix& mean) {
  const bool takes_off = with.backend.takes_off_means() && with.backend.operand_bytes(spec) > 0;
  if (!takes_off) {
    const Matrix rest = without(with.activation(source).values(), mean);
    return unpacked({with.backend, Storage::fp32}, spec, rest, drawing());
  }
  Buffer<float> row = with.buffer(numbers_of(mean));
  PrepareContext context = drawing();
  context.mean = row.data();
  return unpacked(with, spec, source, context);
}

void check_means(const Operand& cast, int hadamard, int64_t rows, int64_t k) {
  for (const Orientation& o : kOrientations)
    for (const Storage storage : kStorages) {
      OperandSpec spec = spec_of(cast, o, rows, k, hadamard, multiple_of(cast, cast, hadamard));
      spec.signed_zeros = true;  // of which storage depends
      const Matrix source = source_of(spec, 70);
      const Matrix mean = spread(1, source.cols(), 73);
      const Run taken_off = [&](const Place& with) {
        return unpacked_without(with, spec, source, mean);
      };
      conform(fmt::format("without means: {} hadamard {} {}x{}", describe(cast), hadamard, rows, k),
              storage, taken_off, exactly, kOperands);
      const Place by_definition{reference(), storage};
      const Matrix rest = without(by_definition.activation(source).values(), mean);
      compare(taken_off(by_definition),
              unpacked({reference(), Storage::fp32}, spec, rest, drawing()), exactly);
    }
}

// Whole vectors and groups, odd sizes, with and without a transform.
TEST(Conformance, OperandsWithoutMeans) {
  for (const std::string_view name : {"bf16", "fp8_e4m3", "int8", "mxfp4", "nvfp4"})
    for (const int hadamard : {0, 16, 64}) {
      Operand cast = operand_of(name);
      if (hadamard == 16) cast.rounding = Rounding::stochastic;
      check_means(cast, hadamard, 19, 150);
    }
  Operand int4 = operand_of("nvfp4");
  int4.element = &element_format("int4");
  for (const int hadamard : {0, 16, 32, 128}) check_means(int4, hadamard, 64, 384);
}

/// Both operands of a source, each without a mean of its own, and their largest magnitudes.
Results both_without(const Place& with, const std::array<OperandSpec, 2>& specs,
                     const Matrix& source, const std::array<Matrix, 2>& means) {
  const bool takes_off = with.backend.takes_off_means();
  const Tensor x = with.activation(source);
  std::array rows = {with.buffer(numbers_of(means[0])), with.buffer(numbers_of(means[1]))};
  const std::array rests = {with.fp32(without(x.values(), means[0])),
                            with.fp32(without(x.values(), means[1]))};
  std::array made = {reserve(with, specs[0]), reserve(with, specs[1])};
  Buffer<float> largest = with.buffer(std::vector<float>(2));
  PrepareBoth both{.made = {}, .source = x};
  for (size_t i = 0; i < made.size(); ++i) {
    both.made[i] = {&made[i].packed, drawing()};
    if (takes_off) both.made[i].context.mean = rows[i].data();
    const ConstView from = takes_off ? ConstView(x) : ConstView(rests[i]);
    with.execute(FindOperandAmax{.amax = largest.data() + i,
                                 .spec = specs[i],
                                 .source = from,
                                 .mean = both.made[i].context.mean});
    if (!takes_off) with.execute(Prepare{&made[i].packed, from, both.made[i].context});
  }
  if (takes_off) with.execute(both);
  return {{"first", unpack(with, made[0].packed).values},
          {"second", unpack(with, made[1].packed).values},
          {"largest", Matrix::row(largest.values())}};
}

TEST(Conformance, BothOperandsWithoutMeans) {
  Matrix source = spread(300, 600, 71, 3);
  const std::array means = {spread(1, 600, 73), spread(1, 600, 74)};
  const Operand cast = operand_of("nvfp4");
  std::array specs = {spec_of(cast, {Contract::cols, Side::left}, 300, 600, 16, 16),
                      spec_of(cast, {Contract::rows, Side::left}, 600, 300, 32, 32)};
  for (OperandSpec& spec : specs) spec.signed_zeros = true;
  for (const float poison : {0.0f, std::numeric_limits<float>::quiet_NaN()})
    for (const Storage storage : kStorages) {
      if (poison != 0) source.at(150, 300) = poison;
      conform(
          fmt::format("both without means, {}", poison), storage,
          [&](const Place& with) { return both_without(with, specs, source, means); }, exactly,
          kOperands);
    }
}

}  // namespace
}  // namespace ng::conformance
