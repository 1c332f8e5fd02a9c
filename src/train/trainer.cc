#include "train/trainer.h"

#include <functional>

#include "comm/agreement.h"

namespace ng {
namespace {

OptimizerSettings for_model(OptimizerSettings settings, const ModelConfig& model) {
  settings.heads = model.heads;
  settings.kv_heads = model.kv_heads;
  return settings;
}

}  // namespace

Trainer::Trainer(Run& run, Model& model, const Recipe& recipe, const StepSettings& settings,
                 Model* reference)
    : run_(run),
      model_(model),
      settings_(settings),
      parallel_(run, model, settings.determinism, settings.micros),
      optimizer_(make_optimizer(recipe.settings(0).optimizer,
                                for_model(settings.optimizer, model.config()))),
      tokens_(run, settings.sequences * settings.length, settings.micros + 1,
              settings.document_mask),
      control_(run.persistent_values<StepControl>("step control", 1)),
      sum_of_squares_(run.persistent_values<double>("sum of squares", 1)),
      evaluation_loss_(run.persistent_values<double>("evaluation loss", 1)),
      operand_errors_(run) {
  NG_CHECK(settings_.dpo.has_value() == (reference != nullptr));
  if (reference != nullptr)
    dpo_.emplace(run_, model_, *reference, *settings_.dpo, settings_.micros);
  for (Parameter* owned : model_.owned()) optimizer_->claim(run_, *owned);
  shared_scales_.emplace(run_, model_, *optimizer_);
  const size_t count = model_.owned().size();
  update_reports_ = {run_.persistent_values<UpdateReport>("update reports", count), count};
  record_programs(recipe);
}

void Trainer::record_programs(const Recipe& recipe) {
  const auto phases = static_cast<int>(recipe.phase_starts().size());
  for (int phase = 0; phase < phases; ++phase) {
    const auto in_phase = [&](const auto& body) {
      return run_.record([&] {
        set_phase(phase);
        body();
      });
    };
    train_programs_.push_back(in_phase([&] {
      forward_backward(0);
      update(0, 0.0f);
    }));
    repeated_steps_.push_back(run_.backend().make_repeated_step());
    diagnosis_programs_.push_back(in_phase([&] {
      forward_backward(0);
      forget_step();
    }));
    evaluation_programs_.push_back(in_phase([&] { evaluate_body(); }));
  }
  std::vector<const Program*> all;
  for (const auto* programs : {&train_programs_, &diagnosis_programs_, &evaluation_programs_})
    for (const Program& program : *programs) all.push_back(&program);
  run_.reserve(all);
  set_phase(0);
}

MemoryPlan Trainer::memory() const {
  const Program* largest = &train_programs_.front();
  for (const auto* programs : {&train_programs_, &diagnosis_programs_, &evaluation_programs_})
    for (const Program& program : *programs)
      if (program.bytes > largest->bytes) largest = &program;
  MemoryPlan plan;
  plan.bytes = plan.most = run_.persistent_by_kind();
  plan.stored = stored_parts(run_);
  size_t live = 0;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
    plan.bytes[kind] += largest->at_peak[kind];
    plan.most[kind] += largest->most[kind];
    live += largest->at_peak[kind];
  }
  plan.gaps = largest->bytes - live;
  plan.total = plan.gaps;
  for (const size_t bytes : plan.bytes) plan.total += bytes;
  return plan;
}

BatchSpans Trainer::train_tokens(int64_t micro) {
  NG_CHECK(micro >= 0 && micro < settings_.micros, micro);
  return tokens_.host(micro);
}

BatchSpans Trainer::evaluation_tokens() { return tokens_.host(settings_.micros); }

void Trainer::set_phase(int phase) {
  phase_ = phase;
  model_.set_phase(run_, phase);
  if (dpo_) dpo_->set_phase(phase);
}

Batch Trainer::train_batch(int64_t micro) const {
  return {.inputs = tokens_.inputs(micro),
          .targets = tokens_.targets(micro),
          .mask = settings_.masked ? tokens_.mask(micro) : ConstView{},
          .at = {.sequences = settings_.sequences, .length = settings_.length, .first = 0},
          .first_keys = tokens_.first_keys(micro),
          .target_count = parallel_.target_count(terms()),
          .cache = nullptr};
}

int64_t Trainer::terms() const {
  if (dpo_) return settings_.sequences / 2 * parallel_.micros_of_all();
  return std::max<int64_t>(targets_, 1);
}

void Trainer::train_micro(int64_t step, int64_t micro) {
  run_.set_moment(parallel_.moment(step, micro));
  const PartDone done = [this, micro](const BackwardPart& part) { parallel_.take(micro, part); };
  if (dpo_)
    dpo_->train_batch(train_batch(micro), micro, parallel_.loss(control_, micro), done);
  else
    model_.train_batch(run_, train_batch(micro), parallel_.loss(control_, micro), done);
}

// However many micro-batches there are, those between the first and the last do the same.
void Trainer::forward_backward(int64_t step) {
  parallel_.start(control_);
  if (dpo_) dpo_->start();
  run_.execute(Clear{std::as_writable_bytes(model_.stats())});
  const int64_t last = settings_.micros - 1;
  const auto between = [&](int64_t i) { train_micro(step, 1 + i); };
  train_micro(step, 0);  // gradients come to be, and operands that all read
  if (parallel_.takes_all_alike())
    run_.repeat(last - 1, between);
  else
    for (int64_t i = 0; i < last - 1; ++i) between(i);
  parallel_.pass_to(last);
  if (last > 0) train_micro(step, last);
  parallel_.finish(control_);
  model_.finish_noise(run_);
}

void Trainer::update(int64_t step, float lr) {
  parallel_.sum_squares(sum_of_squares_);
  run_.execute(DecideStep{.control = control_,
                          .sum_of_squares = sum_of_squares_,
                          .clip = settings_.clip,
                          .stats = model_.stats().data(),
                          .stats_count = static_cast<int64_t>(model_.stats().size())});
  OptimizerStep now{.lr = lr, .step = step, .control = control_};
  for (const Parameter* owned : model_.owned()) optimizer_->check(run_, *owned, now);
  parallel_.share_decision(control_);
  parallel_.move_gradient_scales(control_);
  if (reports_details_) now.report = update_reports_.data();
  shared_scales_->find(now);
  for (size_t i = 0; i < model_.parameters().size(); ++i) {
    shared_scales_->update(i, now);
    parallel_.send_updated(i);
  }
  parallel_.finish_sending();
  shared_scales_->forget();
  forget_step();
}

void Trainer::forget_step() {
  model_.forget_step();
  parallel_.forget_step();
}

bool Trainer::is_left_to_backend() const {
  return parallel_.is_left_to_backend() && !reports_details_ && !gradient_observer_;
}

StepNumbers Trainer::numbers_of(int64_t step, float lr) const {
  const OptimizerNumbers numbers = optimizer_->numbers_of({}, lr, step);
  return {.step = static_cast<uint32_t>(step),
          .lr = numbers.lr,
          .correction1 = numbers.correction1,
          .correction2 = numbers.correction2,
          .loss_scale = train_batch(0).loss_scale()};
}

StepReport Trainer::step(int64_t step, float lr) {
  run_.ranks().world().note_step(step);
  const BytesByTraffic sent_before = run_.ranks().sent();
  const ExchangeSeconds before = parallel_.seconds();
  tokens_.upload(run_, 0, settings_.micros);
  targets_ = settings_.masked ? parallel_.sum(tokens_.count_targets(0, settings_.micros))
                              : tokens_per_step();
  const bool updates = targets_ > 0;
  const std::vector<Program>& programs = updates ? train_programs_ : diagnosis_programs_;
  if (reports_details_) operand_errors_.forget();
  run_.set_operand_observer(reports_details_ ? &operand_errors_ : nullptr);
  const auto phase = static_cast<size_t>(phase_);
  const auto operations = [&] {
    run_.replay(programs[phase], [&] {
      forward_backward(step);
      if (gradient_observer_) gradient_observer_();
      if (updates)
        update(step, lr);
      else
        forget_step();
    });
  };
  if (updates && is_left_to_backend())
    repeated_steps_[phase]->run(numbers_of(step, lr), std::cref(operations));
  else
    operations();
  run_.set_operand_observer(nullptr);
  const StepControl control = run_.read(control_);  // the one read of the step
  parallel_.share_largest();
  model_.roll_scales(run_, control.skip != 0 || !updates);
  StepReport report = report_of(control);
  if (dpo_) report.preferences = metrics_of(dpo_->of_step());
  report.sent = parallel_.sent_since(sent_before);
  const ExchangeSeconds now = parallel_.seconds();
  report.exchange = {.busy = now.busy - before.busy, .waited = now.waited - before.waited};
  run_.add_seconds(TimeKind::communication, report.exchange.waited);
  return report;
}

std::vector<UpdateReport> Trainer::update_reports() {
  return parallel_.reports_of_all(run_.read(std::span<const UpdateReport>(update_reports_)));
}

StepReport Trainer::report_of(const StepControl& control) {
  StepReport report{.loss = control.loss / static_cast<double>(terms()),
                    .grad_norm = control.grad_norm,
                    .targets = targets_,
                    .sent = {},
                    .exchange = {},
                    .skipped = control.skip != 0,
                    .overflowing = {},
                    .format = {}};
  if (control.overflowing == StoredState::none) return report;
  std::string name, format;  // where this rank has that state
  for (const Parameter* owned : model_.owned()) {
    if (owned->id != control.overflowing_parameter) continue;
    const Stored* const states[] = {nullptr, &owned->weight.value, &owned->weight.master,
                                    &owned->moment1, &owned->moment2};
    const View& view = states[static_cast<size_t>(control.overflowing)]->view;
    for (const Persistent& row : run_.persistents())
      if (row.view.data == view.data) name = row.spec.name;
    format = view.element->short_name;
  }
  report.overflowing = first_text(run_.ranks().world(), name);
  report.format = first_text(run_.ranks().world(), format);
  return report;
}

Diagnosis Trainer::diagnose(int64_t step) {
  run_.start_diagnosis();
  run_.set_writes_statistics(false);
  run_.replay(diagnosis_programs_[static_cast<size_t>(phase_)], [&] {
    forward_backward(step);
    forget_step();
  });
  run_.set_writes_statistics(true);
  return run_.finish_diagnosis();
}

void Trainer::evaluate_body() {
  run_.execute(Clear{std::as_writable_bytes(std::span(evaluation_loss_, 1))});
  const int64_t last = settings_.micros;
  const Batch batch{
      .inputs = tokens_.inputs(last),
      .targets = tokens_.targets(last),
      .mask = tokens_.mask(last),
      .at = {.sequences = settings_.sequences, .length = settings_.length, .first = 0},
      .first_keys = tokens_.first_keys(last),
      .target_count = 1,
      .cache = nullptr};
  const EvaluationMode mode(run_);
  if (dpo_) return dpo_->evaluate_batch(batch, evaluation_loss_);
  model_.evaluate_batch(run_, batch, evaluation_loss_);
}

double Trainer::evaluate() {
  tokens_.upload(run_, settings_.micros, 1);
  run_.replay(evaluation_programs_[static_cast<size_t>(phase_)], [&] { evaluate_body(); });
  double loss = run_.read(evaluation_loss_);
  run_.tensor_group().sum(std::span(&loss, 1));
  return loss;
}

PreferenceSums Trainer::evaluate_pairs() {
  (void)evaluate();
  return dpo_->of_evaluation();
}

}  // namespace ng
