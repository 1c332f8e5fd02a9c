#include "train/tensor_update.h"

#include <algorithm>

namespace ng {

TensorUpdate::TensorUpdate(Run& run, const Setup& setup)
    : run_(run),
      optimizer_(setup.optimizer),
      report_(run.persistent_values<UpdateReport>("update report", 1)) {
  parameter_.spec = setup.spec;
  parameter_.id = setup.tensor_id;
  parameter_.weight = claim_weight(run, setup.spec, setup.storage);
  if (optimizer_ != nullptr) optimizer_->claim(run, parameter_);
  const UpdatedWeight& weight = parameter_.weight;
  // The register knows what each is called: optimizers name their states.
  const std::string of_parameter = "." + setup.spec.name;
  for (const Stored& tensor :
       {weight.value, weight.master, parameter_.moment1, parameter_.moment2}) {
    if (!tensor) continue;
    const auto row =
        std::find_if(run.persistents().begin(), run.persistents().end(),
                     [&](const Persistent& p) { return p.memory.data() == tensor.view.data; });
    NG_CHECK(row != run.persistents().end() && row->spec.name.ends_with(of_parameter),
             setup.spec.name);
    const std::string& name = row->spec.name;
    states_.push_back({name.substr(0, name.size() - of_parameter.size()), tensor});
  }
  if (weight.carry.rows > 0)
    states_.push_back({has_residual() ? "residual" : "compensation", stored_plainly(weight.carry)});
  program_ = run.record([&] { update(0, 0, {}); });
  run.reserve({&program_});
}

const NamedState* TensorUpdate::find(std::string_view name) const {
  const auto state = std::find_if(states_.begin(), states_.end(),
                                  [&](const NamedState& s) { return s.name == name; });
  return state == states_.end() ? nullptr : &*state;
}

bool TensorUpdate::has_residual() const {
  return parameter_.weight.rule == UpdateRule::residual && parameter_.weight.carry.rows > 0;
}

void TensorUpdate::update(float lr, int64_t step, std::span<const float> moves) {
  const View gradient = gradient_target(run_, parameter_).view;
  run_.upload(gradient.as<float>().data, moves);
  if (optimizer_ != nullptr)
    optimizer_->update(run_, parameter_, {.lr = lr, .step = step, .report = report_});
  else
    run_.execute(Update{
        .optimizer = OptimizerRule::direction,
        .weight = parameter_.weight,
        .grad = gradient,
        .numbers = {.lr = lr},
        .key = {.seed = run_.seed(), .tensor = parameter_.id, .step = static_cast<uint32_t>(step)},
        .report = report_});
  forget_step(parameter_);
}

UpdateReport TensorUpdate::step(float lr, int64_t step, std::span<const float> moves) {
  run_.set_moment({.step = static_cast<uint32_t>(step), .micro = 0, .micros = 1});
  run_.execute(Clear{std::as_writable_bytes(std::span(report_, 1))});
  run_.replay(program_, [&] { update(lr, step, moves); });
  return run_.read(report_);
}

}  // namespace ng
