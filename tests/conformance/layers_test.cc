// Activations, rotary positions and the loss: every bound is derived from the sizes, the
// values and u = 2^-24, the largest relative error of one FP32 operation.
#include <limits>

#include "conformance.h"

namespace ng::conformance {
namespace {

constexpr double kTiny = 0x1p-126;  // results below the normal range may be rounded differently

// ---------------------------------------------------------------- activations

// The exponent z whose e^z decides how small gelu(x) gets: x²/2, or 2u of the tanh form. z is
// rounded four times, which moves e^z by 4u·z relative.
double gelu_exponent(double x, GeluKind kind) {
  return kind == GeluKind::erf ? x * x / 2 : 1.6 * std::abs(x) * (1 + 0.045 * x * x);
}

TEST(Conformance, Gelu) {
  for (const Shape& s : kShapes)
    for (const Storage storage : kStorages)
      for (const GeluKind kind : {GeluKind::tanh, GeluKind::erf}) {
        const Matrix x = s.matrix().fill_uniform(30, 6);
        const Matrix dy = s.matrix().fill_uniform(31, 2);
        const auto run = [&](const Place& with) -> Results {
          const Tensor in = with.activation(x);
          Tensor y = with.activation(s.matrix()), dx = with.activation(s.matrix());
          with.execute(Gelu{.y = y, .x = in, .kind = kind});
          with.execute(GeluBackward{.dx = dx, .dy = with.activation(dy), .x = in, .kind = kind});
          return {{"y", y.values()}, {"dx", dx.values()}};
        };
        const Results want = run({reference(), storage});
        conform(fmt::format("gelu {} {}", kind == GeluKind::tanh ? "tanh" : "erf", s.text()),
                storage, run, [&](const std::string& name, int64_t r, int64_t c) {
                  const double v = read(x.at(r, c), storage);
                  const double d = read(dy.at(r, c), storage);
                  const double value = std::abs(want.at(name).at(r, c));
                  // The derivative s + x·s' is a difference where x < 0, both terms below
                  // (1 + |x|·max s')·min(1, e^-z): its error is relative to that sum.
                  const double tail = v < 0 ? std::exp(-0.9 * gelu_exponent(v, kind)) : 1;
                  const double size =
                      name == "y" ? value : std::abs(d) * std::min(1.0, tail) * (1 + v * v);
                  const double error = size * (16 + 4 * gelu_exponent(v, kind)) * kUnit + kTiny;
                  return with_bf16(error, want.at(name).at(r, c), storage);
                });
      }
}

// sigmoid is off by 3u, and at most seven further roundings follow. The slope s·(1 + g·(1 - s)) is
// at most s·(1 + |g|), to which its error is relative.
TEST(Conformance, SwiGlu) {
  for (const Shape& s : kShapes)
    for (const Storage storage : kStorages) {
      const Matrix gate = s.matrix().fill_uniform(32, 20);
      const Matrix up = s.matrix().fill_uniform(33, 2);
      const Matrix dy = s.matrix().fill_uniform(34);
      const auto run = [&](const Place& with) -> Results {
        const Tensor g = with.activation(gate), u = with.activation(up);
        Tensor y = with.activation(s.matrix());
        Tensor dgate = with.activation(s.matrix()), dup = with.activation(s.matrix());
        with.execute(Swiglu{.y = y, .gate = g, .up = u});
        with.execute(SwigluBackward{
            .dgate = dgate, .dup = dup, .dy = with.activation(dy), .gate = g, .up = u});
        return {{"y", y.values()}, {"dgate", dgate.values()}, {"dup", dup.values()}};
      };
      const Results want = run({reference(), storage});
      conform("swiglu " + s.text(), storage, run,
              [&](const std::string& name, int64_t r, int64_t c) {
                const double g = read(gate.at(r, c), storage);
                const double u = read(up.at(r, c), storage);
                const double d = read(dy.at(r, c), storage);
                const double sigmoid = 1 / (1 + std::exp(-g));
                double size = 8 * std::abs(g * sigmoid);
                size *= std::abs(name == "y" ? u : d);
                if (name == "dgate") size = 10 * std::abs(d * u) * sigmoid * (1 + std::abs(g));
                return with_bf16(size * kUnit + kTiny, want.at(name).at(r, c), storage);
              });
    }
}

TEST(Conformance, ActivationsLetNanThrough) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Matrix x = Matrix(1, 21).fill(1);
  x.at(0, 3) = nan;
  x.at(0, 17) = inf;
  x.at(0, 20) = nan;
  for (const Storage storage : kStorages)
    conform("activations of non-finite values", storage, [&](const Place& with) {
      const Tensor in = with.activation(x), one = with.activation(Matrix(1, 21).fill(1));
      Results kinds;
      for (const GeluKind kind : {GeluKind::tanh, GeluKind::erf}) {
        Tensor y = with.activation(Matrix(1, 21)), dx = with.activation(Matrix(1, 21));
        with.execute(Gelu{.y = y, .x = in, .kind = kind});
        with.execute(GeluBackward{.dx = dx, .dy = one, .x = in, .kind = kind});
        const Matrix value = y.values(), slope = dx.values();
        Matrix classes(1, 42);
        for (int64_t c = 0; c < 21; ++c) {
          const float v = value.at(0, c);
          classes.at(0, c) = static_cast<float>(std::isnan(v) + 2 * std::isinf(v));
          classes.at(0, 21 + c) = c == 17 ? 0 : static_cast<float>(std::isnan(slope.at(0, c)));
        }
        kinds.emplace(kind == GeluKind::tanh ? "tanh" : "erf", classes);
      }
      return kinds;
    });
}

// ---------------------------------------------------------------- rotary positions

Matrix rope_table(const Place& with, const Matrix& shape, float theta,
                  const RopeScaling& scaling = {}) {
  Tensor table = with.fp32(shape);
  with.execute(RopeTable{.table = table, .theta = theta, .scaling = scaling});
  return table.values();
}

// Cosine and sine are rounded once from an angle that FP64 holds to 2^-50.
TEST(Conformance, RopeTable) {
  for (const int64_t head_dim : {2, 6, 64, 130})
    for (const float theta : {10000.0f, 500000.0f})
      for (const int64_t original : {0, 100}) {
        const RopeScaling scaling{.factor = 8, .original_context = original};
        const auto run = [&](const Place& with) -> Results {
          return {{"table", rope_table(with, Matrix(300, head_dim, 3, 1), theta, scaling)}};
        };
        conform(fmt::format("rope_table {} {} {}", head_dim, theta, original), run,
                [](const std::string&, int64_t, int64_t) { return 2 * kUnit; });
      }
}

// a·cos - b·sin: three roundings, the first two relative to |a| and |b|.
TEST(Conformance, Rope) {
  for (const int head_dim : {2, 6, 64, 80})
    for (const int heads : {1, 3})
      for (const bool inverse : {false, true})
        for (const Storage storage : kStorages) {
          const Positions at{.sequences = 2, .length = 5, .first = 3};
          const Matrix x = Matrix(10, int64_t{heads} * head_dim, 3, 1).fill_uniform(40);
          const Matrix table = rope_table({reference()}, Matrix(8, head_dim), 10000.0f);
          const auto run = [&](const Place& with) -> Results {
            Tensor y = with.activation(x);
            with.execute(Rope{.x = y,
                              .table = with.parameter(table),
                              .at = at,
                              .head_dim = head_dim,
                              .inverse = inverse});
            return {{"y", y.values()}};
          };
          const Results want = run({reference(), storage});
          conform(fmt::format("rope {} x {} inverse {}", heads, head_dim, inverse), storage, run,
                  [&](const std::string& name, int64_t r, int64_t c) {
                    const int64_t half = head_dim / 2;
                    const int64_t other = c % head_dim < half ? c + half : c - half;
                    const double size = std::abs(x.at(r, c)) + std::abs(x.at(r, other));
                    return with_bf16(3 * kUnit * size, want.at(name).at(r, c), storage);
                  });
        }
}

// ---------------------------------------------------------------- loss

// The sum of V exponentials is off by gamma relative, so lse by gamma absolute; p = e^(x - lse) by
// the error of x - lse.
TEST(Conformance, CrossEntropy) {
  for (const Shape& s : {Shape{1, 1, 0, 0}, Shape{3, 7, 0, 1}, Shape{5, 65, 3, 0},
                         Shape{9, 1009, 0, 0}, Shape{2, 50257, 0, 3}})
    for (const Storage storage : kStorages)
      for (const bool masked : {false, true}) {
        const Matrix logits = s.matrix().fill_uniform(50, 9);
        std::vector<int32_t> targets;
        Matrix mask = Matrix(1, s.rows).fill_uniform(51);
        for (int64_t t = 0; t < s.rows; ++t) {
          targets.push_back(static_cast<int32_t>(t * 31 % s.cols));
          if (t % 3 == 2) mask.at(0, t) = 0;
          if (masked && t % 3 == 2) targets.back() = -100;
        }
        const auto run = [&](const Place& with) -> Results {
          const Buffer<int32_t> ids = with.buffer(targets);
          const Tensor weights = with.fp32(mask);
          const ConstView used = masked ? weights : ConstView{};
          Tensor in_place = with.activation(logits), losses = with.fp32(Matrix(1, s.rows)),
                 losses_only = with.fp32(Matrix(1, s.rows));
          with.execute(CrossEntropyLoss{
              .logits = in_place, .losses = losses_only, .targets = ids.span(), .mask = used});
          with.execute(CrossEntropy{.logits = in_place,
                                    .losses = losses,
                                    .targets = ids.span(),
                                    .mask = used,
                                    .scale = 0.37f});
          return {{"dlogits", in_place.values()},
                  {"losses", losses.values()},
                  {"losses only", losses_only.values()}};
        };
        const Results want = run({reference(), storage});
        const double gamma = (depth_of_sum(s.cols) + 8) * kUnit;
        std::vector<double> largest;  // of |lse| and all |x| of the row
        for (int64_t t = 0; t < s.rows; ++t) {
          double sum = 0, size = 0;
          for (int64_t c = 0; c < s.cols; ++c) {
            sum += std::exp(read(logits.at(t, c), storage));
            size = std::max(size, std::abs(read(logits.at(t, c), storage)));
          }
          largest.push_back(std::max(size, std::abs(std::log(sum))));
        }
        conform(fmt::format("cross_entropy {} masked {}", s.text(), masked), storage, run,
                [&](const std::string& name, int64_t r, int64_t c) {
                  const double row = largest[static_cast<size_t>(name == "dlogits" ? r : c)];
                  const double lse_error = gamma + 3 * kUnit * row;
                  if (name != "dlogits") return lse_error + 3 * kUnit * row;
                  // |d| = mask · scale · |p - onehot|, p <= 1 at the target.
                  const bool target = c == targets[static_cast<size_t>(r)];
                  const double d = std::abs(want.at(name).at(r, c));
                  const double p = target ? 0.37 : d;
                  const double error = p * (lse_error + 6 * kUnit * (1 + row)) + 4 * kUnit * d;
                  if (masked && mask.at(0, r) == 0) return 0.0;
                  return with_bf16(error, want.at(name).at(r, c), storage);
                });
      }
}

}  // namespace
}  // namespace ng::conformance
