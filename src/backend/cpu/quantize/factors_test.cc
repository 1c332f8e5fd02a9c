// What roundings let through of products: the kernels beside the definition.
#include <cstring>
#include <functional>

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/quantize/put_product.h"
#include "backend/cpu/quantize/quantize_testing.h"
#include "base/sanitized_testing.h"

namespace ng {
namespace {

template <class Value>
std::vector<Value> passed(const RoundingBackward& given, bool by_definition) {
  RoundingBackward op = given;
  std::vector<Value> y(static_cast<size_t>(op.x.size()));
  for (size_t i = 0; i < y.size(); ++i) cpu::put_value(static_cast<float>(i % 7) - 3, y[i]);
  op.y = {y.data(), op.x.rows, op.x.cols, op.x.cols};
  cpu::Workspace workspace({2});
  if (by_definition)
    ref::perform(op);
  else
    cpu::rounding_backward(workspace, op);
  return y;
}

template <class Value>
void expect_same_passed(const RoundingBackward& op) {
  const std::vector<Value> want = passed<Value>(op, true);
  cpu::on_every_isa([&] {
    const std::vector<Value> got = passed<Value>(op, false);
    EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(Value)), 0)
        << describe(op.spec.cast) << ' ' << op.spec.hadamard.size;
  });
}

void expect_passes(const Operand& cast, int hadamard, Data data, Storage storage) {
  if (is_left_out()) return;
  constexpr int64_t kDown = 37, kAcross = 1100;
  const Source source = make_source(data, kDown, kAcross, kAcross + 3, storage);
  RoundingBackward op{.y = {},
                      .x = {},
                      .spec = spec_of(cast, Contract::cols, hadamard, {kDown, kAcross}),
                      .source = source.stored,
                      .context = {}};
  float encode_scale = 3, history[4] = {};
  op.context.key = {.seed = 9, .tensor = 5, .step = 7, .purpose = Purpose::fprop_input, .micro = 2};
  op.context.delayed = {&encode_scale, history};
  op.context.update_history = false;
  const int64_t cols = hadamard > 0 ? op.spec.k_padded() : kAcross;
  const Source product = make_source(Data::normal, kDown, cols, cols, Storage::fp32);
  op.x = product.view;
  ASSERT_NO_FATAL_FAILURE(expect_same_passed<float>(op));
  op.into = Into::add;
  op.round = Compute::bf16;
  ASSERT_NO_FATAL_FAILURE(expect_same_passed<float>(op));
  ASSERT_NO_FATAL_FAILURE(expect_same_passed<Bf16>(op));
}

Operand cast_like(const char* format, RoundingGradient gradient,
                  const std::function<void(Operand&)>& change = {}) {
  Operand cast = operand_of(format);
  cast.gradient = gradient;
  if (change) change(cast);
  return cast;
}

TEST(RoundingBackward, HasTheBitsOfTheDefinition) {
  using enum RoundingGradient;
  const Operand casts[] = {
      cast_like("mxfp4", clip),
      cast_like("mxfp4", dge, [](Operand& c) { c.scale_of = ScaleOf::rms, c.prescale = 0.75f; }),
      cast_like("mxfp6_e3m2", dge, [](Operand& c) { c.block.rows = 8, c.dge_k = 2.5f; }),
      cast_like("nvfp4", clip,
                [](Operand& c) {
                  c.fit = {6, 4}, c.scale_max = 256;
                }),
      cast_like("nvfp4", dge, [](Operand& c) { c.rounding = Rounding::stochastic; }),
      cast_like("int8", dge),
      cast_like("int4", clip, [](Operand& c) { c.scale_of = ScaleOf::mean_abs; }),
      cast_like("fp8_e4m3", dge),
      cast_like("fp8_e5m2", clip, [](Operand& c) { c.scaling = Scaling::delayed; }),
      cast_like("fp8_e4m3", dge, [](Operand& c) { c.scale = ScaleKind::none; })};
  for (const Operand& cast : casts)
    for (const Data data : {Data::normal, Data::zeros, Data::tiny}) {
      ASSERT_NO_FATAL_FAILURE(expect_passes(cast, 0, data, Storage::fp32));
      ASSERT_NO_FATAL_FAILURE(expect_passes(cast, 32, data, Storage::bf16));
    }
}

}  // namespace
}  // namespace ng
