// Noise on weights: `ref` fixes the bits of noisy weights, scales and gradients, for every kind,
// also where blocks are ragged.
#include "stored_tensors.h"

namespace ng::conformance {
namespace {

struct NoiseCase {
  NoiseKind kind;
  bool in_blocks;
};
constexpr NoiseCase kCases[] = {{NoiseKind::gaussws, true},
                                {NoiseKind::gaussws, false},
                                {NoiseKind::diffq, true},
                                {NoiseKind::diffq, false},
                                {NoiseKind::nipq, false}};

struct DrawnSize {
  int64_t rows, cols;
};
constexpr DrawnSize kNoiseSizes[] = {{1, 1}, {1, 40}, {33, 7}, {70, 129}, {32, 1024}, {40, 2100}};

/// A noisy weight and what its noise learns, in memory of a backend.
struct Given {
  Given(const Place& with, const NoiseCase& c, const DrawnSize& size, const ElementFormat& element)
      : weight(with.stored(weights(size), element)),
        bits(with.fp32(bit_widths(c, size))),
        clip(with.fp32(Matrix::row({-0.4f}))),
        of{.kind = c.kind,
           .weight = weight,
           .bit_widths = bits,
           .clip = c.kind == NoiseKind::nipq ? ConstView(clip) : ConstView(),
           .block = block(c),
           .b_init = 6,
           .b_target = 4,
           .key = {.seed = 7, .tensor = 5, .step = 3},
           .bits_tensor = 9} {}

  static Block block(const NoiseCase& c) {
    if (c.in_blocks) return {.kind = Block::Kind::tile, .rows = 32, .cols = 32};
    return {.kind = Block::Kind::tensor};
  }
  static Matrix weights(const DrawnSize& size) {
    Matrix w = Matrix(size.rows, size.cols).fill_uniform(1);
    for (int64_t i = 0; i < size.rows; ++i) w.at(i, i % size.cols) = i % 2 == 0 ? 0.0f : -0.0f;
    return w;
  }
  static Matrix bit_widths(const NoiseCase& c, const DrawnSize& size) {
    if (!c.in_blocks) return Matrix(1, 1).fill_uniform(2);
    return Matrix((size.rows + 31) / 32, (size.cols + 31) / 32).fill_uniform(2);
  }

  Tensor weight, bits, clip;
  NoisyWeight of;
};

std::string text_of(const NoiseCase& c, const DrawnSize& size) {
  return fmt::format("noise {} {} {}x{}", static_cast<int>(c.kind),
                     c.in_blocks ? "blocks" : "tensor", size.rows, size.cols);
}

TEST(Conformance, AddNoise) {
  for (const NoiseCase& c : kCases)
    for (const DrawnSize& size : kNoiseSizes)
      for (const ElementFormat* from : {&fp32_format(), &bf16_format()})
        for (const ElementFormat* to : {&fp32_format(), &bf16_format()})
          conform(text_of(c, size), [&](const Place& with) -> Results {
            Given given(with, c, size, *from);
            Tensor y = with.stored(Matrix(size.rows, size.cols), *to);
            Tensor scales = with.fp32(Given::bit_widths(c, size));
            with.execute(AddNoise{.y = y, .scales = scales, .of = given.of});
            return {{"y", y.values()}, {"scales", scales.values()}};
          });
}

// Bit-widths of all formats of Table C.1, the edges between them and what is none.
TEST(Conformance, RoundByBits) {
  for (const NoiseCase& c : kCases)
    for (const DrawnSize& size : kNoiseSizes)
      for (const ElementFormat* to : {&fp32_format(), &bf16_format()})
        conform(text_of(c, size), [&](const Place& with) -> Results {
          Given given(with, c, size, fp32_format());
          Matrix bits = Given::bit_widths(c, size);
          const float b_i[] = {-0.5f, 0.5f, 1, 3, 5, std::numeric_limits<float>::quiet_NaN()};
          for (int64_t r = 0; r < bits.rows(); ++r)
            for (int64_t k = 0; k < bits.cols(); ++k) bits.at(r, k) = b_i[(r + k) % 6];
          const Tensor of_bits = with.fp32(bits);
          given.of.bit_widths = of_bits;
          Matrix sum = Given::weights(size);
          sum.at(0, size.cols - 1) = std::numeric_limits<float>::infinity();
          const Tensor x = with.fp32(sum);
          Tensor y = with.stored(Matrix(size.rows, size.cols), *to);
          with.execute(RoundByBits{.y = y, .x = x, .of = given.of});
          return {{"y", y.values()}};
        });
}

TEST(Conformance, CountCast) {
  for (const DrawnSize& size : kNoiseSizes)
    conform(fmt::format("counts {}x{}", size.rows, size.cols), [&](const Place& with) -> Results {
      const Tensor x = with.fp32(Matrix(size.rows, size.cols).fill_uniform(1, 100));
      const StoredTensor y(with.backend, cast_of("mxfp4"), size.rows, size.cols);
      Buffer<OperandStats> stats = with.buffer(std::vector<OperandStats>(1, {.values = 3}));
      with.execute(StoreGradient{.y = y.stored(), .x = x, .key = {}});
      with.execute(CountCast{.stats = stats.data(), .x = x, .y = y.view()});
      const OperandStats s = stats.values().front();
      EXPECT_EQ(s.values, static_cast<uint64_t>(size.rows * size.cols) + 3);
      std::vector<float> counts;
      for (const uint64_t count : {s.saturated, s.flushed, s.narrowed})
        counts.push_back(static_cast<float>(count));
      return {{"counts", Matrix::row(counts)}};
    });
}

TEST(Conformance, AddNoiseBackward) {
  for (const NoiseCase& c : kCases)
    for (const DrawnSize& size : kNoiseSizes)
      for (const ElementFormat* of_grad : {&fp32_format(), &bf16_format()})
        conform(text_of(c, size), [&](const Place& with) -> Results {
          Given given(with, c, size, fp32_format());
          Tensor grad = with.stored(Matrix(size.rows, size.cols).fill_uniform(3), *of_grad);
          const Tensor scales = with.fp32(Given::bit_widths(c, size));
          Tensor bits = with.fp32(Given::bit_widths(c, size)), clip = with.fp32(Matrix(1, 1));
          const View of_clip = c.kind == NoiseKind::nipq ? clip.view() : View();
          with.execute(AddNoiseBackward{
              .bits = bits, .clip = of_clip, .grad = grad, .scales = scales, .of = given.of});
          Results results = {
              {"bits", bits.values()}, {"clip", clip.values()}, {"grad", grad.values()}};
          with.execute(
              FinishNoiseGradient{.bits = bits, .clip = of_clip, .of = given.of, .lambda = 0.01f});
          results["finished bits"] = bits.values();
          results["finished clip"] = clip.values();
          return results;
        });
}

TEST(Conformance, QuantizeByProxy) {
  for (const DrawnSize& size : kNoiseSizes)
    for (const ElementFormat* from : {&fp32_format(), &bf16_format()})
      for (const ElementFormat* to : {&fp32_format(), &bf16_format()})
        for (const float beta : {-0.69f, -30.0f, 30.0f, std::numeric_limits<float>::quiet_NaN()})
          conform(text_of(kCases[4], size) + fmt::format(" {}", beta),
                  [&](const Place& with) -> Results {
                    Given given(with, kCases[4], size, *from);
                    const Tensor of_bits = with.fp32(Matrix::row({beta}));
                    given.of.bit_widths = of_bits;
                    Tensor y = with.stored(Matrix(size.rows, size.cols), *to);
                    with.execute(QuantizeByProxy{.y = y, .of = given.of});
                    return {{"y", y.values()}};
                  });
}

// An infinite weight makes its block's noise infinite or NaN, which ends in a skipped step; others
// stay as they are.
TEST(Conformance, NoiseOfWeightsThatAreNotFinite) {
  for (const NoiseCase& c : kCases)
    conform(text_of(c, {40, 70}), [&](const Place& with) -> Results {
      Given given(with, c, {40, 70}, fp32_format());
      Matrix w = Given::weights({40, 70});
      w.at(3, 3) = std::numeric_limits<float>::infinity();
      w.at(3, 40) = std::numeric_limits<float>::quiet_NaN();
      const Tensor weight = with.fp32(w);
      given.of.weight = weight;
      Tensor y = with.stored(Matrix(40, 70), bf16_format());
      Tensor scales = with.fp32(Given::bit_widths(c, {40, 70}));
      with.execute(AddNoise{.y = y, .scales = scales, .of = given.of});
      return {{"y", y.values()}};
    });
}

}  // namespace
}  // namespace ng::conformance
