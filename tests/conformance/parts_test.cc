// Tensors of which several ranks have parts: operands and updates of the parts have the codes and
// scales of the whole, where they are told the largest values of all.
#include "operands.h"
#include "stored_casts.h"
#include "support/stored_tensor.h"

namespace ng::conformance {
namespace {

Matrix part_of(const Matrix& whole, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  Matrix part(rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) part.at(r, c) = whole.at(row + r, col + c);
  return part;
}

bool has_same_bits(const Matrix& a, const Matrix& b) {
  for (int64_t r = 0; r < a.rows(); ++r)
    for (int64_t c = 0; c < a.cols(); ++c)
      if (float_bits(a.at(r, c)) != float_bits(b.at(r, c))) return false;
  return a.rows() == b.rows() && a.cols() == b.cols();
}

constexpr int64_t kPartsRows = 32, kK = 256, kParts = 2;

/// Halves of an operand along its reduction or its rows.
struct Halves {
  OperandSpec whole;
  bool along_k = false;
  [[nodiscard]] OperandSpec part() const {
    OperandSpec spec = whole;
    (along_k ? spec.k : spec.rows) /= kParts;
    return spec;
  }
  /// Whether the source's columns are divided.
  [[nodiscard]] bool divides_cols() const { return along_k == (whole.contract == Contract::cols); }
};

Results parts_as_the_whole(const Place& with, const Halves& halves) {
  const Matrix source = source_of(halves.whole, 70);
  const PrepareContext of_whole = drawing();
  const Tensor x = with.fp32(source);
  const Prepared whole = prepare(with, halves.whole, x, of_whole);
  const Matrix want = unpack(with, whole.packed).values;
  const OperandSpec spec = halves.part();
  const bool by_cols = halves.divides_cols();
  const int64_t rows = source.rows() / (by_cols ? 1 : kParts),
                cols = source.cols() / (by_cols ? kParts : 1);
  std::vector<Matrix> sources;
  float amax = 0;
  for (int64_t p = 0; p < kParts; ++p) {
    sources.push_back(part_of(source, by_cols ? 0 : p * rows, rows, by_cols ? p * cols : 0, cols));
    const Tensor part = with.fp32(sources.back());
    Buffer<float> own = with.buffer<float>({-1});
    with.execute(FindOperandAmax{.amax = own.data(), .spec = spec, .source = part});
    amax = std::max(amax, own.values()[0]);
  }
  Results results;
  for (int64_t p = 0; p < kParts; ++p) {
    const Tensor part = with.fp32(sources[static_cast<size_t>(p)]);
    Buffer<float> of_all = with.buffer<float>({amax});
    PrepareContext context = of_whole;
    context.amax = of_all.data();
    if (by_cols) {
      context.first_col = p * cols;
      context.whole_cols = source.cols();
    } else {
      context.first_row += p * rows;
    }
    const Prepared made = prepare(with, spec, part, context);
    const Matrix got = unpack(with, made.packed).values;
    EXPECT_TRUE(has_same_bits(got, part_of(want, halves.along_k ? 0 : p * spec.rows, spec.rows,
                                           halves.along_k ? p * spec.k : 0, spec.k)))
        << describe(spec.cast) << (halves.along_k ? " along k" : " rows") << " part " << p;
    results[fmt::format("part {}", p)] = got;
  }
  return results;
}

TEST(Parts, OperandsAreThoseOfTheWhole) {
  for (const std::string_view name : operand_names())
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic})
      for (const Orientation& o : kOrientations)
        for (const int hadamard : {0, 32})
          for (const bool along_k : {false, true}) {
            Operand cast = operand_of(name);
            cast.rounding = rounding;
            if (along_k && cast.block.kind == Block::Kind::row) continue;  // refused
            Halves halves{
                spec_of(cast, o, kPartsRows, kK, hadamard, multiple_of(cast, cast, hadamard)),
                along_k};
            halves.whole.signed_zeros = true;
            conform(
                fmt::format("{} hadamard {} along k {}", describe(cast), hadamard, along_k),
                Storage::fp32, [&](const Place& with) { return parts_as_the_whole(with, halves); },
                exactly, kOperands);
          }
}

/// The tensors of an update, and its steps.
class Weights {
 public:
  Weights(const Place& with, const std::vector<Operand>& casts, const Matrix& start,
          const float* amax)
      : control_(with.buffer<StepControl>({{.grad_scale = 0.7f, .skip = 0}})) {
    for (const Operand& cast : casts)
      tensors_.push_back(
          cast.element == nullptr
              ? nullptr
              : std::make_unique<StoredTensor>(with.backend, cast, start.rows(), start.cols()));
    const Tensor values = with.fp32(start);
    for (const size_t i : {0, 1})
      if (tensors_[i])
        with.execute(Store{.y = tensors_[i]->stored(), .x = values, .key = {}, .amax = amax});
  }

  [[nodiscard]] Update step(uint32_t number, const Tensor& grad) {
    Update op;
    op.weight.value = tensors_[0]->stored();
    if (tensors_[1]) op.weight.master = tensors_[1]->stored();
    op.moment1 = tensors_[2]->stored();
    op.moment2 = tensors_[3]->stored();
    op.grad = grad;
    op.numbers = {.lr = 2e-3f,
                  .beta1 = 0.9f,
                  .beta2 = 0.95f,
                  .eps = 1e-8f,
                  .weight_decay = 0.1f,
                  .correction1 = 1 - std::pow(0.9f, static_cast<float>(number + 1)),
                  .correction2 = 1 - std::pow(0.95f, static_cast<float>(number + 1))};
    op.control = control_.data();
    return op;
  }

  /// Codes of all tensors, row by row, and scales.
  [[nodiscard]] std::vector<std::vector<float>> codes() const {
    std::vector<std::vector<float>> all;
    for (const auto& tensor : tensors_) {
      if (!tensor) continue;
      all.emplace_back();
      if (tensor->stored().cast.element->bits > 16) {
        all.back() = tensor->floats();
        continue;
      }
      for (const uint16_t code : tensor->codes()) all.back().push_back(code);
    }
    return all;
  }
  [[nodiscard]] std::vector<std::vector<uint8_t>> scales() const {
    std::vector<std::vector<uint8_t>> all;
    for (const auto& tensor : tensors_)
      if (tensor) all.push_back(tensor->scale_bytes());
    return all;
  }

 private:
  std::vector<std::unique_ptr<StoredTensor>> tensors_;  // value, master, both moments
  Buffer<StepControl> control_;
};

Results updates_as_the_whole(const Place& with, const std::vector<Operand>& casts) {
  constexpr int64_t kSize = 40, kPartsCols = 256, kHalf = kSize / 2;
  const auto values = [&](uint64_t seed, float scale) {
    Matrix x = Matrix(kSize, kPartsCols).fill_uniform(seed, scale);
    for (int64_t c = 0; c < kPartsCols; ++c) x.at(3, c) *= 8;  // the largest lie in one half
    return x;
  };
  const auto half = [&](const Matrix& x, int64_t p) {
    return part_of(x, p * kHalf, kHalf, 0, kPartsCols);
  };
  const Matrix start = values(6, 0.5f);
  const Tensor all = with.fp32(start);
  Buffer<float> amax = with.buffer<float>({0});
  with.execute(FindAmax{.amax = amax.data(), .x = all});
  Weights whole(with, casts, start, nullptr), upper(with, casts, half(start, 0), amax.data()),
      lower(with, casts, half(start, 1), amax.data());
  for (uint32_t number = 0; number < 3; ++number) {
    const Matrix grad = values(7 + number, 1e-2f);
    const Tensor of_whole = with.fp32(grad), of_upper = with.fp32(half(grad, 0)),
                 of_lower = with.fp32(half(grad, 1));
    with.execute(whole.step(number, of_whole));
    Update parts[] = {upper.step(number, of_upper), lower.step(number, of_lower)};
    UpdateMaxima largest;
    for (const Update& part : parts) {
      Buffer<UpdateMaxima> own = with.buffer<UpdateMaxima>({{-1, -1, -1}});
      with.execute(FindUpdateMaxima{.update = part, .maxima = own.data()});
      const UpdateMaxima found = own.values()[0];
      largest = {.weight = std::max(largest.weight, found.weight),
                 .moment1 = std::max(largest.moment1, found.moment1),
                 .moment2 = std::max(largest.moment2, found.moment2)};
    }
    Buffer<UpdateMaxima> of_all = with.buffer<UpdateMaxima>({largest});
    for (Update& part : parts) {
      part.maxima = of_all.data();
      with.execute(part);
    }
  }
  const auto want = whole.codes(), first = upper.codes(), second = lower.codes();
  Results results;
  for (size_t i = 0; i < want.size(); ++i) {
    std::vector<float> got = first[i];
    got.insert(got.end(), second[i].begin(), second[i].end());
    EXPECT_EQ(got, want[i]) << "tensor " << i;
    results[fmt::format("tensor {}", i)] = Matrix::row(got);
  }
  EXPECT_EQ(upper.scales(), whole.scales());
  EXPECT_EQ(lower.scales(), whole.scales());
  return results;
}

TEST(Parts, UpdatesAreThoseOfTheWhole) {
  const Operand none{}, e4m3 = scaled_by_power("fp8_e4m3"), fp16 = scaled_by_power("fp16"),
                        fp32 = cast_of("fp32");
  const std::vector<Operand> cases[] = {{e4m3, fp16, e4m3, fp16},
                                        {e4m3, fp32, fp32, fp32},
                                        {e4m3, none, fp32, fp32},
                                        {fp32, none, cast_of("fp8_e4m3"), fp16},
                                        {cast_of("bf16"), fp16, fp32, fp16}};
  for (const std::vector<Operand>& casts : cases)
    conform(describe(casts[0]),
            [&](const Place& with) { return updates_as_the_whole(with, casts); });
}

}  // namespace
}  // namespace ng::conformance
