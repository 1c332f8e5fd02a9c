#include "train/carry_over.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "backend/ref/update/rules.h"
#include "base/json.h"
#include "base/units.h"
#include "comm/agreement.h"
#include "nn/linear.h"
#include "recipe/difference.h"
#include "recipe/layer_names.h"
#include "run/backends.h"
#include "run/transfer.h"

namespace ng {
namespace {

using Names = std::set<std::string>;

Names names_of(const StoredSpec& stored) {
  Names names;
  for (const PersistentSpec& row : stored.rows()) names.insert(row.name);
  return names;
}

/// Codes mean the same, however values are rounded to them.
bool is_stored_alike(const Operand& a, const Operand& b) {
  return a.rounded_by(Rounding::nearest) == b.rounded_by(Rounding::nearest);
}

bool same_cast(const std::optional<StoredSpec>& a, const std::optional<StoredSpec>& b) {
  return a.has_value() == b.has_value() && (!a || is_stored_alike(a->cast, b->cast));
}

/// A parameter that no ranks divide.
ParameterSpec undivided(const ParameterSpec& spec) {
  ParameterSpec whole = spec;
  whole.rows = spec.cut.whole_rows(spec.rows);
  whole.cols = spec.cut.whole_cols(spec.cols);
  whole.cut = {};
  return whole;
}

/// Memory of the host with whole tensors of a checkpoint.
class SavedTensors {
 public:
  explicit SavedTensors(const StateFiles& files)
      : files_(files), run_(make_backend("ref", {1}), 0) {}

  [[nodiscard]] std::vector<float> values(const StoredSpec& spec) {
    const Stored stored = run_.stored(spec);
    fill();
    return download(run_.backend(), stored.view);
  }
  /// What a weight stands for: its master, or its value and its carry.
  [[nodiscard]] std::vector<float> weights(const ParameterSpec& spec,
                                           const WeightStorage& storage) {
    const UpdatedWeight weight = claim_weight(run_, spec, storage);
    fill();
    if (weight.master) return download(run_.backend(), weight.master.view);
    if (weight.carry.rows > 0 && weight.rule == UpdateRule::residual)
      return ref::with_residual(weight);
    std::vector<float> sums = download(run_.backend(), weight.value.view);
    if (weight.carry.rows == 0) return sums;
    const std::vector<float> excess = download(run_.backend(), weight.carry);  // kahan
    std::transform(sums.begin(), sums.end(), excess.begin(), sums.begin(), std::minus<>());
    return sums;
  }

 private:
  void fill() {
    for (const Persistent* row : saved_rows(run_, false)) files_.read_into(run_, *row);
  }

  const StateFiles& files_;
  Run run_;
};

class Carrier {
 public:
  Carrier(const StateFiles& files, const RecipeInPhase& before, Run& run, Model& model,
          const RecipeInPhase& now, OptimizerSettings settings)
      : files_(files), before_(before), now_(now), run_(run), model_(model) {
    settings.heads = model.config().heads;
    settings.kv_heads = model.config().kv_heads;
    old_optimizer_ = make_optimizer(before.recipe.settings(0).optimizer, settings);
    new_optimizer_ = make_optimizer(now.recipe.settings(0).optimizer, settings);
  }

  CarriedState carry() {
    for (size_t i = 0; i < model_.parameters().size(); ++i) {
      if (model_.parameters()[i].spec.is_frozen) continue;
      carry_weight(i);
      carry_moments(i);
    }
    for (const Linear* linear : model_.linears()) carry_scales(*linear);
    carry_gradient_scales();
    std::array<uint64_t, 2> changed = {carried_.changed_weights, carried_.changed_moments};
    world().sum(changed);
    carried_.changed_weights = changed[0];
    carried_.changed_moments = changed[1];
    return carried_;
  }

 private:
  [[nodiscard]] Comm& world() const { return run_.ranks().world(); }

  /// What is stored as it was.
  void restore(const Names& names) {
    on_all(world(), [&] {
      for (const bool own : {false, true})
        for (const Persistent* row : saved_rows(run_, own))
          if (names.contains(row->spec.name)) files_.read_into(run_, *row);
    });
  }

  template <class Read>
  [[nodiscard]] std::vector<float> read(const Read& values) {
    std::vector<float> read;
    on_all(world(), [&] {
      SavedTensors saved(files_);
      read = values(saved);
    });
    return read;
  }

  /// The rows of an owned parameter, of the whole tensor of parameters()[index].
  [[nodiscard]] std::vector<float> rows_of(const std::vector<float>& whole, size_t index,
                                           const Parameter& owned) const {
    const ParameterSpec& spec = model_.parameters()[index].spec;
    const int64_t whole_cols = spec.cut.whole_cols(spec.cols);
    std::vector<float> mine(static_cast<size_t>(spec.rows * spec.cols));
    for (const CutPiece& at : pieces_of(spec.cut, spec.rows, spec.cols))
      for (int64_t row = 0; row < at.rows; ++row)
        std::copy_n(whole.begin() + (at.whole_row + row) * whole_cols + at.whole_col, at.cols,
                    mine.begin() + (at.row + row) * spec.cols + at.col);
    const auto first = mine.begin() + owned.first_row * spec.cols;
    return {first, first + owned.spec.rows * spec.cols};
  }

  [[nodiscard]] uint64_t count_changed(const std::vector<float>& before, const View& now) const {
    const std::vector<float> values = download(run_.backend(), now);
    uint64_t changed = 0;
    for (size_t i = 0; i < values.size(); ++i) changed += values[i] != before[i] ? 1 : 0;
    return changed;
  }

  void carry_weight(size_t index) {
    const ParameterSpec whole = undivided(model_.parameters()[index].spec);
    const int64_t depth = model_.config().layers;
    const WeightStorage was = weight_storage(before_.recipe, whole, depth);
    const WeightStorage is = weight_storage(now_.recipe, whole, depth);
    const WeightParts before = weight_parts(whole, was), now = weight_parts(whole, is);
    carried_.weights += static_cast<uint64_t>(whole.rows * whole.cols);
    if (is_stored_alike(before.value.cast, now.value.cast) &&
        same_cast(before.master, now.master) && same_cast(before.carry, now.carry)) {
      Names names = names_of(now.value);
      if (now.master) names.merge(names_of(*now.master));
      if (now.carry) names.merge(names_of(*now.carry));
      return restore(names);
    }
    const std::vector<float> values =
        read([&](SavedTensors& saved) { return saved.weights(whole, was); });
    for (int64_t row = 0; row < whole.rows; ++row)
      model_.write_row(run_, index, row,
                       std::span(values).subspan(static_cast<size_t>(row * whole.cols),
                                                 static_cast<size_t>(whole.cols)));
    for (const Parameter* owned : model_.owned_of(index)) {
      const UpdatedWeight& weight = owned->weight;
      carried_.changed_weights += count_changed(
          rows_of(values, index, *owned), weight.master ? weight.master.view : weight.value.view);
    }
  }

  void carry_moments(size_t index) {
    const ParameterSpec whole = undivided(model_.parameters()[index].spec);
    const std::vector<StoredSpec> before = old_optimizer_->states(whole),
                                  now = new_optimizer_->states(whole);
    NG_CHECK(before.size() == now.size(), whole.name);
    for (size_t i = 0; i < now.size(); ++i) {
      carried_.moments += static_cast<uint64_t>(now[i].spec.rows * now[i].spec.cols);
      if (is_stored_alike(before[i].cast, now[i].cast)) {
        restore(names_of(now[i]));
        continue;
      }
      const std::vector<float> values =
          read([&](SavedTensors& saved) { return saved.values(before[i]); });
      for (const Parameter* owned : model_.owned_of(index))
        put_moment(i == 0 ? owned->moment1 : owned->moment2, rows_of(values, index, *owned),
                   largest(values));
    }
  }

  [[nodiscard]] static float largest(const std::vector<float>& values) {
    float amax = 0;
    for (const float value : values) amax = std::max(amax, std::fabs(value));
    return amax;
  }

  void put_moment(Stored moment, const std::vector<float>& values, float amax) {
    moment.cast.overflow = Overflow::saturate;
    TemporaryTensor rows(run_.backend(), moment.view.rows, moment.view.cols);
    rows.upload(values);
    put_weight(run_, {.value = moment}, rows.view(), amax);
    carried_.changed_moments += count_changed(values, moment.view);
  }

  /// A history is one of values before their cast, but the scale beside it is of one format.
  void carry_scales(const Linear& linear) {
    const LayerPlace place{.name = linear.name(),
                           .block = layers::place_of(linear.name()).block,
                           .depth = model_.config().layers};
    const LinearRecipe was = before_.recipe.linear(place, before_.phase);
    for (size_t i = 0; i < kOperandRoles; ++i) {
      const auto role = static_cast<OperandRole>(i);
      const Operand& cast = cast_of(linear.recipe(), role);
      if (cast.scaling != Scaling::delayed) continue;
      const std::string stem = fmt::format("scale.{}.{}.", linear.name(), name_of(role));
      carry_history({stem + "encode", stem + "history"}, cast == cast_of(was, role));
    }
  }

  void carry_gradient_scales() {
    const GradientRecipe &was = before_.recipe.settings(0).gradient,
                         &is = now_.recipe.settings(0).gradient;
    const bool same = was.auto_scale == is.auto_scale && was.communicate == is.communicate &&
                      was.reduce == is.reduce && was.growth_interval == is.growth_interval;
    for (const Parameter& parameter : model_.parameters()) {
      if (parameter.auto_scale != nullptr)
        carry_history({"gradient_scale." + parameter.spec.name}, same);
      if (parameter.good_steps != nullptr)
        carry_history({"gradient_good_steps." + parameter.spec.name}, same);
    }
  }

  void carry_history(const Names& names, bool same) {
    bool goes_on = same;
    for (const Persistent* row : saved_rows(run_, false))
      if (names.contains(row->spec.name)) goes_on = goes_on && files_.has_as_stored(*row);
    ++(goes_on ? carried_.scales : carried_.new_scales);
    if (goes_on) restore(names);
  }

  const StateFiles& files_;
  RecipeInPhase before_, now_;
  Run& run_;
  Model& model_;
  std::unique_ptr<Optimizer> old_optimizer_, new_optimizer_;
  CarriedState carried_;
};

/// What noise learns is a function of these.
bool is_meaning(std::string_view key) {
  constexpr std::array<std::string_view, 6> kKeys = {
      "optimizer.kind",     "weight_noise.kind",   "weight_noise.layers",
      "weight_noise.block", "weight_noise.b_init", "weight_noise.b_target"};
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [&](std::string_view end) { return key.ends_with(end); });
}

bool has_noise(const Recipe& recipe) {
  for (const auto& [key, value] : recipe.values())
    if (key.ends_with("weight_noise.kind") && value != "\"none\"") return true;
  return false;
}

}  // namespace

std::string keys_without_meaning(const Recipe& before, const Recipe& now) {
  const bool noise = has_noise(before) || has_noise(now);
  std::vector<std::string> keys;
  for (const RecipeChange& change : changes(before, now))
    if (is_meaning(change.key) && (noise || change.key.ends_with("optimizer.kind")))
      keys.push_back(text_of(change));
  return fmt::format("{}", fmt::join(keys, ", "));
}

CarriedState carry_state(const StateFiles& files, const RecipeInPhase& before, Run& run,
                         Model& model, const RecipeInPhase& now,
                         const OptimizerSettings& settings) {
  return Carrier(files, before, run, model, now, settings).carry();
}

Json carried_json(const CarriedState& carried) {
  const auto part = [](uint64_t values, uint64_t changed) {
    return Json{{"values", values}, {"changed", changed}};
  };
  return {{"weights", part(carried.weights, carried.changed_weights)},
          {"moments", part(carried.moments, carried.changed_moments)},
          {"delayed_scales", {{"carried", carried.scales}, {"anew", carried.new_scales}}}};
}

std::string carried_text(const CarriedState& carried) {
  const auto part = [](uint64_t changed, uint64_t values, const char* what) {
    return fmt::format("{} of {} {}", count_text(static_cast<int64_t>(changed)),
                       count_text(static_cast<int64_t>(values)), what);
  };
  std::string text =
      part(carried.changed_weights, carried.weights, "weights and ") +
      part(carried.changed_moments, carried.moments, "values of moments are other numbers now");
  const uint64_t scales = carried.scales + carried.new_scales;
  if (scales > 0)
    text += ", " + part(carried.new_scales, scales, "scales with a history begin it anew");
  return text;
}

}  // namespace ng
