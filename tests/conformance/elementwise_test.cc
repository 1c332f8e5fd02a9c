// Elementwise operations, reductions, embedding, draws and the optimizer: `ref` fixes their bits.
#include <limits>
#include <numeric>

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

const ElementFormat* const kElements[] = {&fp32_format(), &bf16_format()};

TEST(Conformance, Fill) {
  for (const Shape& s : kShapes)
    for (const Storage storage : kStorages)
      conform("fill " + s.text(), storage, [&](const Place& with) -> Results {
        Tensor x = with.activation(s.matrix());
        with.execute(Fill{.x = x, .value = 0.3f});
        return {{"x", x.values()}};
      });
}

// From byte 1 on, all but the last.
TEST(Conformance, Clear) {
  for (const size_t size : {2, 3, 65, 65538, 200001})
    conform(fmt::format("clear {}", size - 2), [&](const Place& with) -> Results {
      Buffer<std::byte> bytes = with.buffer(std::vector(size, std::byte{0xA5}));
      with.execute(Clear{{bytes.data() + 1, size - 2}});
      std::vector<float> values;
      for (const std::byte b : bytes.values()) values.push_back(static_cast<float>(b));
      EXPECT_EQ(values.front() + values.back(), 2.0f * 0xA5) << "wrote outside";
      EXPECT_EQ(std::accumulate(values.begin() + 1, values.end() - 1, 0.0f), 0.0f);
      return {{"bytes", Matrix::row(values)}};
    });
}

TEST(Conformance, Combine) {
  for (const Shape& s : kShapes)
    for (const float b : {0.0f, -4.775f})
      conform(fmt::format("combine {} {}", s.text(), b), [&](const Place& with) -> Results {
        const Tensor x = with.fp32(s.matrix().fill_uniform(1));
        Matrix old = s.matrix().fill_uniform(2);
        if (b == 0) poison(old);
        Tensor y = with.fp32(old);
        with.execute(Combine{.y = y, .x = x, .a = 2.0315f, .b = b});
        return {{"y", y.values()}};
      });
}

TEST(Conformance, Normalize) {
  for (const Shape& s : kShapes)
    for (const double sum : {0.0, 3.7, 1e30})
      conform(fmt::format("normalize {} {}", s.text(), sum), [&](const Place& with) -> Results {
        const Tensor x = with.fp32(s.matrix().fill_uniform(1));
        Tensor y = with.fp32(s.matrix());
        Buffer<double> squares = with.buffer<double>({sum});
        with.execute(Normalize{.y = y, .x = x, .sum_of_squares = squares.data()});
        return {{"y", y.values()}};
      });
}

TEST(Conformance, CopyBetweenTypes) {
  for (const Shape& s : kShapes)
    for (const ElementFormat* from : kElements)
      for (const ElementFormat* to : kElements)
        conform(fmt::format("copy {} to {} {}", from->name, to->name, s.text()),
                [&](const Place& with) -> Results {
                  Matrix values = s.matrix().fill_uniform(1);
                  poison(values);
                  const Tensor x = with.stored(values, *from);
                  Tensor y = with.stored(s.matrix(), *to);
                  with.execute(Copy{.y = y, .x = x});
                  return {{"y", y.values()}};
                });
}

TEST(Conformance, Add) {
  for (const Shape& s : kShapes)
    for (const Storage storage : kStorages)
      conform("add " + s.text(), storage, [&](const Place& with) -> Results {
        Matrix values = s.matrix().fill_uniform(2);
        poison(values);
        const Tensor a = with.activation(values);
        Tensor b = with.activation(s.matrix().fill_uniform(3));
        Tensor y = with.activation(s.matrix());
        with.execute(Add{.y = y, .a = a, .b = b});
        with.execute(Add{.y = b, .a = a, .b = b});
        return {{"sum", y.values()}, {"in place", b.values()}};
      });
}

// FP32 results read BF16 as it is; BF16 results read FP32 rounded.
TEST(Conformance, AddOfMixedTypes) {
  for (const Shape& s : {kShapes[1], kShapes[4], kShapes[5]})
    for (const ElementFormat* y_element : kElements)
      for (const ElementFormat* a_element : kElements)
        for (const ElementFormat* b_element : kElements)
          conform(fmt::format("{} = {} + {} {}", y_element->name, a_element->name, b_element->name,
                              s.text()),
                  [&](const Place& with) -> Results {
                    const Tensor a = with.stored(s.matrix().fill_uniform(2), *a_element);
                    const Tensor b = with.stored(s.matrix().fill_uniform(3), *b_element);
                    Tensor y = with.stored(s.matrix(), *y_element);
                    with.execute(Add{.y = y, .a = a, .b = b});
                    return {{"sum", y.values()}};
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
    for (const Storage storage : kStorages)
      conform("sums " + s.text(), storage, [&](const Place& with) -> Results {
        const Tensor x = with.activation(s.matrix().fill_uniform(4));
        Buffer<double> sum = with.buffer<double>({0.125}), squares = with.buffer<double>({3});
        with.execute(AddSum{.sum = sum.data(), .x = x});
        with.execute(AddSumOfSquares{.sum = squares.data(), .x = x});
        return {{"sum", bits_of(sum.values()[0])}, {"squares", bits_of(squares.values()[0])}};
      });
}

TEST(Conformance, CountsOfNonfinite) {
  for (const Shape& s : kShapes)
    for (const Storage storage : kStorages)
      conform("add_nonfinite " + s.text(), storage, [&](const Place& with) -> Results {
        Matrix values = s.matrix().fill_uniform(5);
        Buffer<uint64_t> clean = with.buffer<uint64_t>({7}), poisoned = with.buffer<uint64_t>({0});
        with.execute(AddNonfinite{.count = clean.data(), .x = with.activation(values)});
        poison(values);
        with.execute(AddNonfinite{.count = poisoned.data(), .x = with.activation(values)});
        return {{"counts", Matrix::row({static_cast<float>(clean.values()[0]),
                                        static_cast<float>(poisoned.values()[0])})}};
      });
}

// |error| <= (rows + 2) · 2^-24 · Σ|x| for any order of FP32 additions.
TEST(Conformance, ColumnSums) {
  for (const Shape& s :
       {Shape{1, 1, 0, 0}, Shape{37, 19, 2, 1}, Shape{300, 130, 0, 0}, Shape{2, 2049, 7, 3}})
    for (const Storage storage : kStorages) {
      const Matrix x = s.matrix().fill_uniform(6);
      const auto run = [&](const Place& with) -> Results {
        Tensor sum = with.fp32(Matrix(1, s.cols).fill_uniform(7));
        with.execute(AddColumnSums{.sum = sum, .x = with.activation(x)});
        return {{"sums", sum.values()}};
      };
      const auto bound = [&](const std::string&, int64_t, int64_t c) {
        double magnitude = 1;
        for (int64_t r = 0; r < s.rows; ++r) magnitude += std::abs(read(x.at(r, c), storage));
        return static_cast<double>(s.rows + 2) * kUnit * magnitude;
      };
      conform("add_column_sums " + s.text(), storage, run, bound);
    }
}

// A sum of FP64 in the order of the tokens.
TEST(Conformance, Means) {
  for (const Shape& s :
       {Shape{1, 1, 0, 0}, Shape{37, 19, 2, 1}, Shape{300, 130, 0, 0}, Shape{2, 2049, 7, 3}})
    for (const Storage storage : kStorages)
      conform("find_column_means " + s.text(), storage, [&](const Place& with) -> Results {
        const Tensor x = with.activation(s.matrix().fill_uniform(6));
        Tensor mean = with.fp32(Matrix(1, s.cols).fill_uniform(7));
        Tensor in_bf16 = with.fp32(Matrix(1, s.cols).fill_uniform(8));
        Tensor rest = with.fp32(s.matrix());
        with.execute(FindColumnMeans{.mean = mean, .in_bf16 = in_bf16, .x = x});
        with.execute(SubtractRow{.y = rest, .x = x, .row = in_bf16});
        return {{"mean", mean.values()}, {"in_bf16", in_bf16.values()}, {"rest", rest.values()}};
      });
}

TEST(Conformance, Normal) {
  const RandomKey key{.seed = 42, .tensor = 3, .purpose = Purpose::init};
  for (const Shape& s : kShapes)
    conform("fill_normal " + s.text(), [&](const Place& with) -> Results {
      Tensor x = with.fp32(s.matrix());
      with.execute(FillNormal{.x = x, .deviation = 0.02f, .key = key});
      return {{"x", x.values()}};
    });
}

struct EmbeddingCase {
  std::vector<int32_t> tokens_of_batch;  ///< below 5
  Positions at;
  int64_t cols, positions;
};

Results embed_and_back(const Place& with, const EmbeddingCase& of) {
  const auto rows = static_cast<int64_t>(of.tokens_of_batch.size());
  const Buffer<int32_t> ids = with.buffer(of.tokens_of_batch);
  const Tensor tokens = with.parameter(Matrix(5, of.cols, 3, 1).fill_uniform(8));
  const Tensor places = with.parameter(Matrix(of.positions, of.cols).fill_uniform(9));
  Tensor y = with.activation(Matrix(rows, of.cols, 1));
  with.execute(
      Embed{.y = y, .ids = ids.span(), .tokens = tokens, .positions = places, .at = of.at});
  const Tensor dy = with.activation(Matrix(rows, of.cols, 2).fill_uniform(10));
  Tensor dtokens = with.fp32(Matrix(5, of.cols, 3, 1).fill_uniform(11));
  Tensor dpositions = with.fp32(Matrix(of.positions, of.cols).fill_uniform(12));
  with.execute(EmbedBackward{
      .dtokens = dtokens, .dpositions = dpositions, .dy = dy, .ids = ids.span(), .at = of.at});
  return {{"y", y.values()}, {"dtokens", dtokens.values()}, {"dpositions", dpositions.values()}};
}

TEST(Conformance, Embedding) {
  const Positions few{.sequences = 3, .length = 3, .first = 2};
  for (const int64_t cols : {1, 17, 64, 130})
    for (const Storage storage : kStorages)
      for (const int64_t positions : {0, 6})
        conform(fmt::format("embed {} positions {}", cols, positions), storage,
                [&](const Place& with) {
                  return embed_and_back(with, {{4, 0, 4, 4, 2, 1, 0, 4, 4}, few, cols, positions});
                });
}

// More than a card's block has threads, and one that is there once, at the end.
TEST(Conformance, EmbeddingOfManyTokens) {
  std::vector<int32_t> tokens(300);
  for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = static_cast<int32_t>(t * t % 7 % 4);
  tokens.back() = 4;
  const Positions at{.sequences = 2, .length = 150, .first = 3};
  conform("embed 300", [&](const Place& with) {
    return embed_and_back(with, {tokens, at, 3, 160});
  });
}

Results adamw_steps(const Place& with, const Shape& s, const StepControl& decided) {
  Tensor weight = with.fp32(s.matrix().fill_uniform(13));
  Tensor m = with.fp32(s.matrix().fill(0)), v = with.fp32(s.matrix().fill(0));
  Buffer<StepControl> control = with.buffer<StepControl>({decided});
  for (int step = 1; step <= 3; ++step) {
    const Tensor grad =
        with.activation(s.matrix().fill_uniform(static_cast<uint64_t>(13 + step), 1e-3f));
    with.execute(Update{.weight = {.value = stored_plainly(weight)},
                        .moment1 = stored_plainly(m),
                        .moment2 = stored_plainly(v),
                        .grad = grad,
                        .numbers = {.lr = 1e-3f,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.95f,
                                    .eps = 1e-8f,
                                    .weight_decay = s.rows > 1 ? 0.1f : 0.0f,
                                    .correction1 = 1 - std::pow(0.9f, static_cast<float>(step)),
                                    .correction2 = 1 - std::pow(0.95f, static_cast<float>(step))},
                        .control = control.data()});
  }
  return {{"weight", weight.values()}, {"m", m.values()}, {"v", v.values()}};
}

// The gradient may be BF16.
TEST(Conformance, AdamW) {
  for (const Shape& s : kShapes)
    for (const Storage storage : kStorages)
      for (const float grad_scale : {1.0f, 0.37f})
        conform("adamw " + s.text(), storage, [&](const Place& with) {
          return adamw_steps(with, s, {.grad_scale = grad_scale, .skip = 0});
        });
}

TEST(Conformance, AdamWSkipsTheStep) {
  for (const Target& target : targets_without_units()) {
    const Results after = adamw_steps({backend_of(target)}, kShapes[5], {.skip = 1});
    EXPECT_TRUE(
        same_bits(after.at("weight").at(6, 128), Matrix(7, 129).fill_uniform(13).at(6, 128)))
        << target.label();
    EXPECT_EQ(after.at("m").at(6, 128), 0.0f);
  }
}

Matrix decided(const Place& with, double loss, double squares, double clip,
               const OperandStats& stats) {
  const Buffer<OperandStats> all =
      with.buffer<OperandStats>({{.values = 9, .saturated = 3, .flushed = 2}, stats});
  Buffer<StepControl> control = with.buffer<StepControl>({{.loss = loss}});
  const Buffer<double> sum = with.buffer<double>({squares});
  with.execute(DecideStep{.control = control.data(),
                          .sum_of_squares = sum.span().data(),
                          .clip = clip,
                          .stats = all.span().data(),
                          .stats_count = 2});
  const StepControl after = control.values().front();
  return Matrix::row(
      {static_cast<float>(after.grad_norm), after.grad_scale, static_cast<float>(after.skip)});
}

TEST(Conformance, DecideStep) {
  conform("decide_step", [&](const Place& with) {
    return Results{{"clipped", decided(with, 2.5, 9, 1, {})},
                   {"small", decided(with, 2.5, 0.01, 1, {})},
                   {"no clip", decided(with, 2.5, 9, 0, {})},
                   {"nan loss", decided(with, kNan, 9, 1, {})},
                   {"inf norm", decided(with, 2.5, kInf, 1, {})},
                   {"nan operand", decided(with, 2.5, 9, 1, {.nan = 1})},
                   {"inf operand", decided(with, 2.5, 9, 1, {.inf = 1})}};
  });
  EXPECT_EQ(decided({reference()}, 2.5, 9, 1, {}).at(0, 2), 0.0f);
  EXPECT_EQ(decided({reference()}, 2.5, 9, 1, {.inf = 1}).at(0, 2), 1.0f);
}

}  // namespace
}  // namespace ng::conformance
