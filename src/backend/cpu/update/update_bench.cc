// Updates of one big tensor as recipes store it, on one thread, each in turns with FP32 AdamW, so
// that both see the same neighbours. Prints medians: ns per parameter and the ratio of the two.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/cpu/update/update.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

constexpr int64_t kCols = 3072;
int64_t rows = 8192;  // of the tensor: 25 M parameters

Operand cast_of(std::string_view format, ScaleKind scale = ScaleKind::none,
                Rounding rounding = Rounding::nearest) {
  Operand cast = operand_of(format);
  cast.scale = scale;
  cast.rounding = rounding;
  return cast;
}
Operand stochastic(std::string_view format) {
  return cast_of(format, ScaleKind::none, Rounding::stochastic);
}
Operand in_blocks_of_128() {
  Operand cast = cast_of("fp8_e4m3", ScaleKind::fp32, Rounding::stochastic);
  cast.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
  return cast;
}

// Those it ran: other load on the machine counts less.
double seconds_of_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A tensor and its scales, freed with the benchmark.
class Memory {
 public:
  explicit Memory(const Operand& cast) : cast_(cast) {
    bytes_ = bytes_of(*cast.element, rows * kCols);
    data_ = allocate(bytes_);
    if (cast.is_unscaled()) return;
    const ScaleShape shape = scale_shape(cast, rows, kCols);
    scales_.assign(static_cast<size_t>(shape.rows * shape.cols), 1.0f);
  }
  ~Memory() { release(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] Stored stored() {
    View view{data_, *cast_.element, rows, kCols, kCols};
    if (!cast_.is_unscaled())
      view.scales = {reinterpret_cast<std::byte*>(scales_.data()), &fp32_format(), cast_.block,
                     nullptr};
    return {view, cast_};
  }

 private:
  Operand cast_;
  size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  std::vector<float> scales_;
};

struct Case {
  std::string_view name;
  Operand value = cast_of("fp32"), moment1 = cast_of("fp32"), moment2 = cast_of("fp32");
  Operand grad = cast_of("fp32");
  UpdateRule rule = UpdateRule::nearest;
  std::string_view carry{};
  bool has_master = false;
};

std::vector<Case> cases() {
  const Operand bf16 = cast_of("bf16"), e4m3 = cast_of("fp8_e4m3", ScaleKind::pow2);
  const Operand fp16 = cast_of("fp16", ScaleKind::pow2);
  return {
      {.name = "naive-bf16", .value = bf16},
      {.name = "sr-bf16", .value = bf16, .rule = UpdateRule::stochastic},
      {.name = "kahan-bf16", .value = bf16, .rule = UpdateRule::kahan, .carry = "bf16"},
      {.name = "residual-bf16", .value = bf16, .rule = UpdateRule::residual, .carry = "int8"},
      {.name = "adamw-fp8-states", .moment1 = in_blocks_of_128(), .moment2 = stochastic("bf16")},
      {.name = "fp8-lm",
       .value = e4m3,
       .moment1 = e4m3,
       .moment2 = fp16,
       .grad = e4m3,
       .has_master = true},
      {.name = "fp8-lm states", .moment1 = e4m3, .moment2 = fp16},
      {.name = "sr-fp8", .value = e4m3, .rule = UpdateRule::stochastic},
      {.name = "residual-fp8", .value = e4m3, .rule = UpdateRule::residual, .carry = "int8"},
      {.name = "precision-aware-bf16", .value = bf16, .rule = UpdateRule::precision_aware},
      {.name = "precision-aware-fp8", .value = e4m3, .rule = UpdateRule::precision_aware}};
}

// An update and the memory it works on. Gradients and weights are normal numbers.
class Job {
 public:
  Job(Workspace& workspace, const Case& c)
      : workspace_(workspace), value_(c.value), moment1_(c.moment1), moment2_(c.moment2) {
    fill(value_, 0.02f, 1);
    for (uint64_t seed = 2; seed < 5; ++seed) {
      grads_.emplace_back(c.grad);
      fill(grads_.back(), 1e-3f, seed);
    }
    op_.weight.value = value_.stored();
    op_.weight.rule = c.rule;
    if (c.has_master) {
      master_.emplace_back(cast_of("fp16", ScaleKind::pow2));
      fill(master_.back(), 0.02f, 1);
      op_.weight.master = master_.back().stored();
    }
    if (!c.carry.empty()) {
      Operand cast;
      cast.element = &element_format(c.carry);
      carry_.emplace_back(cast);
      op_.weight.carry = carry_.back().stored().view;
    }
    op_.moment1 = moment1_.stored();
    op_.moment2 = moment2_.stored();
    op_.numbers = {.lr = 1e-4f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f};
  }

  double seconds() {
    const auto t = static_cast<double>(++op_.key.step);
    grads_.splice(grads_.end(), grads_, grads_.begin());  // or u would be ±1 everywhere
    op_.grad = grads_.front().stored().view;
    op_.numbers.correction1 = static_cast<float>(1 - std::pow(0.9, t));
    op_.numbers.correction2 = static_cast<float>(1 - std::pow(0.95, t));
    const double start = seconds_of_thread();
    perform(workspace_, op_);
    return seconds_of_thread() - start;
  }

 private:
  // A million draws again and again: more would take longer than what is measured.
  void fill(Memory& memory, float scale, uint64_t seed) {
    std::vector<float> drawn(1000003);
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, scale);
    for (float& value : drawn) value = normal(random);
    std::vector<float> all(static_cast<size_t>(rows * kCols));
    for (size_t i = 0; i < all.size(); ++i) all[i] = drawn[i % drawn.size()];
    perform(workspace_,
            Store{.y = memory.stored(), .x = ConstView{all.data(), rows, kCols, kCols}, .key = {}});
  }

  Workspace& workspace_;
  Memory value_, moment1_, moment2_;
  std::list<Memory> master_, carry_, grads_;
  Update op_;
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

void compare(Workspace& workspace, const Case& c, int turns) {
  Job plain(workspace, {.name = "fp32"}), other(workspace, c);
  std::vector<double> plain_seconds, seconds, ratios;
  for (int i = 0; i < turns + 1; ++i) {
    const double a = plain.seconds(), b = other.seconds();
    if (i == 0) continue;  // first touches of memory
    plain_seconds.push_back(a);
    seconds.push_back(b);
    ratios.push_back(b / a);
  }
  const double ns = 1e9 / static_cast<double>(rows * kCols);
  fmt::print("{:22} {:6.2f} ns, fp32 {:5.2f} ns, ratio {:5.2f}\n", c.name, median(seconds) * ns,
             median(plain_seconds) * ns, median(ratios));
  std::fflush(stdout);
}

}  // namespace
}  // namespace ng::cpu

/// Arguments: a part of the cases' names, the number of turns, rows of 3,072 values (8: all stay in
/// a core's cache, so that arithmetic is what counts).
int main(int argc, char** argv) {
  ng::cpu::Workspace workspace({1});
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  const int turns = argc > 2 ? std::atoi(argv[2]) : 7;
  if (argc > 3) ng::cpu::rows = std::atoi(argv[3]);
  for (const ng::cpu::Case& c : ng::cpu::cases())
    if (c.name.find(wanted) != std::string_view::npos) ng::cpu::compare(workspace, c, turns);
  return 0;
}
