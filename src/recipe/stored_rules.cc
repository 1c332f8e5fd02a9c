#include "recipe/stored_rules.h"

#include <fmt/format.h>

#include "backend/gradient_scale.h"
#include "base/error.h"
#include "recipe/update_words.h"

namespace ng {
namespace {

using Master = WeightStorage::Master;

bool rounds_plainly(const WeightStorage& w) {
  return w.update == UpdateRule::nearest && !w.momentum_feedback;
}

bool has_one_grid(const Operand& cast) { return cast.is_unscaled() || cast.has_one_power_of_two(); }

void check_weights(const RecipeSettings& settings, const std::string& place) {
  const WeightStorage& w = settings.weights;
  const auto refuse = [&](const char* key, std::string problem, const char* remedy) {
    throw Error({place, key, std::move(problem), remedy});
  };
  if (w.master != Master::none && w.storage.is_fp32())
    refuse("weights.master",
           fmt::format("\"{}\", a wider copy of weights that are fp32",
                       w.master == Master::fp32 ? "fp32" : "fp16"),
           "\"none\", or weights.storage narrower than fp32");
  if (w.master != Master::none && !rounds_plainly(w))
    refuse("weights.update", update_text(w) + " beside a master, which updates go into",
           "\"nearest\", or weights.master = \"none\"");
  if (w.master == Master::none && w.storage.is_fp32() && !rounds_plainly(w))
    refuse("weights.update", update_text(w) + " for weights stored in fp32 without master",
           "\"nearest\", or weights.storage narrower than fp32");
  const OptimizerRecipe::Kind kind = settings.optimizer.kind;
  if (w.momentum_feedback && kind != OptimizerRecipe::Kind::adamw &&
      kind != OptimizerRecipe::Kind::adam_mini)
    refuse("weights.update",
           update_text(w) + " without a second moment, by which the feedback is measured",
           "optimizer.kind = \"adamw\" or \"adam_mini\", or another rule");
  const Operand& moment = settings.optimizer.moment1;
  if (w.momentum_feedback && !moment.is_fp32() && moment.rounding == Rounding::nearest)
    refuse("optimizer.moment1",
           fmt::format("momentum_feedback into {}, which rounds away what is fed back",
                       moment.is_unscaled() ? moment.element->short_name : describe(moment)),
           "\"fp32\", or rounding = \"stochastic\"");
  if (w.update == UpdateRule::precision_aware && !has_one_grid(w.storage))
    refuse(
        "weights.update",
        fmt::format("precision_aware for {}, whose grid follows the values", describe(w.storage)),
        "weights.storage without scales, or with one pow2 scale for the tensor");
  if (w.storage.rounding == Rounding::stochastic)
    refuse("weights.storage.rounding", "weights.update says how weights are rounded",
           "weights.update = \"stochastic\"");
}

/// What is no GEMM's: it has no transform, and values of few bits need a scale.
void check_sent(const Operand& cast, const std::string& key, const std::string& place) {
  if (cast.is_unscaled() && cast.element->bits < 16)
    throw Error({place, key + ".scale",
                 fmt::format("{} elements without scale", cast.element->short_name),
                 "a scale; only fp32, bf16 and fp16 go without"});
  if (cast.other != nullptr)
    throw Error({place, key + ".element", "a list of elements, which are for operands of GEMMs",
                 "one element"});
  if (cast.rounding == Rounding::eden)
    throw Error({place, key + ".rounding", "\"eden\" without the transform of a GEMM",
                 "\"nearest\" or \"stochastic\""});
}

}  // namespace

// Nothing of it may depend on the step or be undone by a GEMM.
void check_stored_cast(const Operand& cast, const std::string& key, const std::string& place) {
  const auto refuse = [&](const char* part, std::string problem, const char* remedy) {
    throw Error({place, key + "." + part, std::move(problem), remedy});
  };
  check_sent(cast, key, place);
  if (cast.scaling != Scaling::current)
    refuse("scaling", "a stored tensor is scaled when it is stored", "\"current\"");
  if (cast.prescale != 1) refuse("prescale", "no GEMM undoes it for a stored tensor", "1.0");
  if (cast.overflow == Overflow::special && cast.element->short_name != "bf16")
    refuse("overflow", "a stored tensor saturates", "\"saturate\"");
  if (cast.sr_bits == 32) refuse("sr_bits", "a stored tensor draws 8 or 16 bits", "16");
  if (cast.scale_of != ScaleOf::amax)
    refuse("scale_of", "a stored tensor is scaled by its largest magnitude", "\"amax\"");
  if (cast.fit.size() > 0) refuse("fit", "fits are for operands of GEMMs", "the largest element");
  if (cast.scale_max != Operand{}.scale_max)
    refuse("scale_max", "fits are for operands of GEMMs", "448");
  if (cast.subnormals != Subnormals::keep)
    refuse("subnormals", "a stored tensor keeps them", "\"keep\"");
  if (cast.scale_rule == ScaleRule::mse)
    refuse("scale_rule", "mse is for operands of GEMMs", "\"floor\" or another");
}

void check_gradient(const GradientRecipe& gradient, const std::string& place) {
  const Operand& wire = gradient.communicate;
  check_stored_cast(wire, "gradient.communicate", place);
  const bool has_one_scale = !wire.is_unscaled() && wire.block.kind == Block::Kind::tensor;
  if (gradient.auto_scale && (!has_one_scale || wire.element->bits != 8))
    throw Error({place, "gradient.auto_scale",
                 fmt::format("{} has no scale of the whole tensor to lower", describe(wire)),
                 "gradient.communicate = { format = \"fp8_e4m3\", scale = \"pow2\" }"});
  const bool tells = !wire.is_unscaled() || wire.is_fp32() || wire.element->bits == 16;
  if (!tells)
    throw Error({place, "gradient.communicate",
                 fmt::format("{} without a scale, in which small gradients vanish", describe(wire)),
                 "a format with a scale, \"bf16\" or \"fp32\""});
  if (gradient.reduce == GradientRecipe::Reduce::wire && !wire.is_unscaled() &&
      !has_one_float_scale(wire))
    throw Error({place, "gradient.reduce",
                 fmt::format("\"wire\" adds codes, and {} has scales that ranks do not share",
                             describe(wire)),
                 "\"fp32\", or gradient.communicate with one scale for the tensor"});
}

void check_saved(const Operand& cast, const std::string& key, const std::string& place) {
  check_stored_cast(cast, key, place);
  if (cast.rounding != Rounding::nearest)
    throw Error(
        {place, key + ".rounding", "what is saved for backward draws nothing", "\"nearest\""});
}

void check_stored(const RecipeSettings& settings, const std::string& place) {
  const CommunicationRecipe& sent = settings.communication;
  check_sent(sent.activations, "communication.activations", place);
  check_sent(sent.weights, "communication.weights", place);
  check_sent(sent.sums, "communication.sums", place);
  check_weights(settings, place);
  check_gradient(settings.gradient, place);
  check_stored_cast(settings.weights.storage, "weights.storage", place);
  check_stored_cast(settings.weight_noise.cast, "weight_noise.cast", place);
  check_saved(settings.saved.norm, "saved.norm", place);
  check_saved(settings.saved.activation, "saved.activation", place);
  check_saved(settings.saved.attention, "saved.attention", place);
  check_stored_cast(settings.optimizer.moment1, "optimizer.moment1", place);
  check_stored_cast(settings.optimizer.moment2, "optimizer.moment2", place);
  if (settings.optimizer.kind == OptimizerRecipe::Kind::sgd &&
      !settings.optimizer.moment2.is_fp32())
    throw Error({place, "optimizer.moment2", "sgd has no second moment",
                 "optimizer.kind = \"adamw\", or moment2 = \"fp32\""});
}

}  // namespace ng
