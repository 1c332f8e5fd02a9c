// Training one run of a comparison, and what stays of it in its folder.
#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/checksum.h"
#include "base/files.h"
#include "base/json.h"
#include "base/median.h"
#include "compare/compare.h"
#include "infer/evaluate.h"
#include "infer/open_model.h"
#include "train/run_files.h"
#include "train/run_keys.h"

namespace ng {
namespace {

constexpr std::string_view kResultFile = "result.json";
constexpr size_t kMaxResultBytes = 1 << 20;

// Equal for runs that give the same result.
std::string run_hash(const CompareRun& run, const std::string& recipe_hash) {
  RunConfig config = run.config;
  config.train.threads = 0;
  const std::string text = config.resolved_toml() + recipe_hash;
  return checksum_of(std::as_bytes(std::span(text)));
}

BytesPerParameter per_parameter(const MemoryPlan& plan, int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  BytesPerParameter bytes;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    bytes.most[kind] = static_cast<double>(plan.most[kind]) / count;
  bytes.total = static_cast<double>(plan.total) / count;
  return bytes;
}

void write_result(const CompareRun& run, const Json& result) {
  const Json json = {{"run", run_hash(run, Recipe::load(run.config.recipe).hash())},
                     {"result", result}};
  write_file_atomically(join_path(run.folder, kResultFile), json_text(json, 2) + "\n");
}

// "train.lr is 0.001 there and 0.002 here", ... of what changes a result; empty where nothing does.
// A key that the folder's run.toml lacks has its default there.
std::vector<std::string> differences_to_folder(const CompareRun& run) {
  const RunConfig there = load_run_config(run.folder);
  PrintedSettings printed;
  for (const auto& key : run_keys()) printed[key.path] = key.print(there);
  std::vector<std::string> differences;
  const auto shown = [](const std::string& value) { return value.empty() ? "not given" : value; };
  for (const auto& [key, old, now] : differing_settings(printed, run.config))
    differences.push_back(fmt::format("{} is {} there and {} here", key, shown(old), shown(now)));
  const std::optional<Recipe> before = recipe_of_run_file(join_path(run.folder, kRunFile));
  const Recipe recipe = Recipe::load(run.config.recipe);
  if (!before)
    differences.emplace_back("its recipe cannot be read");
  else if (before->hash() != recipe.hash())
    differences.push_back("the recipe there is " + difference_text(*before, recipe));
  return differences;
}

std::string difference_to_folder(const CompareRun& run) {
  constexpr size_t kMostShown = 4;
  std::vector<std::string> all;
  try {
    all = differences_to_folder(run);
  } catch (const Error& error) {
    return fmt::format("its run.toml cannot be compared: {}", error.what());
  }
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kMostShown); ++i)
    text += (i > 0 ? "; " : "") + all[i];
  if (all.size() > kMostShown) text += fmt::format("; and {} more", all.size() - kMostShown);
  return text;
}

void require_same_run(const CompareRun& run, const JsonObject& saved) {
  const Recipe recipe = Recipe::load(run.config.recipe);
  for (const std::string& hash : {recipe.hash(), recipe.hash_of_all_keys()})  // now, or older
    if (saved.text("run") == run_hash(run, hash)) return;
  std::string difference;
  if (is_file(join_path(run.folder, kRunFile))) {
    difference = difference_to_folder(run);
    if (difference.empty()) return;  // written before a key was there whose default it has
    difference = ": " + difference;
  }
  throw Error({.place = run.folder,
               .key = std::string(kResultFile),
               .problem = "the folder belongs to another run file or recipe" + difference,
               .remedy = "another --out, or that folder removed (-seedN is the run's seed, "
                         "not its number)"});
}

void require_validation(const CompareRun& run, const Session& session) {
  if (session.data().has_validation()) return;
  run.config.refuse({"data.validation"}, "nothing to validate on",
                    "a share above 0 or files: that is what is compared");
}

/// Hears of every step what the comparison needs, and passes everything on.
class Recorder final : public SessionObserver {
 public:
  explicit Recorder(SessionObserver& next) : next_(next) {}
  void notice(const std::string& sentence) override { next_.notice(sentence); }
  void reading(int64_t done, int64_t bytes) override { next_.reading(done, bytes); }
  void step(const StepMetrics& metrics) override {
    speeds_.push_back(metrics.tokens_per_second);
    skipped_ += metrics.skipped ? 1 : 0;
    next_.step(metrics);
  }
  void started(Session& session, int64_t step) override {
    plan_ = session.trainer().memory();
    next_.started(session, step);
  }
  void finished(const SessionResult& result) override { next_.finished(result); }
  void validation(const ValidationMetrics& metrics) override { next_.validation(metrics); }
  void checkpoint(int64_t step) override { next_.checkpoint(step); }

  /// Of the steps, without what the sample at the end takes.
  [[nodiscard]] const MemoryPlan& plan() const { return plan_; }
  /// Steps of this process.
  [[nodiscard]] int64_t skipped() const { return skipped_; }
  [[nodiscard]] int64_t steps() const { return static_cast<int64_t>(speeds_.size()); }
  /// Of this process's steps; 0 where there were none.
  [[nodiscard]] double median_speed() const { return speeds_.empty() ? 0 : median(speeds_); }

 private:
  SessionObserver& next_;
  MemoryPlan plan_;
  int64_t skipped_ = 0;
  std::vector<double> speeds_;
};

// Of the model that the session has written, in recipe bf16; none where `stop` was set before the
// end.
std::optional<double> loss_in_bf16(const CompareRun& run, Session& session,
                                   const std::atomic<bool>* stop) {
  const StepSettings& settings = session.trainer().settings();
  if (settings.dpo) return CompareResult::kNan;
  const bool is_adapter =
      session.model().config().lora.is_used() && run.config.lora.save == RunLora::Save::adapter;
  const io::ModelName model{session.model_folder(), is_adapter ? run.config.model.init : ""};
  const OpenModel open = open_model(model, Recipe::load("bf16"),
                                    {.backend = run.config.train.backend,
                                     .threads = {session.threads()},
                                     .seed = run.config.seed});
  const auto documents = run.config.train.document_mask ? Documents::apart : Documents::joined;
  const std::optional<Evaluation> evaluation = evaluate_data(
      *open.run, *open.model, session.data(), {settings.sequences, settings.length, documents},
      {.stops = [&] { return stop != nullptr && stop->load(); }, .progress = {}});
  if (!evaluation) return {};
  return std::isfinite(evaluation->loss) ? evaluation->loss : CompareResult::kNan;
}

// Losses of a run that came to its end; false where it was stopped before.
bool put_losses(CompareResult& result, const CompareRun& run, Session& session,
                const std::atomic<bool>* stop) {
  const SessionResult done = session.train();
  if (done.interrupted) return false;
  if (!std::isfinite(done.validation->loss)) return true;
  const std::optional<double> in_bf16 = loss_in_bf16(run, session, stop);
  if (!in_bf16) return false;
  result.val_loss = done.validation->loss;
  result.val_loss_bf16 = *in_bf16;
  if (!done.validation->preferences) result.bits_per_byte = done.validation->bits_per_byte;
  return true;
}

}  // namespace

std::vector<DifferingSetting> differing_settings(const PrintedSettings& before,
                                                 const RunConfig& now) {
  std::vector<DifferingSetting> all;
  for (const auto& key : run_keys()) {
    const auto found = before.find(key.path);
    if (key.path == "recipe" || key.path == "train.threads" || found == before.end()) continue;
    if (const std::string value = key.print(now); value != found->second)
      all.push_back({key.path, found->second, value});
  }
  return all;
}

Json bytes_json(const BytesPerParameter& bytes) {
  Json json = Json::object();
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    json[std::string(name_of(static_cast<MemoryKind>(kind)))] = bytes.most[kind];
  json["total"] = bytes.total;
  return json;
}

Json result_json(const CompareResult& result) {
  return {{"recipe", result.of.label},
          {"seed", result.seed},
          {"val_loss", result.val_loss},
          {"val_loss_bf16", result.val_loss_bf16},
          {"bits_per_byte", result.bits_per_byte},
          {"diverged_at", result.diverged != 0 ? Json(result.diverged) : Json()},
          {"tokens_per_second", result.tokens_per_second},
          {"machine", result.machine},
          {"seconds", result.seconds},
          {"skipped", result.skipped},
          {"bytes_per_parameter", bytes_json(result.bytes_per_parameter)}};
}

void require_own_folders(const std::vector<CompareRun>& runs) {
  for (const CompareRun& run : runs) {
    if (!is_folder(run.folder)) continue;
    (void)finished_result(run);
    require_own_folder(run.config, run.folder);
    require_not_read(run.config, std::vector{join_path(run.folder, kResultFile)});
  }
}

std::optional<CompareResult> finished_result(const CompareRun& run) {
  const std::string path = join_path(run.folder, kResultFile);
  if (!is_file(path)) return {};
  const Json json = read_json_file(path, kMaxResultBytes);
  const JsonObject saved(json, path);
  require_same_run(run, saved);
  if (!saved.has("result")) return {};
  const JsonObject r = saved.object("result");
  constexpr double kMost = 1e300;
  CompareResult result;
  result.of = run.of;
  result.seed = run.config.seed;
  if (r.has("diverged_at")) result.diverged = r.integer("diverged_at", 1, INT64_MAX);
  result.val_loss = r.number_or("val_loss", -kMost, kMost, CompareResult::kNan);
  result.val_loss_bf16 = r.number_or("val_loss_bf16", -kMost, kMost, CompareResult::kNan);
  result.bits_per_byte = r.number_or("bits_per_byte", -kMost, kMost, CompareResult::kNan);
  result.tokens_per_second = r.number("tokens_per_second", 0, kMost);
  if (r.has("machine")) result.machine = r.text("machine");
  result.seconds = r.number_or("seconds", 0, kMost, 0);
  result.skipped = r.integer("skipped", 0, INT64_MAX);
  const JsonObject bytes = r.object("bytes_per_parameter");
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    result.bytes_per_parameter.most[kind] =
        bytes.number_or(name_of(static_cast<MemoryKind>(kind)), 0, kMost, 0);  // older: fewer kinds
  result.bytes_per_parameter.total = bytes.number("total", 0, kMost);
  return result;
}

std::optional<CompareResult> train_to_compare(const CompareRun& run, const std::atomic<bool>* stop,
                                              SessionObserver& observer) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Recorder recorder(observer);
  const bool resume = is_folder(join_path(run.folder, "checkpoints"));
  Session session(run.config, {.out = run.folder, .resume = resume, .stop = stop}, recorder);
  require_validation(run, session);
  session.take_folder();
  write_result(run, nullptr);
  CompareResult result;
  result.of = run.of;
  result.seed = run.config.seed;
  try {
    if (!put_losses(result, run, session, stop)) return {};
  } catch (const Diverged& end) {
    observer.notice(end.what());
    result.diverged = end.step();
  }
  result.skipped = recorder.skipped();
  result.tokens_per_second = recorder.median_speed();
  result.machine = machine_text(session.run().backend(), {session.threads()});
  if (recorder.steps() > 0 && result.diverged == 0)  // a part of the run stands for the whole
    result.seconds = std::chrono::duration<double>(Clock::now() - begin).count() *
                     static_cast<double>(run.config.train.steps) /
                     static_cast<double>(recorder.steps());
  result.bytes_per_parameter = per_parameter(recorder.plan(), session.model().parameter_count());
  write_result(run, result_json(result));
  return result;
}

}  // namespace ng
