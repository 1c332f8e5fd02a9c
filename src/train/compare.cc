#include "train/compare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/checksum.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "train/run_files.h"

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

Json bytes_json(const BytesPerParameter& bytes) {
  Json json = Json::object();
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    json[std::string(name_of(static_cast<MemoryKind>(kind)))] = bytes.most[kind];
  json["total"] = bytes.total;
  return json;
}

BytesPerParameter per_parameter(const MemoryPlan& plan, int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  BytesPerParameter bytes;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    bytes.most[kind] = static_cast<double>(plan.most[kind]) / count;
  bytes.total = static_cast<double>(plan.total) / count;
  return bytes;
}

Json result_json(const CompareResult& result) {
  return {{"recipe", result.label},
          {"seed", result.seed},
          {"val_loss", result.val_loss},
          {"bits_per_byte", result.bits_per_byte},
          {"diverged_at", result.diverged != 0 ? Json(result.diverged) : Json()},
          {"tokens_per_second", result.tokens_per_second},
          {"skipped", result.skipped},
          {"bytes_per_parameter", bytes_json(result.bytes_per_parameter)}};
}

void write_result(const CompareRun& run, const Json& result) {
  const Json json = {{"run", run_hash(run, Recipe::load(run.config.recipe).hash())},
                     {"result", result}};
  write_file_atomically(join_path(run.folder, kResultFile), json_text(json, 2) + "\n");
}

void require_same_run(const CompareRun& run, const JsonObject& saved) {
  const Recipe recipe = Recipe::load(run.config.recipe);
  for (const std::string& hash : {recipe.hash(), recipe.hash_of_all_keys()})  // now, or older
    if (saved.text("run") == run_hash(run, hash)) return;
  throw Error({.place = run.folder,
               .key = std::string(kResultFile),
               .problem = "the folder belongs to another run file or recipe",
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
  /// Of this process's steps; 0 where there were none.
  [[nodiscard]] double median_speed() {
    if (speeds_.empty()) return 0;
    const auto middle = speeds_.begin() + static_cast<int64_t>(speeds_.size() / 2);
    std::nth_element(speeds_.begin(), middle, speeds_.end());
    return *middle;
  }

 private:
  SessionObserver& next_;
  MemoryPlan plan_;
  int64_t skipped_ = 0;
  std::vector<double> speeds_;
};

struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};
MeanAndDeviation mean_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / n;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {mean, values.size() < 2 ? 0.0 : std::sqrt(squares / (n - 1))};
}

// A member of each result.
template <class Get>
std::vector<double> column(const std::vector<CompareResult>& results, const Get& get) {
  std::vector<double> values;
  for (const CompareResult& result : results) values.push_back(get(result));
  return values;
}

CompareRow row_of(const std::vector<CompareResult>& results,
                  const std::vector<CompareResult>& first) {
  NG_CHECK(results.size() == first.size(), results.size(), first.size());
  const auto loss = [](const CompareResult& r) { return r.val_loss; };
  std::vector<double> differences = column(results, loss);
  for (size_t i = 0; i < first.size(); ++i) differences[i] -= first[i].val_loss;
  const MeanAndDeviation losses = mean_of(column(results, loss));
  const MeanAndDeviation difference = mean_of(differences);
  CompareRow row;
  row.label = results.front().label;
  row.seeds = static_cast<int64_t>(results.size());
  row.val_loss = losses.mean;
  row.val_loss_sd = losses.deviation;
  row.bits_per_byte =
      mean_of(column(results, [](const CompareResult& r) { return r.bits_per_byte; })).mean;
  row.difference = difference.mean;
  row.difference_sd = difference.deviation;
  row.tokens_per_second =
      mean_of(column(results, [](const CompareResult& r) { return r.tokens_per_second; })).mean;
  for (const CompareResult& result : results) {
    row.skipped += result.skipped;
    row.diverged += std::isfinite(result.val_loss) ? 0 : 1;
  }
  row.bytes_per_parameter = results.front().bytes_per_parameter;
  return row;
}

}  // namespace

std::vector<std::string> recipe_labels(const std::vector<std::string>& recipes) {
  std::vector<std::string> labels;
  for (const std::string& name : recipes) {
    const Recipe recipe = Recipe::load(name);
    const std::string stem = std::filesystem::path(name).stem().string();
    const std::string label = name.ends_with(".toml") ? stem : name;
    const auto refuse = [&](const std::string& problem, const std::string& remedy) {
      throw Error({"--recipes", name, problem, remedy});
    };
    if (std::find(labels.begin(), labels.end(), label) != labels.end())
      refuse("named twice", "each recipe once");
    labels.push_back(label);
  }
  return labels;
}

std::vector<CompareRun> compare_runs(const RunConfig& config,
                                     const std::vector<std::string>& recipes, int64_t seeds,
                                     const std::string& out) {
  const std::vector<std::string> labels = recipe_labels(recipes);
  constexpr uint64_t kLargestSeed = INT64_MAX;  // of a run file
  if (config.seed > kLargestSeed - static_cast<uint64_t>(seeds - 1))
    throw Error({.place = "--seeds",
                 .key = "",
                 .problem = fmt::format("{} from {} on", seeds, config.seed),
                 .remedy = fmt::format("the last one at most {}", kLargestSeed)});
  std::vector<CompareRun> runs;
  for (size_t i = 0; i < recipes.size(); ++i)
    for (int64_t k = 0; k < seeds; ++k) {
      const uint64_t seed = config.seed + static_cast<uint64_t>(k);
      CompareRun run{config, labels[i], join_path(out, fmt::format("{}-seed{}", labels[i], seed))};
      run.config.set_recipe(recipes[i]);
      run.config.given["recipe"] = {.place = "--recipes"};
      run.config.seed = seed;
      runs.push_back(std::move(run));
    }
  return runs;
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
  result.label = run.label;
  result.seed = run.config.seed;
  if (r.has("diverged_at")) result.diverged = r.integer("diverged_at", 1, INT64_MAX);
  result.val_loss = r.number_or("val_loss", -kMost, kMost, CompareResult::kNan);
  result.bits_per_byte = r.number_or("bits_per_byte", -kMost, kMost, CompareResult::kNan);
  result.tokens_per_second = r.number("tokens_per_second", 0, kMost);
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
  Recorder recorder(observer);
  const bool resume = is_folder(join_path(run.folder, "checkpoints"));
  Session session(run.config, {.out = run.folder, .resume = resume, .stop = stop}, recorder);
  require_validation(run, session);
  session.take_folder();
  write_result(run, nullptr);
  CompareResult result;
  result.label = run.label;
  result.seed = run.config.seed;
  try {
    const SessionResult done = session.train();
    if (done.interrupted) return {};
    if (std::isfinite(done.validation->loss)) {
      result.val_loss = done.validation->loss;
      if (!done.validation->preferences) result.bits_per_byte = done.validation->bits_per_byte;
    }
  } catch (const Diverged& end) {
    observer.notice(end.what());
    result.diverged = end.step();
  }
  result.skipped = recorder.skipped();
  result.tokens_per_second = recorder.median_speed();
  result.bytes_per_parameter = per_parameter(recorder.plan(), session.model().parameter_count());
  write_result(run, result_json(result));
  return result;
}

std::vector<CompareRow> compare_rows(const std::vector<CompareResult>& results) {
  std::vector<std::vector<CompareResult>> by_recipe;
  for (const CompareResult& result : results) {
    if (by_recipe.empty() || by_recipe.back().front().label != result.label)
      by_recipe.emplace_back();
    by_recipe.back().push_back(result);
  }
  std::vector<CompareRow> rows;
  for (const auto& group : by_recipe) rows.push_back(row_of(group, by_recipe.front()));
  return rows;
}

std::string divergence_text(const CompareRow& row) {
  if (row.diverged == 0) return "";
  return row.diverged == row.seeds ? "diverged"
                                   : fmt::format("{} of {} diverged", row.diverged, row.seeds);
}

std::string compare_csv(const std::vector<CompareRow>& rows) {
  std::string text =
      "recipe,seeds,val_loss,val_loss_sd,bits_per_byte,difference,difference_sd,"
      "tokens_per_second,skipped,diverged";
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    text += fmt::format(",{}_bytes_per_parameter", name_of(static_cast<MemoryKind>(kind)));
  text += '\n';
  for (const CompareRow& r : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}", csv_field(r.label), r.seeds, r.val_loss,
                        r.val_loss_sd, r.bits_per_byte, r.difference, r.difference_sd,
                        r.tokens_per_second, r.skipped, r.diverged);
    for (const double bytes : r.bytes_per_parameter.most) text += fmt::format(",{}", bytes);
    text += '\n';
  }
  return text;
}

Json compare_json(const std::vector<CompareRow>& rows, const std::vector<CompareResult>& results) {
  Json json = {{"recipes", Json::array()}, {"runs", Json::array()}};
  for (const CompareRow& r : rows)
    json["recipes"].push_back({{"recipe", r.label},
                               {"seeds", r.seeds},
                               {"val_loss", r.val_loss},
                               {"val_loss_sd", r.val_loss_sd},
                               {"bits_per_byte", r.bits_per_byte},
                               {"difference", r.difference},
                               {"difference_sd", r.difference_sd},
                               {"tokens_per_second", r.tokens_per_second},
                               {"skipped", r.skipped},
                               {"diverged", r.diverged},
                               {"bytes_per_parameter", bytes_json(r.bytes_per_parameter)}});
  for (const CompareResult& result : results) json["runs"].push_back(result_json(result));
  return json;
}

}  // namespace ng
