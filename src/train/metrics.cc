#include "train/metrics.h"

#include <cmath>
#include <string_view>

#include "base/json.h"

namespace ng {
namespace {

// JSON has no NaN: a value that is not finite is written as null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

struct KeptLines {
  uint64_t bytes = 0;
  int64_t validated = -1;  // last step with a validation
};

// The step of a line, 0 where it names none; -1 for what is not one of our lines.
int64_t step_of(const Json& line) {
  if (!line.is_object()) return -1;
  const auto step = line.find("step");
  if (step == line.end()) return 0;
  return step->is_number_integer() ? step->get<int64_t>() : -1;
}

// The complete lines up to the first of a later step.
KeptLines lines_to_keep(const std::string& path, int64_t last_step) {
  KeptLines kept;
  if (!is_file(path)) return kept;
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  for (size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', kept.bytes)) {
    const Json line = parse_json_line(text.substr(kept.bytes, end - kept.bytes));
    const int64_t step = step_of(line);
    if (step < 0 || step > last_step) break;
    if (line.contains("val_loss")) kept.validated = step;
    kept.bytes = end + 1;
  }
  return kept;
}

}  // namespace

Json time_json(const TimeByKind& seconds) {
  Json json = Json::object();
  for (size_t kind = 0; kind < kTimeKinds; ++kind)
    json[std::string(name_of(static_cast<TimeKind>(kind)))] = seconds[kind];
  return json;
}

MetricsFile::MetricsFile(const std::string& path, int64_t last_step) {
  const KeptLines kept = lines_to_keep(path, last_step);
  file_ = std::make_unique<AppendFile>(path, kept.bytes);
  validated_ = kept.validated;
}

void MetricsFile::line(const Json& object) { file_->append(json_text(object) + "\n"); }

void MetricsFile::write(const StepMetrics& step, const Json& operands) {
  Json object = {{"step", step.step},
                 {"tokens", step.tokens},
                 {"loss", number(step.loss)},
                 {"lr", step.lr},
                 {"grad_norm", number(step.grad_norm)},
                 {"tokens_per_second", number(step.tokens_per_second)},
                 {"seconds", step.seconds},
                 {"eta_seconds", number(step.eta_seconds)}};
  if (step.skipped) object["skipped"] = true;
  if (!operands.empty()) object["operands"] = operands;
  line(object);
}

void MetricsFile::write(const ValidationMetrics& validation) {
  if (validation.step <= validated_) return;
  validated_ = validation.step;
  line({{"step", validation.step},
        {"val_loss", number(validation.loss)},
        {"val_bits_per_byte", number(validation.bits_per_byte)}});
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
