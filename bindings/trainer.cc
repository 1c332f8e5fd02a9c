// A training run: what `narrowgauge train` does, heard and stopped by Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "bind.h"
#include "comm/launch.h"
#include "report/reporter.h"
#include "report/run_text.h"
#include "run_observer.h"
#include "train/run_folder.h"
#include "train/session.h"

namespace ng::python {
namespace {

/// What the user says of a run.
struct RunWords {
  std::string file;
  std::vector<std::string> settings;  ///< "train.steps=50"
  std::string recipe, out;            ///< may be empty
  bool resume = false;

  [[nodiscard]] RunConfig config() const {
    if (!recipe.empty()) (void)Recipe::load(recipe);  // what is wrong is this argument's
    RunConfig config = RunConfig::load(file, settings, recipe);
    if (!recipe.empty()) config.given["recipe"] = {.place = "recipe"};
    return config;
  }
  [[nodiscard]] std::string folder() const {
    if (!out.empty()) return out;
    return resume ? newest_run_folder(file) : new_run_folder(file);
  }
};

void refuse_ranks() {
  if (const int ranks = launch().ranks; ranks > 1)
    throw Error({.place = "narrowgauge",
                 .key = "",
                 .problem = fmt::format("started as {} ranks, but it works in one process", ranks),
                 .remedy = "narrowgauge train for several ranks"});
}

Json plan_of(Session& session) {
  const RunConfig& config = session.config();
  const StepSettings& step = session.trainer().settings();
  return {{"run", config.place},
          {"out", session.folder()},
          {"model", report::model_text(session.model().config())},
          {"parameters", session.model().parameter_count()},
          {"text", session.data().size_text()},
          {"recipe", session.recipe().name()},
          {"recipe_hash", session.recipe().hash()},
          {"gemms", report::recipe_text(session)},
          {"backend", config.train.backend},
          {"threads", session.threads()},
          {"steps", config.train.steps},
          {"tokens_per_step", session.trainer().tokens_per_step()},
          {"schedule", report::schedule_text(config, step)},
          {"settings", config.resolved_toml()}};
}

Json result_json(const SessionResult& result, const std::string& out, const std::string& model) {
  Json json = {{"steps", result.steps},
               {"interrupted", result.interrupted},
               {"skipped", result.skipped},
               {"out", out},
               {"model", result.interrupted ? Json() : Json(model)},
               {"sample", result.sample},
               {"validation", nullptr}};
  if (!result.validation) return json;
  json["validation"] = {{"step", result.validation->step}, {"loss", result.validation->loss}};
  if (result.validation->preferences)
    for (const auto& [name, value] : named_values(*result.validation->preferences))
      json["validation"][std::string(name)] = value;
  else
    json["validation"]["bits_per_byte"] = result.validation->bits_per_byte;
  return json;
}

/// Trains once; memory and the folder's lock go when that has ended.
class PythonTrainer {
 public:
  PythonTrainer(const RunWords& words, nb::object notice)
      : observer_(std::move(notice), nb::none()) {
    const Unlocked unlocked;
    refuse_ranks();
    const RunConfig config = as_call([&] { return words.config(); });
    reporter_.emplace(observer_);
    const SessionOptions options{.out = words.folder(),
                                 .resume = words.resume,
                                 .takes_other_recipe = !words.recipe.empty(),
                                 .stop = &observer_.stop()};
    session_ = as_call([&] { return std::make_unique<Session>(config, options, *reporter_); });
    plan_ = plan_of(*session_);
    memory_ = memory_event(session_->trainer().memory(), session_->memory_in_fp32(),
                           session_->model().parameter_count());
  }

  [[nodiscard]] nb::dict plan() const { return dict_of(plan_); }
  [[nodiscard]] nb::dict memory() const { return dict_of(memory_); }

  nb::dict train(nb::object progress) {
    if (session_ == nullptr)
      throw Error({.place = "",
                   .key = "train",
                   .problem = "called a second time",
                   .remedy = "a new Trainer, with resume=True to go on"});
    std::unique_ptr<Session> session = std::move(session_);  // so that nobody trains it too
    observer_.set_progress(std::move(progress));
    Json result;
    try {
      const Unlocked unlocked;
      result = result_json(session->train(), session->folder(), session->model_folder());
    } catch (const std::exception&) {
      end(session);
      throw;
    }
    end(session);
    return dict_of(result);
  }

 private:
  /// What Python stopped the run with comes before what became of that.
  void end(std::unique_ptr<Session>& session) {
    session.reset();
    reporter_.reset();  // writes the page of a run that failed
    observer_.set_progress(nb::none());
    observer_.rethrow();
  }

  RunObserver observer_;
  std::optional<report::RunReporter> reporter_;
  std::unique_ptr<Session> session_;
  Json plan_, memory_;
};

}  // namespace

void add_trainer(nb::module_& module) {
  nb::class_<PythonTrainer>(module, "Trainer")
      .def(
          "__init__",
          [](PythonTrainer* self, const std::string& run, std::vector<std::string> settings,
             const std::string& recipe, const std::string& out, bool resume, nb::object notice) {
            new (self)
                PythonTrainer({run, std::move(settings), recipe, out, resume}, std::move(notice));
          },
          "run"_a, "settings"_a, "recipe"_a, "out"_a, "resume"_a, "notice"_a)
      .def_prop_ro("plan", &PythonTrainer::plan)
      .def_prop_ro("memory", &PythonTrainer::memory)
      .def("train", &PythonTrainer::train, "progress"_a.none());
}

}  // namespace ng::python
