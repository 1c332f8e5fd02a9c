#include "train/metrics.h"

#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/json.h"
#include "train/run_traffic.h"

namespace ng {
namespace {

/// {name of the kind: value, ...}, every kind.
template <class Kind, class Value, size_t kinds>
Json by_kind(const std::array<Value, kinds>& values) {
  Json json = Json::object();
  for (size_t kind = 0; kind < kinds; ++kind)
    json[std::string(name_of(static_cast<Kind>(kind)))] = values[kind];
  return json;
}

// JSON has no NaN: a value that is not finite is written as null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

struct KeptLines {
  std::vector<std::string_view> pieces;  // of the file, each of whole lines
  std::unique_ptr<Checksum> steps = std::make_unique<Checksum>();  // of training steps' lines
  int64_t damaged = 0;     // lines left out though good ones come behind them
  int64_t validated = -1;  // last step with a validation

  void add(std::string_view line) {
    if (!pieces.empty() && pieces.back().end() == line.begin())
      pieces.back() = {pieces.back().data(), pieces.back().size() + line.size()};
    else
      pieces.push_back(line);
  }
  [[nodiscard]] bool are_all_of(std::string_view text) const {
    return text.empty() || (pieces.size() == 1 && pieces.front().size() == text.size());
  }
};

// The step of a line, 0 where it names none; -1 for what is not one of our lines.
int64_t step_of(const Json& line) {
  if (!line.is_object()) return -1;
  const auto step = line.find("step");
  if (step == line.end()) return 0;
  return step->is_number_integer() ? step->get<int64_t>() : -1;
}

// The complete lines of steps up to `last_step`.
KeptLines lines_to_keep(std::string_view text, int64_t last_step) {
  KeptLines kept;
  int64_t damaged = 0;
  for (size_t begin = 0, end = text.find('\n'); end != std::string_view::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    const std::string_view line = text.substr(begin, end + 1 - begin);
    const Json json = parse_json_line(line.substr(0, line.size() - 1));
    const int64_t step = step_of(json);
    if (step < 0) ++damaged;
    if (step < 0 || step > last_step) continue;
    kept.add(line);
    kept.damaged += std::exchange(damaged, 0);
    if (json.contains("loss")) kept.steps->add(std::as_bytes(std::span(line)));
    if (json.contains("val_loss")) kept.validated = step;
  }
  return kept;
}

std::string steps_in(const std::string& path, int64_t last_step) {
  const MappedFile file(path);
  return lines_to_keep(file.text(), last_step).steps->hex();
}

// A process that was killed before it saved anything left what it replaced: that counts, unless
// the checkpoint of `last_step` is that process's, whose lines of these steps are others.
void put_back_what_was_replaced(const std::string& path, int64_t last_step) {
  const std::string replaced = replaced_metrics(path);
  if (!is_file(replaced)) return;
  if (is_file(path) && steps_in(path, last_step) != steps_in(replaced, last_step))
    remove_all(replaced);
  else
    move_path(replaced, path);
}

}  // namespace

std::vector<std::pair<std::string_view, double>> named_values(const PreferenceMetrics& p) {
  return {{"rewards/margins", p.margins},      {"rewards/accuracies", p.accuracies},
          {"rewards/chosen", p.chosen_reward}, {"rewards/rejected", p.rejected_reward},
          {"logps/chosen", p.chosen_logp},     {"logps/rejected", p.rejected_logp}};
}

std::string replaced_metrics(const std::string& path) {
  return fmt::format("{}.before-resume", link_target(path));
}

bool holds_metrics(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  for (size_t begin = 0, end = text.find('\n'); end != std::string_view::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    const Json line = parse_json_line(text.substr(begin, end - begin));
    if (line.is_object() && line.contains("step") && step_of(line) >= 0) return true;
  }
  return false;
}

Json time_json(const TimeByKind& seconds) { return by_kind<TimeKind>(seconds); }

Json memory_json(const MemoryPlan& plan) {
  Json json = by_kind<MemoryKind>(plan.bytes);
  json["gaps"] = plan.gaps;
  return json;
}

Json most_json(const MemoryPlan& plan) { return by_kind<MemoryKind>(plan.most); }

Json stored_json(const MemoryPlan& plan) {
  Json json = Json::object();
  for (const StoredPart& part : plan.stored)
    json[part.name] = {
        {"kind", name_of(part.kind)}, {"elements", part.elements}, {"bytes", part.bytes}};
  return json;
}

Json sent_json(const BytesByTraffic& sent) { return by_kind<Traffic>(sent); }

Json traffic_event(const RunTraffic& traffic) {
  Json sent = Json::object(), baselines = Json::object();
  for (const Traffic kind :
       {Traffic::gradients, Traffic::weights, Traffic::scales, Traffic::activations})
    sent[std::string(name_of(kind))] = traffic.sent[static_cast<size_t>(kind)];
  for (size_t i = 0; i < traffic.baselines.size(); ++i)
    baselines[std::string(kBaselines[i].name)] = traffic.baselines[i];
  return {{"ranks", traffic.ranks}, {"sent", std::move(sent)}, {"baselines", std::move(baselines)}};
}

Json memory_event(const MemoryPlan& plan, const MemoryPlan& fp32, int64_t parameters) {
  Json event = {{"parameters", parameters}, {"stored", stored_json(plan)},
                {"most", most_json(plan)},  {"at_peak", memory_json(plan)},
                {"total", plan.total},      {"fp32_most", by_kind<MemoryKind>(fp32.most)},
                {"fp32_total", fp32.total}};
  if (const std::optional<RoleBytes> roles = bytes_by_role(plan))
    event["roles"] = {{"policy", roles->policy}, {"reference", roles->reference}};
  return event;
}

// The file of before, under another name; it gets its own back unless it is told to stay or go.
class MetricsFile::Replaced {
 public:
  explicit Replaced(const std::string& path) : path_(path), aside_(replaced_metrics(path)) {
    move_path(path_, aside_);
  }
  ~Replaced() {
    if (!returns_) return;
    try {
      move_path(aside_, path_);
    } catch (const Error&) {
      return;  // the next to open the file puts it back
    }
  }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

  void stay() { returns_ = false; }
  void go() {
    stay();
    remove_all(aside_);
  }

 private:
  std::string path_, aside_;
  bool returns_ = true;
};

MetricsFile::MetricsFile(const std::string& path, int64_t last_step,
                         const std::function<void(const std::string&)>& notice)
    : path_(link_target(path)) {
  put_back_what_was_replaced(path_, last_step);
  if (is_file(path_)) {
    const MappedFile before(path_);
    const KeptLines kept = lines_to_keep(before.text(), last_step);
    validated_ = kept.validated;
    if (kept.damaged > 0)
      notice(fmt::format("{}: {} damaged {} left out", path_, kept.damaged,
                         kept.damaged == 1 ? "line is" : "lines are"));
    if (!kept.are_all_of(before.text())) {
      replaced_ = std::make_unique<Replaced>(path_);
      FileWriter writer(path_);
      for (const std::string_view piece : kept.pieces) writer.write(piece);
      writer.commit();
    }
  }
  file_ = std::make_unique<AppendFile>(path_);
}

MetricsFile::~MetricsFile() = default;

void MetricsFile::saved() {
  if (const std::unique_ptr<Replaced> replaced = std::move(replaced_)) replaced->go();
}

void MetricsFile::keep_both() {
  if (replaced_) replaced_->stay();
}

void MetricsFile::line(const Json& object) {
  file_->append(json_text(object) + "\n");
  if (heard_) heard_(object);
}

void MetricsFile::write(const StepMetrics& step, const Json& operands, const Json& updates,
                        const Json& bit_widths) {
  Json object = {{"step", step.step},
                 {"tokens", step.tokens},
                 {"loss", number(step.loss)},
                 {"lr", step.lr},
                 {"grad_norm", number(step.grad_norm)},
                 {"tokens_per_second", number(step.tokens_per_second)},
                 {"seconds", step.seconds},
                 {"eta_seconds", number(step.eta_seconds)}};
  if (step.targets) object["targets"] = *step.targets;
  if (step.preferences)
    for (const auto& [name, value] : named_values(*step.preferences))
      object[std::string(name)] = number(value);
  if (step.skipped) object["skipped"] = true;
  if (step.sent) {
    object["sent"] = sent_json(*step.sent);
    object["exchange"] = {{"seconds", step.exchange.busy}, {"waited", step.exchange.waited}};
  }
  if (!operands.empty()) object["operands"] = operands;
  if (!updates.empty()) object["updates"] = updates;
  if (!bit_widths.empty()) object["bit_widths"] = bit_widths;
  line(object);
}

void MetricsFile::write(const ValidationMetrics& validation) {
  if (validation.step <= validated_) return;
  validated_ = validation.step;
  Json object = {{"step", validation.step},
                 {"val_loss", number(validation.loss)},
                 {"phase", validation.phase}};
  if (validation.preferences)
    for (const auto& [name, value] : named_values(*validation.preferences))
      object[fmt::format("val_{}", name)] = number(value);
  else
    object["val_bits_per_byte"] = number(validation.bits_per_byte);
  line(object);
}

void MetricsFile::event(const std::string& name, int64_t step, const Json& details) {
  Json object = {{"event", name}, {"step", step}};
  object.update(details);
  line(object);
}

void MetricsFile::event(const std::string& name, int64_t step) {
  event(name, step, Json::object());
}

}  // namespace ng
