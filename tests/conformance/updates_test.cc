// Tensors as they persist, and updates of them: `ref` fixes their bits, for every format, rule and
// optimizer, in shapes whose rows end inside blocks and bytes.
#include "stored_tensors.h"

namespace ng::conformance {
namespace {

TEST(Conformance, Store) {
  std::vector<Operand> casts = stored_casts();
  for (const Operand& cast : moment_casts()) casts.push_back(cast);
  for (const Size& size : kSizes)
    for (const Operand& cast : casts)
      conform(fmt::format("store {}x{} as {}", size.rows, size.cols, describe(cast)),
              [&](const Place& with) -> Results {
                StoredTensor y(with.backend, cast, size.rows, size.cols);
                const Tensor x = spread(with, size, 5, 3.0f);
                with.execute(
                    Store{.y = y.stored(),
                          .x = x,
                          .key = {.seed = 3, .tensor = 2, .step = 1, .purpose = Purpose::moment1}});
                Results results;
                add(results, "y", y);
                Tensor back = with.fp32(Matrix(size.rows, size.cols));
                with.execute(Store{.y = stored_plainly(back), .x = y.view(), .key = {}});
                results["values"] = back.values();
                return results;
              });
}

struct UpdatesCase {
  std::string name;
  UpdatedWeight weight;  ///< rule and casts; the tensors are the test's
  std::string_view carry;
  Operand moment1 = cast_of("fp32"), moment2 = cast_of("fp32");
  OptimizerRule optimizer = OptimizerRule::adamw;
};

UpdatesCase of(std::string name, const Operand& storage, UpdateRule rule,
               std::string_view carry = "") {
  UpdatesCase c{.name = std::move(name), .weight = {.rule = rule}, .carry = carry};
  c.weight.value.cast = storage;
  return c;
}

std::vector<UpdatesCase> cases() {
  std::vector<UpdatesCase> all;
  for (const Operand& storage : {cast_of("bf16"), cast_of("fp16"), scaled_by_power("fp8_e4m3"),
                                 scaled_by_power("fp8_e5m2")}) {
    const std::string name = describe(storage);
    all.push_back(of(name + " nearest", storage, UpdateRule::nearest));
    all.push_back(of(name + " stochastic", storage, UpdateRule::stochastic));
    all.push_back(of(name + " kahan", storage, UpdateRule::kahan, "bf16"));
    all.push_back(of(name + " residual 8", storage, UpdateRule::residual, "int8"));
    all.push_back(of(name + " residual 4", storage, UpdateRule::residual, "int4"));
    all.push_back(of(name + " precision aware", storage, UpdateRule::precision_aware));
    all.push_back(of(name + " precision aware as printed", storage, UpdateRule::precision_aware));
    all.back().weight.search = StepSearch::printed;
    all.push_back(of(name + " feedback", storage, UpdateRule::stochastic));
    all.back().weight.momentum_feedback = true;
    all.push_back(all.back());
    all.back().moment1 = scaled_by_power("fp8_e4m3");
    all.push_back(of(name + " sgd", storage, UpdateRule::stochastic));
    all.back().optimizer = OptimizerRule::sgd;
    all.push_back(of(name + " muon", storage, UpdateRule::residual, "int8"));
    all.back().optimizer = OptimizerRule::muon;
    all.push_back(of(name + " adam-mini feedback", storage, UpdateRule::stochastic));
    all.back().weight.momentum_feedback = true;
    all.back().optimizer = OptimizerRule::adam_mini;
  }
  for (const OptimizerRule rule : {OptimizerRule::muon, OptimizerRule::adam_mini}) {
    all.push_back(of(fmt::format("fp32 by {}", static_cast<int>(rule)), cast_of("fp32"),
                     UpdateRule::nearest));
    all.back().optimizer = rule;
  }
  for (const char* format : {"mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "nvfp4", "int8"}) {
    all.push_back(of(format, cast_of(format), UpdateRule::stochastic));
    all.push_back(of(format, cast_of(format), UpdateRule::kahan, "bf16"));
    all.push_back(of(fmt::format("{} feedback", format), cast_of(format), UpdateRule::stochastic));
    all.back().weight.momentum_feedback = true;
    all.back().moment1 = all.back().moment2 = cast_of("nvfp4");
  }
  for (const Operand& storage :
       {cast_of("mxfp8_e4m3"), cast_of("mxfp8_e5m2"), cast_of("mxfp6_e2m3"), cast_of("mxfp4"),
        cast_of("mxint8"), in_blocks("mxfp8_e4m3", 32, 32), cast_of("nvfp4"),
        in_blocks("nvfp4", 16, 16), cast_of("int8"), cast_of("fp8_e4m3"),
        in_blocks("fp8_e4m3", 1, 128)}) {
    all.push_back(of("residual 8 " + describe(storage), storage, UpdateRule::residual, "int8"));
    all.push_back(of("residual 4 " + describe(storage), storage, UpdateRule::residual, "int4"));
  }
  for (const Operand& moment : stored_casts()) {
    all.push_back(of("moments " + describe(moment), cast_of("fp32"), UpdateRule::nearest));
    all.back().moment1 = all.back().moment2 = moment;
  }
  for (const Operand& moment : moment_casts())
    for (const Operand& storage : {cast_of("fp32"), cast_of("bf16")}) {
      all.push_back(of(fmt::format("{} moments {}", describe(storage), describe(moment)), storage,
                       storage.is_fp32() ? UpdateRule::nearest : UpdateRule::stochastic));
      all.back().moment1 = all.back().moment2 = moment;
      all.back().moment1.is_positive = false;
    }
  for (const char* working : {"bf16", "mxfp4", "nvfp4", "int8"}) {
    all.push_back(
        of(fmt::format("fp16 master of {}", working), cast_of(working), UpdateRule::nearest));
    all.back().weight.master.cast = scaled_by_power("fp16");
  }
  all.push_back(of("fp8-lm", scaled_by_power("fp8_e4m3"), UpdateRule::nearest));
  all.back().weight.master.cast = scaled_by_power("fp16");
  all.back().moment1 = scaled_by_power("fp8_e4m3");
  all.back().moment2 = scaled_by_power("fp16");
  all.push_back(of("fp32 master", scaled_by_power("fp8_e4m3"), UpdateRule::nearest));
  all.back().weight.master.cast = cast_of("fp32");
  all.push_back(all.back());
  all.back().name = "copy of fp32 master";
  all.back().weight.keeps_scale = false;
  return all;
}

/// Three steps from weights of that size, and what they left; `report`: what the last one did.
Results steps_of(const UpdatesCase& c, const Size& size, const Place& with, float largest = 0.5f,
                 UpdateReport* report = nullptr) {
  const auto tensor = [&](const Operand& cast) {
    return std::make_unique<StoredTensor>(with.backend, cast, size.rows, size.cols);
  };
  const auto value = tensor(c.weight.value.cast), moment1 = tensor(c.moment1),
             moment2 = tensor(c.moment2);
  std::unique_ptr<StoredTensor> master, carry;
  const Tensor start = spread(with, size, 6, largest);
  with.execute(Store{.y = value->stored(), .x = start, .key = {}});
  Update op;
  op.optimizer = c.optimizer;
  op.weight = c.weight;
  op.weight.value = value->stored();
  if (c.weight.master.cast.element != nullptr) {
    master = tensor(c.weight.master.cast);
    op.weight.master = master->stored();
    with.execute(Store{.y = master->stored(), .x = start, .key = {}});
  }
  if (!c.carry.empty()) {
    Operand cast = cast_of("bf16");
    cast.element = &element_format(c.carry);
    carry = tensor(cast);
    op.weight.carry = carry->view();
  }
  if (c.optimizer != OptimizerRule::muon) op.moment1 = moment1->stored();
  if (c.optimizer == OptimizerRule::adamw) op.moment2 = moment2->stored();
  op.blocks = {{{{size.rows / 2, 1}, {size.rows - size.rows / 2, size.rows - size.rows / 2}}}};
  const StoredTensor of_blocks(with.backend, cast_of("fp32"), op.blocks.blocks(), 1);
  if (c.optimizer == OptimizerRule::adam_mini) op.moment2 = of_blocks.stored();
  const StepControl decided{.grad_scale = 0.7f, .skip = 0};
  Buffer<StepControl> control = with.buffer<StepControl>({decided});
  op.control = control.data();
  Buffer<UpdateReport> reports = with.buffer<UpdateReport>({{}});
  if (report != nullptr) op.report = reports.data();
  for (uint32_t step = 0; step < 3; ++step) {
    const Tensor grad = spread(with, size, 7 + step, 1e-2f);
    op.grad = grad;
    op.key = {.seed = 11, .tensor = 4, .step = step};
    op.numbers = {.lr = 2e-3f,
                  .beta1 = 0.9f,
                  .beta2 = 0.95f,
                  .eps = 1e-8f,
                  .weight_decay = 0.1f,
                  .correction1 = 1 - std::pow(0.9f, static_cast<float>(step + 1)),
                  .correction2 = 1 - std::pow(0.95f, static_cast<float>(step + 1))};
    if (c.optimizer == OptimizerRule::adam_mini)
      with.execute(MoveBlockMoment{.moment = of_blocks.view(),
                                   .grad = op.grad,
                                   .blocks = op.blocks,
                                   .beta2 = op.numbers.beta2,
                                   .control = op.control});
    with.execute(op);
  }
  if (report != nullptr) *report = reports.values().front();
  Results results;
  add(results, "value", *value);
  add(results, "moment of blocks", of_blocks);
  if (master) add(results, "master", *master);
  if (carry) add(results, "carry", *carry);
  add(results, "moment1", *moment1);
  add(results, "moment2", *moment2);
  return results;
}

TEST(Conformance, Update) {
  for (const Size& size : kSizes)
    for (const UpdatesCase& c : cases())
      conform(fmt::format("{} {}x{}", c.name, size.rows, size.cols),
              [&](const Place& with) { return steps_of(c, size, with); });
}

// Weights that begin at 0 have new scales in every step. Sums are FP64 in another order, rounded
// once, and of few enough terms not to show.
TEST(Conformance, UpdateReports) {
  for (const Size& size : {kSizes[0], kSizes[1], kSizes[2]})
    for (const float largest : {0.0f, 0.5f})
      for (const UpdatesCase& c : cases())
        conform(fmt::format("{} {}x{} from {}", c.name, size.rows, size.cols, largest),
                [&](const Place& with) -> Results {
                  UpdateReport report;
                  Results results = steps_of(c, size, with, largest, &report);
                  results["report"] = Matrix::row({static_cast<float>(report.update_squares),
                                                   static_cast<float>(report.target_squares),
                                                   static_cast<float>(report.product),
                                                   static_cast<float>(report.changed),
                                                   static_cast<float>(report.alpha)});
                  return results;
                });
}

// A scale of four times the values fits, but is not the one that they have without a past.
TEST(Conformance, CopiesOfMastersKeepNoScale) {
  const Size size = kSizes[0];
  for (const bool keeps : {true, false})
    conform(fmt::format("keeps its scale: {}", keeps), [&](const Place& with) -> Results {
      const auto tensor = [&](const Operand& cast) {
        return std::make_unique<StoredTensor>(with.backend, cast, size.rows, size.cols);
      };
      const auto value = tensor(scaled_by_power("fp8_e4m3")), anew = tensor(value->stored().cast),
                 master = tensor(cast_of("fp32"));
      with.execute(Store{.y = value->stored(), .x = spread(with, size, 6, 2.0f), .key = {}});
      with.execute(Store{.y = master->stored(), .x = spread(with, size, 6, 0.5f), .key = {}});
      const Tensor step = spread(with, size, 7, 1e-2f);
      Update op;
      op.optimizer = OptimizerRule::direction;
      op.weight.value = value->stored();
      op.weight.master = master->stored();
      op.weight.keeps_scale = keeps;
      op.grad = step;
      op.numbers = {.lr = 1};
      with.execute(op);
      with.execute(Store{.y = anew->stored(), .x = master->view(), .key = {}});
      EXPECT_EQ(value->scale_bytes() == anew->scale_bytes(), !keeps);
      EXPECT_EQ(value->codes() == anew->codes(), !keeps);
      Results results;
      add(results, "value", *value);
      return results;
    });
}

// Sums of squares are FP64 and rounded once: their order hardly ever shows, here never.
TEST(Conformance, MoveBlockMomentOfNarrowGradients) {
  for (const Size& size : kSizes)
    for (const Operand& cast : {cast_of("bf16"), scaled_by_power("fp8_e4m3"), cast_of("mxfp4")})
      conform(fmt::format("{} {}x{}", describe(cast), size.rows, size.cols),
              [&](const Place& with) -> Results {
                StoredTensor grad(with.backend, cast, size.rows, size.cols);
                const Tensor x = spread(with, size, 5, 3.0f);
                with.execute(Store{.y = grad.stored(), .x = x, .key = {}});
                const RowBlocks blocks = {{{{size.rows, 1}}}};
                Tensor v = with.fp32(Matrix(size.rows, 1).fill_uniform(4, 1));
                with.execute(MoveBlockMoment{
                    .moment = v, .grad = grad.view(), .blocks = blocks, .beta2 = 0.95f});
                return {{"v", v.values()}};
              });
}

TEST(Conformance, MoveMomentum) {
  for (const Size& size : kSizes)
    for (const Operand& cast : {cast_of("fp32"), cast_of("bf16"), in_blocks("fp8_e4m3", 1, 128),
                                moment_casts().front(), moment_casts().back()})
      for (const uint32_t skip : {0u, 1u})
        conform(fmt::format("{} {}x{}", describe(cast), size.rows, size.cols),
                [&](const Place& with) -> Results {
                  StoredTensor old(with.backend, cast, size.rows, size.cols);
                  const Tensor x = spread(with, size, 5, 3.0f), grad = spread(with, size, 8, 1);
                  with.execute(Store{.y = old.stored(), .x = x, .key = {}});
                  Tensor sum = with.fp32(Matrix(size.rows, size.cols)),
                         ahead = with.fp32(Matrix(size.rows, size.cols));
                  Buffer<StepControl> control =
                      with.buffer<StepControl>({{.grad_scale = 0.7f, .skip = skip}});
                  with.execute(MoveMomentum{.sum = sum,
                                            .ahead = ahead,
                                            .momentum = old.view(),
                                            .grad = grad,
                                            .mu = 0.95f,
                                            .control = control.data()});
                  return {{"sum", sum.values()}, {"ahead", ahead.values()}};
                });
}

/// Gradients of ordinary sizes, of sizes that only some states hold, and of infinities.
TEST(Conformance, CheckUpdate) {
  constexpr Size kSize{17, 129};
  for (const UpdatesCase& c : cases())
    for (const float gradient : {1e-2f, 1e3f, 3e20f, 3e38f}) {
      const auto check = [&](const Place& with) -> Results {
        const auto tensor = [&](const Operand& cast) {
          return std::make_unique<StoredTensor>(with.backend, cast, kSize.rows, kSize.cols);
        };
        const auto value = tensor(c.weight.value.cast), moment1 = tensor(c.moment1),
                   moment2 = tensor(c.moment2);
        const Tensor grad = spread(with, kSize, 7, gradient);
        StepControl decided{.grad_norm = 60.0 * gradient};
        Buffer<StepControl> control = with.buffer<StepControl>({decided});
        Update update;
        update.optimizer = c.optimizer;
        update.grad = grad;
        update.weight.value = value->stored();
        update.moment1 = moment1->stored();
        if (c.optimizer == OptimizerRule::adamw) update.moment2 = moment2->stored();
        update.blocks = {{{{kSize.rows, 1}}}};
        const StoredTensor of_rows(with.backend, cast_of("fp32"), kSize.rows, 1);
        if (c.optimizer == OptimizerRule::adam_mini) update.moment2 = of_rows.stored();
        update.numbers = {.lr = 2e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};
        update.control = control.data();
        with.execute(CheckUpdate{.update = update, .control = control.data(), .parameter = 5});
        const StepControl after = control.values().front();
        return {{"control",
                 Matrix::row({static_cast<float>(after.skip), static_cast<float>(after.overflowing),
                              static_cast<float>(after.overflowing_parameter)})}};
      };
      conform(fmt::format("{} {}", c.name, gradient), check);
    }
}

}  // namespace
}  // namespace ng::conformance
