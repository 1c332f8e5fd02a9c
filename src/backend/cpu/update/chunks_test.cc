// Updates in chunks against the definition, bit for bit: tensors long enough for whole chunks and a
// rest, stored in every kind, with gradients of every kind and magnitude.
#include "backend/cpu/update/chunks.h"

#include <random>

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/update/update.h"
#include "backend/ref/update/store.h"
#include "backend/ref/update/update.h"
#include "base/sanitized_testing.h"

namespace ng::cpu {
namespace {

constexpr int64_t kRows = 3, kCols = 2 * kChunk + 128;  // whole blocks

Operand cast_of(std::string_view format, ScaleKind scale = ScaleKind::none,
                Rounding rounding = Rounding::nearest) {
  Operand cast = operand_of(format);
  cast.scale = scale;
  cast.rounding = rounding;
  return cast;
}
Operand blocks_of(int cols, Rounding rounding) {
  Operand cast = cast_of("fp8_e4m3", ScaleKind::fp32, rounding);
  cast.block = {.kind = Block::Kind::tile, .rows = 1, .cols = cols};
  return cast;
}

// A tensor and its scales.
class Tensor {
 public:
  Tensor(const Operand& cast, const std::vector<float>& values) : cast_(cast) {
    bytes_.resize(bytes_of(*cast.element, kRows * kCols));
    if (!cast.is_unscaled()) {
      const ScaleShape shape = scale_shape(cast, kRows, kCols);
      scales_.assign(static_cast<size_t>(shape.rows * shape.cols), 1.0f);
    }
    if (!values.empty()) ref::store(stored(), values);
  }
  [[nodiscard]] Stored stored() {
    View view{bytes_.data(), *cast_.element, kRows, kCols, kCols};
    if (!scales_.empty())
      view.scales = {reinterpret_cast<std::byte*>(scales_.data()), &fp32_format(), cast_.block,
                     nullptr};
    return {view, cast_};
  }
  void add_to(std::vector<float>& all) const {
    for (const std::byte b : bytes_) all.push_back(std::to_integer<int>(b));
    all.insert(all.end(), scales_.begin(), scales_.end());
  }

 private:
  Operand cast_;
  std::vector<std::byte> bytes_;
  std::vector<float> scales_;
};

struct Case {
  std::string_view name;
  Operand value = cast_of("fp32"), master{};
  Operand moment1 = cast_of("fp32"), moment2 = cast_of("fp32"), grad = cast_of("fp32");
  UpdateRule rule = UpdateRule::nearest;
  std::string_view carry{};
};

std::vector<Case> cases() {
  const Operand bf16 = cast_of("bf16"), e4m3 = cast_of("fp8_e4m3", ScaleKind::pow2);
  const Operand fp16 = cast_of("fp16", ScaleKind::pow2), fp32 = cast_of("fp32");
  const Operand sr16 = cast_of("bf16", ScaleKind::none, Rounding::stochastic);
  std::vector<Case> all;
  for (const Operand& value : {bf16, e4m3})
    for (const UpdateRule rule : {UpdateRule::nearest, UpdateRule::stochastic, UpdateRule::kahan,
                                  UpdateRule::residual, UpdateRule::precision_aware}) {
      all.push_back({.name = "without master", .value = value, .rule = rule});
      if (rule == UpdateRule::kahan) all.back().carry = "bf16";
      if (rule == UpdateRule::residual) all.back().carry = "int8";
    }
  all.push_back({.name = "states", .moment1 = blocks_of(16, Rounding::nearest), .grad = bf16});
  all.push_back({.name = "stochastic states",
                 .moment1 = blocks_of(128, Rounding::stochastic),
                 .moment2 = sr16});
  all.push_back({.name = "fp8-lm",
                 .value = e4m3,
                 .master = fp16,
                 .moment1 = e4m3,
                 .moment2 = fp16,
                 .grad = e4m3});
  all.push_back({.name = "fp8-lm states", .moment1 = e4m3, .moment2 = fp16, .grad = bf16});
  all.push_back({.name = "fp32 master", .value = e4m3, .master = fp32, .grad = fp16});
  all.push_back({.name = "bf16 beside fp32", .value = bf16, .master = fp32});
  return all;
}

std::vector<float> spread(uint64_t seed, float scale) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> all(kRows * kCols);
  for (size_t i = 0; i < all.size(); ++i) all[i] = normal(random) * pow2(-static_cast<int>(i % 9));
  return all;
}

// Three steps by `update`, and what is stored after them.
template <class Perform>
std::vector<float> after(const Case& c, float scale, const Perform& update) {
  Tensor value(c.value, spread(1, 0.5f * scale)), moment1(c.moment1, {}), moment2(c.moment2, {});
  std::vector<Tensor> more;
  more.reserve(2);
  Update op;
  op.weight.value = value.stored();
  op.weight.rule = c.rule;
  if (c.master.element != nullptr)
    op.weight.master = more.emplace_back(c.master, spread(1, 0.5f * scale)).stored();
  if (!c.carry.empty()) {
    Operand cast;
    cast.element = &element_format(c.carry);
    op.weight.carry = more.emplace_back(cast, std::vector<float>()).stored().view;
  }
  op.moment1 = moment1.stored();
  op.moment2 = moment2.stored();
  StepControl control{.grad_scale = 0.7f};
  op.control = &control;
  for (uint32_t step = 0; step < 3; ++step) {
    std::vector<float> g = spread(2 + step, 1e-2f * scale);
    std::fill_n(g.begin() + 100, 50, 0.0f);
    Tensor grad(c.grad, g);
    op.grad = grad.stored().view;
    op.key = {.seed = 11, .tensor = 4, .step = step};
    const auto t = static_cast<double>(step + 1);
    op.numbers = {.lr = 2e-3f,
                  .beta1 = 0.9f,
                  .beta2 = 0.95f,
                  .eps = 1e-8f,
                  .weight_decay = 0.1f,
                  .correction1 = static_cast<float>(1 - std::pow(0.9, t)),
                  .correction2 = static_cast<float>(1 - std::pow(0.95, t))};
    update(op);
  }
  std::vector<float> all;
  for (const Tensor* tensor : {&value, &moment1, &moment2}) tensor->add_to(all);
  for (const Tensor& tensor : more) tensor.add_to(all);
  return all;
}

TEST(Chunks, HaveTheBitsOfTheDefinition) {
  for (const float scale : {1.0f, 0x1p-60f, 0x1p30f, 0x1p124f})
    for (const Case& c : cases()) {
      if (is_left_out()) continue;
      SCOPED_TRACE(
          fmt::format("{} {} {} {}", c.name, describe(c.value), static_cast<int>(c.rule), scale));
      const std::vector<float> expected =
          after(c, scale, [](const Update& op) { ref::perform(op); });
      const std::vector<float> got = on_every_machine([&](Workspace& workspace) {
        return after(c, scale, [&](const Update& op) { perform(workspace, op); });
      });
      ASSERT_TRUE(same_bits(got, expected));
    }
}

}  // namespace
}  // namespace ng::cpu
