// Elementwise operations, reductions, embedding, draws and the optimizer: `ref` fixes their bits.
#include <limits>

#include "conformance.h"

namespace ng::conformance {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void poison(Matrix& x) {
  const float bad[] = {kNan, kInf, -kInf, -0.0f, 1e-45f, 3e38f};
  for (size_t i = 0; i < std::size(bad); ++i) {
    const int64_t at = static_cast<int64_t>(i * 7919) % (x.rows() * x.cols());
    x.at(at / x.cols(), at % x.cols()) = bad[i];
  }
}

TEST(Conformance, FillAndCopy) {
  for (const Shape& s : kShapes)
    conform("fill, copy " + s.text(), [&](Backend& b) {
      Matrix x = s.matrix().fill_uniform(1);
      poison(x);
      Matrix filled = s.matrix();
      Matrix copied = s.matrix();
      b.fill(filled.view(), 0.3f);
      b.copy(copied.view(), x.view());
      return Results{{"filled", filled}, {"copied", copied}};
    });
}

TEST(Conformance, Add) {
  for (const Shape& s : kShapes)
    for (const Compute compute : kComputes)
      conform("add " + s.text() + " " + name_of(compute), [&](Backend& b) {
        Matrix x = s.matrix().fill_uniform(2);
        const Matrix y = s.matrix().fill_uniform(3);
        poison(x);
        Matrix sum = s.matrix();
        b.add(sum.view(), x.view(), y.view(), compute);
        Matrix in_place = y;
        b.add(in_place.view(), x.view(), in_place.view(), compute);
        return Results{{"sum", sum}, {"in place", in_place}};
      });
}

// The FP64 tree is part of the definition: the two halves of the sum's bits are compared exactly.
Matrix bits_of(double value) {
  Matrix halves(1, 2);
  const auto bits = std::bit_cast<uint64_t>(value);
  halves.at(0, 0) = static_cast<float>(bits >> 40);
  halves.at(0, 1) =
      static_cast<float>((bits >> 20) & 0xFFFFF) + static_cast<float>(bits & 0xFFFFF) * 0x1p-20f;
  return halves;
}

TEST(Conformance, Sums) {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.push_back({5, 4096, 0, 0});
  shapes.push_back({97, 641, 5, 1});  // 16 chunks, the last one short, borders inside rows
  for (const Shape& s : shapes)
    conform("sums " + s.text(), [&](Backend& b) {
      const Matrix x = s.matrix().fill_uniform(4);
      double sum = 0.125;
      double squares = 3;
      b.add_sum(&sum, x.view());
      b.add_sum_of_squares(&squares, x.view());
      return Results{{"sum", bits_of(sum)}, {"squares", bits_of(squares)}};
    });
}

TEST(Conformance, CountsOfNonfinite) {
  for (const Shape& s : kShapes)
    conform("add_nonfinite " + s.text(), [&](Backend& b) {
      Matrix x = s.matrix().fill_uniform(5);
      uint64_t clean = 7;
      b.add_nonfinite(&clean, x.view());
      poison(x);
      uint64_t poisoned = 0;
      b.add_nonfinite(&poisoned, x.view());
      Matrix counts(1, 2);
      counts.at(0, 0) = static_cast<float>(clean);
      counts.at(0, 1) = static_cast<float>(poisoned);
      return Results{{"counts", counts}};
    });
}

// |error| <= (rows + 2) · 2^-24 · Σ|x| for any order of FP32 additions.
TEST(Conformance, ColumnSums) {
  for (const Shape& s :
       {Shape{1, 1, 0, 0}, Shape{37, 19, 2, 1}, Shape{300, 130, 0, 0}, Shape{2, 2049, 7, 3}}) {
    const Matrix x = s.matrix().fill_uniform(6);
    const auto run = [&](Backend& b) {
      Matrix sums = Matrix(1, s.cols).fill_uniform(7);
      b.add_column_sums(sums.data(), x.view());
      return Results{{"sums", sums}};
    };
    conform("add_column_sums " + s.text(), run, [&](const std::string&, int64_t, int64_t c) {
      double magnitude = 1;
      for (int64_t r = 0; r < s.rows; ++r) magnitude += std::abs(x.at(r, c));
      return static_cast<double>(s.rows + 2) * kUnit * magnitude;
    });
  }
}

TEST(Conformance, Normal) {
  const RandomKey key{.seed = 42, .tensor = 3, .purpose = Purpose::init};
  for (const Shape& s : kShapes)
    conform("fill_normal " + s.text(), [&](Backend& b) {
      Matrix x = s.matrix();
      b.fill_normal(x.view(), 0.02f, key);
      return Results{{"x", x}};
    });
}

TEST(Conformance, Embedding) {
  for (const int64_t cols : {1, 17, 64, 130})
    for (const Compute compute : kComputes)
      for (const bool with_positions : {false, true})
        conform(fmt::format("embed {} {}", cols, name_of(compute)), [&](Backend& b) {
          const std::vector<int32_t> ids{4, 0, 4, 4, 2, 1, 0, 4, 4};
          const Positions at{.sequences = 3, .length = 3, .first = 2};
          const Matrix tokens = Matrix(5, cols, 3, 1).fill_uniform(8);
          const Matrix positions = Matrix(with_positions ? 6 : 0, cols).fill_uniform(9);
          Matrix y(9, cols, 1);
          b.embed(y.view(), ids, tokens.view(), positions.view(), at, compute);
          const Matrix dy = Matrix(9, cols, 2).fill_uniform(10);
          Matrix dtokens = Matrix(5, cols, 3, 1).fill_uniform(11);
          Matrix dpositions = Matrix(with_positions ? 6 : 0, cols).fill_uniform(12);
          b.embed_backward(dtokens.view(), dpositions.view(), dy.view(), ids, at);
          return Results{{"y", y}, {"dtokens", dtokens}, {"dpositions", dpositions}};
        });
}

Results adamw_steps(Backend& b, const Shape& s, const StepControl& control) {
  Matrix weight = s.matrix().fill_uniform(13);
  Matrix m = s.matrix().fill(0);
  Matrix v = s.matrix().fill(0);
  for (int step = 1; step <= 3; ++step) {
    const Matrix grad = s.matrix().fill_uniform(static_cast<uint64_t>(13 + step), 1e-3f);
    b.adamw({.weight = weight.view(),
             .m = m.view(),
             .v = v.view(),
             .grad = grad.view(),
             .lr = 1e-3f,
             .beta1 = 0.9f,
             .beta2 = 0.95f,
             .eps = 1e-8f,
             .weight_decay = s.rows > 1 ? 0.1f : 0.0f,
             .correction1 = 1 - std::pow(0.9f, static_cast<float>(step)),
             .correction2 = 1 - std::pow(0.95f, static_cast<float>(step)),
             .control = &control});
  }
  return {{"weight", weight}, {"m", m}, {"v", v}};
}

TEST(Conformance, AdamW) {
  for (const Shape& s : kShapes)
    for (const float grad_scale : {1.0f, 0.37f})
      conform("adamw " + s.text(),
              [&](Backend& b) { return adamw_steps(b, s, {.grad_scale = grad_scale, .skip = 0}); });
}

TEST(Conformance, AdamWSkipsTheStep) {
  for (const Target& target : targets()) {
    const Results after = adamw_steps(backend_of(target), kShapes[5], {.skip = 1});
    EXPECT_TRUE(
        same_bits(after.at("weight").at(6, 128), Matrix(7, 129).fill_uniform(13).at(6, 128)))
        << target.label();
    EXPECT_EQ(after.at("m").at(6, 128), 0.0f);
  }
}

Matrix decided(Backend& b, double loss, double squares, double clip, const OperandStats& stats) {
  const OperandStats all[] = {OperandStats{.values = 9, .saturated = 3, .flushed = 2}, stats};
  StepControl control{.loss = loss};
  b.decide_step(&control, &squares, clip, all, 2);
  Matrix x(1, 3);
  x.at(0, 0) = static_cast<float>(control.grad_norm);
  x.at(0, 1) = control.grad_scale;
  x.at(0, 2) = static_cast<float>(control.skip);
  return x;
}

TEST(Conformance, DecideStep) {
  conform("decide_step", [&](Backend& b) {
    return Results{{"clipped", decided(b, 2.5, 9, 1, {})},
                   {"small", decided(b, 2.5, 0.01, 1, {})},
                   {"no clip", decided(b, 2.5, 9, 0, {})},
                   {"nan loss", decided(b, kNan, 9, 1, {})},
                   {"inf norm", decided(b, 2.5, kInf, 1, {})},
                   {"nan operand", decided(b, 2.5, 9, 1, {.nan = 1})},
                   {"inf operand", decided(b, 2.5, 9, 1, {.inf = 1})}};
  });
  EXPECT_EQ(decided(reference(), 2.5, 9, 1, {}).at(0, 2), 0.0f);
  EXPECT_EQ(decided(reference(), 2.5, 9, 1, {.inf = 1}).at(0, 2), 1.0f);
}

}  // namespace
}  // namespace ng::conformance
