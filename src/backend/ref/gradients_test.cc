// Every backward pass of `ref` against finite differences of its forward pass.
//
// The objective is L = Σ weight · output with fixed weights, summed in FP64. The five-point rule
// (8(L(+h) - L(-h)) - (L(+2h) - L(-2h))) / 12h errs by h⁴/30·|L⁽⁵⁾|: with h = 2^-4 and derivatives
// of order 1 that is 5e-7. FP32 outputs of size 1 add at most sqrt(outputs)·2^-24·18/(12h), about
// 1.5e-5 for a hundred. kTolerance allows four times their sum, relative to the largest gradient.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "backend/ref/activation.h"
#include "backend/ref/attention.h"
#include "backend/ref/embed.h"
#include "backend/ref/loss.h"
#include "backend/ref/norm.h"

namespace ng::ref {
namespace {

constexpr double kStep = 0x1p-4;
constexpr double kTolerance = 6e-5;

using Values = std::vector<float>;

// Smooth, irregular values of size about 1.
Values gradient_values(int64_t count, double seed) {
  Values x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::sin(seed + 1.7 * static_cast<double>(i * i % 101)));
  return x;
}

View matrix(Values& x, int64_t cols) {
  return {x.data(), static_cast<int64_t>(x.size()) / cols, cols, cols};
}
ConstView matrix(const Values& x, int64_t cols) {
  return {x.data(), static_cast<int64_t>(x.size()) / cols, cols, cols};
}

double weighted_sum(const Values& output, const Values& weight) {
  double sum = 0;
  for (size_t i = 0; i < output.size(); ++i) sum += static_cast<double>(output[i]) * weight[i];
  return sum;
}

/// d loss / dx[i] for every i, where loss() reads x.
void expect_gradient(Values& x, const std::function<double()>& loss, const Values& gradient,
                     const char* name) {
  ASSERT_EQ(x.size(), gradient.size()) << name;
  double largest = 1;
  for (const float g : gradient) largest = std::max(largest, std::abs(static_cast<double>(g)));
  for (size_t i = 0; i < x.size(); ++i) {
    const float saved = x[i];
    const auto at = [&](double step) {
      x[i] = static_cast<float>(saved + step);
      return loss();
    };
    const double difference =
        (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
    x[i] = saved;
    EXPECT_NEAR(gradient[i], difference, kTolerance * largest) << name << "[" << i << "]";
  }
}

TEST(Gradients, Embedding) {
  const std::vector<int32_t> ids{3, 0, 3, 1, 3, 2};
  const Positions at{.sequences = 2, .length = 3, .first = 1};
  Values tokens = gradient_values(5 * 7, 1);
  Values positions = gradient_values(4 * 7, 2);
  const Values dy = gradient_values(6 * 7, 3);
  const auto loss = [&] {
    Values y(dy.size());
    perform(Embed{.y = matrix(y, 7),
                  .ids = ids,
                  .tokens = matrix(tokens, 7),
                  .positions = matrix(positions, 7),
                  .at = at});
    return weighted_sum(y, dy);
  };
  Values dtokens(tokens.size(), 0.0f);
  Values dpositions(positions.size(), 0.0f);
  perform(EmbedBackward{.dtokens = matrix(dtokens, 7),
                        .dpositions = matrix(dpositions, 7),
                        .dy = matrix(dy, 7),
                        .ids = ids,
                        .at = at});
  expect_gradient(tokens, loss, dtokens, "dtokens");
  expect_gradient(positions, loss, dpositions, "dpositions");
}

TEST(Gradients, RmsNorm) {
  constexpr int64_t kCols = 11;
  Values x = gradient_values(3 * kCols, 4);
  Values gain = gradient_values(kCols, 5);
  const Values dy = gradient_values(3 * kCols, 6);
  const Values dresidual = gradient_values(3 * kCols, 7);
  Scratch scratch;
  const auto loss = [&] {
    Values y(x.size());
    perform(Norm{.kind = NormKind::rms,
                 .y = matrix(y, kCols),
                 .x = matrix(x, kCols),
                 .gain = matrix(gain, kCols),
                 .eps = 1e-5f});
    return weighted_sum(y, dy) + weighted_sum(x, dresidual);
  };
  Values dx(x.size());
  Values dgain(gain.size(), 0.0f);
  perform(NormBackward{.kind = NormKind::rms,
                       .dx = matrix(dx, kCols),
                       .dgain = matrix(dgain, kCols),
                       .dresidual = matrix(dresidual, kCols),
                       .dy = matrix(dy, kCols),
                       .x = matrix(x, kCols),
                       .gain = matrix(gain, kCols),
                       .eps = 1e-5f},
          scratch);
  expect_gradient(x, loss, dx, "dx");
  expect_gradient(gain, loss, dgain, "dgain");
}

TEST(Gradients, LayerNorm) {
  constexpr int64_t kCols = 11;
  Values x = gradient_values(3 * kCols, 8);
  Values gain = gradient_values(kCols, 9);
  Values bias = gradient_values(kCols, 10);
  const Values dy = gradient_values(3 * kCols, 11);
  Scratch scratch;
  const auto loss = [&] {
    Values y(x.size());
    perform(Norm{.kind = NormKind::layer,
                 .y = matrix(y, kCols),
                 .x = matrix(x, kCols),
                 .gain = matrix(gain, kCols),
                 .bias = matrix(bias, kCols),
                 .eps = 1e-5f});
    return weighted_sum(y, dy);
  };
  Values dx(x.size());
  Values dgain(gain.size(), 0.0f);
  Values dbias(bias.size(), 0.0f);
  perform(NormBackward{.kind = NormKind::layer,
                       .dx = matrix(dx, kCols),
                       .dgain = matrix(dgain, kCols),
                       .dbias = matrix(dbias, kCols),
                       .dy = matrix(dy, kCols),
                       .x = matrix(x, kCols),
                       .gain = matrix(gain, kCols),
                       .eps = 1e-5f},
          scratch);
  expect_gradient(x, loss, dx, "dx");
  expect_gradient(gain, loss, dgain, "dgain");
  expect_gradient(bias, loss, dbias, "dbias");
}

TEST(Gradients, ParameterGradientsAreAdded) {
  const Values x{1, 2};
  const Values dy{1, 1};
  const Values gain{1, 1};
  Values dx(2);
  Values dgain{10, 20};
  Values dbias{30, 40};
  Scratch scratch;
  perform(NormBackward{.kind = NormKind::layer,
                       .dx = matrix(dx, 2),
                       .dgain = matrix(dgain, 2),
                       .dbias = matrix(dbias, 2),
                       .dy = matrix(dy, 2),
                       .x = matrix(x, 2),
                       .gain = matrix(gain, 2),
                       .eps = 0.0f},
          scratch);
  EXPECT_EQ(dgain, (Values{9, 21}));
  EXPECT_EQ(dbias, (Values{31, 41}));
}

TEST(Gradients, Gelu) {
  for (const GeluKind kind : {GeluKind::tanh, GeluKind::erf}) {
    Values x = gradient_values(40, 12);
    for (float& value : x) value *= 3;
    const Values dy = gradient_values(40, 13);
    const auto loss = [&] {
      Values y(x.size());
      perform(Gelu{.y = matrix(y, 8), .x = matrix(x, 8), .kind = kind});
      return weighted_sum(y, dy);
    };
    Values dx(x.size());
    perform(
        GeluBackward{.dx = matrix(dx, 8), .dy = matrix(dy, 8), .x = matrix(x, 8), .kind = kind});
    expect_gradient(x, loss, dx, kind == GeluKind::tanh ? "tanh dx" : "erf dx");
  }
}

TEST(Gradients, SwiGlu) {
  Values gate = gradient_values(40, 14);
  for (float& value : gate) value *= 3;
  Values up = gradient_values(40, 15);
  const Values dy = gradient_values(40, 16);
  const auto loss = [&] {
    Values y(gate.size());
    perform(Swiglu{.y = matrix(y, 8), .gate = matrix(gate, 8), .up = matrix(up, 8)});
    return weighted_sum(y, dy);
  };
  Values dgate(gate.size());
  Values dup(up.size());
  perform(SwigluBackward{.dgate = matrix(dgate, 8),
                         .dup = matrix(dup, 8),
                         .dy = matrix(dy, 8),
                         .gate = matrix(gate, 8),
                         .up = matrix(up, 8)});
  expect_gradient(gate, loss, dgate, "dgate");
  expect_gradient(up, loss, dup, "dup");
}

// The backward pass of a rotation is the rotation back.
TEST(Gradients, Rope) {
  const Positions at{.sequences = 2, .length = 3, .first = 2};
  Values table(5 * 6);
  perform(RopeTable{.table = matrix(table, 6), .theta = 100.0f});
  Values x = gradient_values(6 * 12, 17);
  const Values dy = gradient_values(6 * 12, 18);
  const auto loss = [&] {
    Values y = x;
    perform(Rope{.x = matrix(y, 12), .table = matrix(table, 6), .at = at, .head_dim = 6});
    return weighted_sum(y, dy);
  };
  Values dx = dy;
  perform(Rope{
      .x = matrix(dx, 12), .table = matrix(table, 6), .at = at, .head_dim = 6, .inverse = true});
  expect_gradient(x, loss, dx, "dx");
}

void expect_attention_gradients(const AttentionShape& s) {
  const int64_t q_cols = int64_t{s.heads} * s.head_dim;
  const int64_t kv_cols = int64_t{s.kv_heads} * s.head_dim;
  Values q = gradient_values(s.sequences * s.length * q_cols, 19);
  Values k = gradient_values(s.sequences * s.kv_stride * kv_cols, 20);
  Values v = gradient_values(s.sequences * s.kv_stride * kv_cols, 21);
  const Values dout = gradient_values(s.sequences * s.length * q_cols, 22);
  Scratch scratch;
  Values out(q.size());
  Values lse(static_cast<size_t>(s.sequences * s.length * s.heads));
  const auto loss = [&] {
    perform(Attention{.out = matrix(out, q_cols),
                      .lse = matrix(lse, s.heads),
                      .q = matrix(q, q_cols),
                      .k = matrix(k, kv_cols),
                      .v = matrix(v, kv_cols),
                      .shape = s},
            scratch);
    return weighted_sum(out, dout);
  };
  loss();
  Values dq(q.size());
  Values dk(k.size(), 0.0f);
  Values dv(v.size(), 0.0f);
  perform(AttentionBackward{.dq = matrix(dq, q_cols),
                            .dk = matrix(dk, kv_cols),
                            .dv = matrix(dv, kv_cols),
                            .dout = matrix(dout, q_cols),
                            .out = matrix(out, q_cols),
                            .lse = matrix(lse, s.heads),
                            .q = matrix(q, q_cols),
                            .k = matrix(k, kv_cols),
                            .v = matrix(v, kv_cols),
                            .shape = s},
          scratch);
  expect_gradient(q, loss, dq, "dq");
  expect_gradient(k, loss, dk, "dk");
  expect_gradient(v, loss, dv, "dv");
}

TEST(Gradients, Attention) {
  expect_attention_gradients({.sequences = 2,
                              .length = 5,
                              .kv_length = 5,
                              .kv_stride = 5,
                              .first = 0,
                              .heads = 2,
                              .kv_heads = 2,
                              .head_dim = 3});
}

TEST(Gradients, AttentionGroupedWithCache) {
  expect_attention_gradients({.sequences = 2,
                              .length = 3,
                              .kv_length = 6,
                              .kv_stride = 7,
                              .first = 2,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = 4});
}

TEST(Gradients, AttentionWithinAWindow) {
  expect_attention_gradients({.sequences = 2,
                              .length = 5,
                              .kv_length = 7,
                              .kv_stride = 7,
                              .first = 1,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = 4,
                              .window = 3});
}

TEST(Gradients, CrossEntropy) {
  constexpr int64_t kVocabulary = 9;
  const std::vector<int32_t> targets{0, 8, -100, 4};
  const Values mask{1, 1, 0, 0.5f};
  Values logits = gradient_values(4 * kVocabulary, 23);
  const Values scale(4, 0.25f);
  const auto loss = [&] {
    Values losses(4);
    perform(CrossEntropyLoss{.logits = matrix(logits, kVocabulary),
                             .losses = matrix(losses, 4),
                             .targets = targets,
                             .mask = matrix(mask, 4)});
    return weighted_sum(losses, scale);
  };
  Values dlogits = logits;
  Values losses(4);
  perform(CrossEntropy{.logits = matrix(dlogits, kVocabulary),
                       .losses = matrix(losses, 4),
                       .targets = targets,
                       .mask = matrix(mask, 4),
                       .scale = 0.25f});
  expect_gradient(logits, loss, dlogits, "dlogits");
  EXPECT_EQ(losses[2], 0.0f);
}

}  // namespace
}  // namespace ng::ref
