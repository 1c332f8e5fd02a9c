// residual: x = (w + c) + D, D = fl(lr·u);  w' = RN(x);  c' = x - w' in units of ulp(w')/2^bits,
// rounded stochastically toward minus infinity; +2^(bits-1) moves w' on to the next number.
// [recipes.md §5; errata-2, 20, 21]
#include <algorithm>
#include <cmath>

#include "backend/ref/update/rules.h"
#include "format/code_line.h"

namespace ng::ref {
namespace {

CodeLine line_of(const ElementFormat& format) {
  NG_CHECK(format.is_signed && format.kind != ElementKind::power, format.name);
  if (format.kind == ElementKind::floating) return {.grid = grid_of(format), .integers = {}};
  return {.grid = {}, .integers = integer_grid_of(format), .is_integer = true};
}

/// A weight and its residual, code by code.
class Pair {
 public:
  explicit Pair(const UpdatedWeight& weight)
      : w_(weight.value.view), c_(weight.carry), line_(line_of(*w_.element)), read_(w_) {}

  [[nodiscard]] uint32_t code(int64_t row, int64_t col) const { return get(w_, row, col); }
  void set_code(int64_t row, int64_t col, uint32_t code) const { put(w_, row, col, code); }
  void set_residual(int64_t row, int64_t col, int64_t q) const {
    put(c_, row, col, static_cast<uint32_t>(q));
  }
  /// What 1 of the residual stands for beside this code: ulp/2^bits.
  [[nodiscard]] double unit(int64_t row, int64_t col, uint32_t code) const {
    return std::ldexp(line_.ulp(code) * read_.scale_of(row, col), -c_.element->bits);
  }
  [[nodiscard]] float value(int64_t row, int64_t col) const { return read_(row, col); }
  /// w + c
  [[nodiscard]] float sum(int64_t row, int64_t col) const {
    const float q = decode(*c_.element, get(c_, row, col));
    return static_cast<float>(value(row, col) + q * unit(row, col, code(row, col)));
  }
  [[nodiscard]] const CodeLine& line() const { return line_; }

 private:
  static uint32_t get(const View& x, int64_t row, int64_t col) {
    const int bits = x.element->bits;
    return code_at(x.data, (row * x.stride + col) * bits, bits);
  }
  static void put(const View& x, int64_t row, int64_t col, uint32_t code) {
    const int bits = x.element->bits;
    const auto mask = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
    ref::set_code(x.data, (row * x.stride + col) * bits, bits, code & mask);
  }

  View w_, c_;
  CodeLine line_;
  Reader read_;
};

/// The residual of x beside the code that it was rounded to, which it may move on. [errata-2, 21]
void put_residual(const Pair& pair, int64_t row, int64_t col, float x, uint32_t random,
                  int64_t half) {
  uint32_t code = pair.code(row, col);
  const double unit = pair.unit(row, col, code);
  const bool has_rest = unit > 0 && !std::isnan(x);
  const double rest = has_rest ? (static_cast<double>(x) - pair.value(row, col)) / unit : 0;
  const double limit = static_cast<double>(half);
  auto q = static_cast<int64_t>(
      std::clamp(std::floor(rest + std::ldexp(static_cast<double>(random), -16)), -limit, limit));
  const CodeLine& line = pair.line();
  if (q == half && line.is_largest(code)) {
    q = half - 1;
  } else if (q == half) {
    const uint32_t next = line.next(code);
    q = line.ulp(next) > line.ulp(code) ? -half / 2 : -half;
    code = next;
  }
  pair.set_code(row, col, code);
  pair.set_residual(row, col, q);
}

}  // namespace

std::vector<float> with_residual(const UpdatedWeight& weight) {
  const Pair pair(weight);
  std::vector<float> sums;
  const View& w = weight.value.view;
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t c = 0; c < w.cols; ++c) sums.push_back(pair.sum(r, c));
  return sums;
}

void round_residual(const UpdatedWeight& weight, const Before& before) {
  std::vector<float> x = with_residual(weight);
  for (size_t i = 0; i < x.size(); ++i) x[i] += before.lr * before.u[i];
  store_weight(weight.value.rounded_by(Rounding::nearest), x);
  const Pair pair(weight);
  const View& w = weight.value.view;
  const int64_t half = int64_t{1} << (weight.carry.element->bits - 1);
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t c = 0; c < w.cols; ++c) {
      const uint32_t random =
          random_bits(before.key, static_cast<uint64_t>(r), static_cast<uint64_t>(c),
                      static_cast<uint64_t>(w.cols), 16);
      put_residual(pair, r, c, x[static_cast<size_t>(r * w.cols + c)], random, half);
    }
}

}  // namespace ng::ref
