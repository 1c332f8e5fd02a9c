// Adam-mini: AdamW with one second moment for each block of rows,
// v = β2·v + (1-β2)·mean of g² over the block. Biases keep one for each value.
// [Zhang et al. 2024; recipes.md §6; errata-2, 16]
#include "optim/optimizer.h"
#include "optim/row_blocks.h"

namespace ng {
namespace {

// Biases, and the bit-widths of weight noise, keep a second moment for each value.
bool has_own_moments(const ParameterSpec& spec) { return !spec.name.ends_with(".weight"); }

class AdamMini final : public Optimizer {
 public:
  using Optimizer::Optimizer;

  [[nodiscard]] std::vector<StoredSpec> states(const ParameterSpec& spec) const override {
    StoredSpec moment2 = second_moment(spec);
    if (!has_own_moments(spec)) {
      moment2.cast = operand_of("fp32");
      moment2.spec.rows = blocks(spec).blocks();
      moment2.spec.cols = 1;
    }
    return {state(spec, "moment1", recipe_.moment1), moment2};
  }
  [[nodiscard]] OptimizerRule rule_of(const ParameterSpec& spec) const override {
    return has_own_moments(spec) ? OptimizerRule::adamw : OptimizerRule::adam_mini;
  }
  void check(Run& run, const Parameter& parameter, const OptimizerStep& step) const override {
    run.execute(CheckUpdate{.update = has_own_moments(parameter.spec)
                                          ? update_by(OptimizerRule::adamw, run, parameter, step)
                                          : update_with_blocks(run, parameter, step),
                            .control = step.control,
                            .parameter = parameter.id});
  }
  void update(Run& run, Parameter& parameter, const OptimizerStep& step) const override {
    if (has_own_moments(parameter.spec))
      return run.execute(update_by(OptimizerRule::adamw, run, parameter, step));
    const Update by_blocks = update_with_blocks(run, parameter, step);
    run.execute(MoveBlockMoment{.moment = parameter.moment2.view,
                                .grad = by_blocks.grad,
                                .blocks = by_blocks.blocks,
                                .beta2 = settings_.beta2,
                                .control = step.control});
    run.execute(by_blocks);
  }

 private:
  [[nodiscard]] Update update_with_blocks(const Run& run, const Parameter& parameter,
                                          const OptimizerStep& step) const {
    Update update = update_by(OptimizerRule::adam_mini, run, parameter, step);
    update.blocks = blocks(parameter.spec);
    return update;
  }
  [[nodiscard]] RowBlocks blocks(const ParameterSpec& spec) const {
    return row_blocks(spec, settings_.heads, settings_.kv_heads);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_adam_mini(const OptimizerRecipe& recipe,
                                          const OptimizerSettings& settings) {
  return std::make_unique<AdamMini>(recipe, settings);
}

}  // namespace ng
