// A parameter by itself under an optimizer that keeps one value per row, and needs memory of the
// step: whatever it registers is found, read and written.
#include "tools/tensor_update.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "run/backends.h"
#include "run/transfer.h"
#include "support/scratch_folder.h"
#include "tools/update_states.h"

namespace ng {
namespace {

/// momentum = gradient, by way of a temporary; moment2 counts steps, one value per row.
class PerRow final : public Optimizer {
 public:
  PerRow() : Optimizer({.kind = OptimizerRecipe::Kind::sgd, .moment1 = {}, .moment2 = {}}, {}) {}

  [[nodiscard]] std::vector<StoredSpec> states(const ParameterSpec& spec) const override {
    StoredSpec per_row = state(spec, "moment2", operand_of("fp32"));
    per_row.spec.cols = 1;
    return {state(spec, "momentum", operand_of("fp32")), per_row};
  }
  void check(Run& /* run */, const Parameter& /* parameter */,
             const OptimizerStep& /* step */) const override {}
  void update(Run& run, Parameter& parameter, const OptimizerStep& step) const override {
    const Tensor copy = run.tensor_like(parameter.grad);
    run.execute(Copy{.y = copy, .x = parameter.grad});
    run.execute(Copy{.y = parameter.moment1.view, .x = copy});
    run.execute(Fill{parameter.moment2.view, static_cast<float>(step.step)});
  }
};

class TensorUpdateTest : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
};

TEST_F(TensorUpdateTest, TakesStatesAsTheOptimizerRegistersThem) {
  const std::vector<float> w = {1, 2, 3, 4, 5, 6}, per_row = {7, 8};
  io::write_safetensors(in("in"), {{"weight", "F32", {2, 3}, w.data()},
                                   {"grad", "F32", {1, 2, 3}, w.data()},
                                   {"state.moment2", "F32", {2}, per_row.data()}});
  const UpdateInput input(in("in"));
  ng::Run run(make_backend("cpu", Threads{1}), 1);
  const PerRow optimizer;
  ParameterSpec spec;
  spec.name = "blocks.0.mlp.up.weight";
  spec.rows = 2;
  spec.cols = 3;
  TensorUpdate update(
      run,
      {.spec = spec, .tensor_id = 0, .storage = LayerRecipe().weights, .optimizer = &optimizer});
  put_start(input, run, update);
  StateWriter writer(in("out"), update, {0, 5}, {});
  EXPECT_TRUE(writer.write(run.backend(), 0).empty());
  for (int64_t step = 0; step < 5; ++step) (void)update.step(0.1f, step, w);
  EXPECT_TRUE(writer.write(run.backend(), 5).empty());
  writer.commit();

  const io::Safetensors out(in("out"));
  std::vector<std::string> names;
  for (const io::SafetensorsEntry& entry : out.entries()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"step0.weight", "step0.momentum", "step0.moment2",
                                             "step5.weight", "step5.momentum", "step5.moment2"}));
  EXPECT_EQ(out.at("step0.moment2").shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(io::to_floats(out.at("step0.moment2")), per_row);
  EXPECT_EQ(io::to_floats(out.at("step5.moment2")), (std::vector<float>{4, 4}));
  EXPECT_EQ(io::to_floats(out.at("step5.momentum")), w);
  EXPECT_EQ(io::to_floats(out.at("step5.weight")), w);
}

}  // namespace
}  // namespace ng
