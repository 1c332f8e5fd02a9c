#include "tools/tensor_update.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ng {

TensorUpdate::TensorUpdate(Run& run, const Setup& setup)
    : run_(run),
      optimizer_(setup.optimizer),
      report_(run.persistent_values<UpdateReport>("update report", 1)),
      sum_of_squares_(run.persistent_values<double>("sum of squares", 1)),
      control_(run.persistent_values<StepControl>("update control", 1)) {
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
  forget_overflow();
  plan();
}

// Again where moments are of other types: Muon has other tensors for them.
void TensorUpdate::plan() {
  program_ = run_.record([&] {
    update(
        0, 0, [](const View& /* gradient */) {}, report_, false);
  });
  run_.reserve({&program_});
}

const NamedState* TensorUpdate::find(std::string_view name) const {
  const auto state = std::find_if(states_.begin(), states_.end(),
                                  [&](const NamedState& s) { return s.name == name; });
  return state == states_.end() ? nullptr : &*state;
}

bool TensorUpdate::has_residual() const {
  return parameter_.weight.rule == UpdateRule::residual && parameter_.weight.carry.rows > 0;
}

void TensorUpdate::give(const NamedState& state, std::span<const float> values) {
  const bool is_first = state.tensor.view.data == parameter_.moment1.view.data;
  Stored& moment = is_first ? parameter_.moment1 : parameter_.moment2;
  NG_CHECK(state.tensor.view.data == moment.view.data, state.name);
  const Stored exact = run_.stored({{.name = "given " + state.name,
                                     .owner = parameter_.spec.name,
                                     .rows = moment.view.rows,
                                     .cols = moment.view.cols,
                                     .is_saved = false},
                                    operand_of("fp32")});
  run_.upload(exact.view.as<float>().data, values);
  given_.emplace_back(&moment, moment);
  moment = exact;
  plan();
}

void TensorUpdate::store_given() {
  if (given_.empty()) return;
  for (const auto& [moment, stored] : given_) {
    run_.execute(Store{.y = stored, .x = moment->view, .key = {}});
    *moment = stored;
  }
  given_.clear();
  plan();
}

void TensorUpdate::update(float lr, int64_t step, const Put& put, UpdateReport* report,
                          bool measures) {
  const View gradient = gradient_target(run_, parameter_).view;
  put(gradient);
  if (measures) measure(gradient);
  if (optimizer_ != nullptr) {
    optimizer_->check(run_, parameter_, {.lr = lr, .step = step, .control = control_});
    optimizer_->update(run_, parameter_, {.lr = lr, .step = step, .report = report});
  } else {
    const Update update = along(gradient, lr, step, report);
    run_.execute(CheckUpdate{.update = update, .control = control_});
    run_.execute(update);
  }
  forget_step(parameter_);
}

void TensorUpdate::measure(const View& gradient) {
  run_.execute(Clear{std::as_writable_bytes(std::span(sum_of_squares_, 1))});
  run_.execute(AddSumOfSquares{sum_of_squares_, gradient});
  const StepControl known{.grad_norm = std::sqrt(run_.read(sum_of_squares_))};
  run_.upload(control_, std::span<const StepControl>(&known, 1));
}

Update TensorUpdate::along(const View& direction, float lr, int64_t step,
                           UpdateReport* report) const {
  return {
      .optimizer = OptimizerRule::direction,
      .weight = parameter_.weight,
      .grad = direction,
      .numbers = {.lr = lr},
      .key = {.seed = run_.seed(), .tensor = parameter_.id, .step = static_cast<uint32_t>(step)},
      .report = report};
}

std::string TensorUpdate::overflowing() const {
  const StoredState state = run_.read(control_).overflowing;
  const Stored* const stored[] = {nullptr, &parameter_.weight.value, &parameter_.weight.master,
                                  &parameter_.moment1, &parameter_.moment2};
  for (const NamedState& named : states_)
    if (state != StoredState::none &&
        named.tensor.view.data == stored[static_cast<size_t>(state)]->view.data)
      return named.name;
  return "";
}

// Of a gradient whose norm nobody knows CheckUpdate looks at every value.
void TensorUpdate::forget_overflow() {
  const StepControl unknown{.grad_norm = std::numeric_limits<double>::infinity()};
  run_.upload(control_, std::span<const StepControl>(&unknown, 1));
}

TensorUpdate::Put TensorUpdate::uploaded(std::span<const float> moves) {
  return [this, moves](const View& gradient) { run_.upload(gradient.as<float>().data, moves); };
}

void TensorUpdate::replay(float lr, int64_t step, const Put& put, UpdateReport* report,
                          bool measures) {
  run_.set_moment({.step = static_cast<uint32_t>(step), .micro = 0, .first_micro = 0, .micros = 1});
  run_.replay(program_, [&] { update(lr, step, put, report, measures); });
  store_given();
}

UpdateReport TensorUpdate::step(float lr, int64_t step, std::span<const float> moves) {
  run_.execute(Clear{std::as_writable_bytes(std::span(report_, 1))});
  forget_overflow();
  replay(lr, step, uploaded(moves), report_, false);
  return run_.read(report_);
}

void TensorUpdate::move(float lr, int64_t step, std::span<const float> moves) {
  forget_overflow();
  replay(lr, step, uploaded(moves), nullptr, true);
}

void TensorUpdate::move_there(float lr, int64_t step, const ConstView& gradient) {
  const Put copied = [&](const View& to) { run_.execute(Copy{.y = to, .x = gradient}); };
  replay(lr, step, copied, nullptr, false);
}

}  // namespace ng
