#include "train/metrics.h"

#include <cmath>
#include <string_view>

namespace ng {
namespace {

// JSON has no NaN: a value that is not finite is written as null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Bytes of the complete lines up to the first of a later step.
uint64_t bytes_to_keep(const std::string& path, int64_t last_step) {
  if (!is_file(path)) return 0;
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  uint64_t keep = 0;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', keep)) {
    const Json line = Json::parse(text.substr(keep, end - keep), nullptr, false);
    if (!line.is_object() || line.value("step", int64_t{0}) > last_step) break;
    keep = end + 1;
  }
  return keep;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, int64_t last_step)
    : file_(std::make_unique<AppendFile>(path, bytes_to_keep(path, last_step))) {}

void MetricsFile::line(const Json& object) { file_->append(object.dump() + "\n"); }

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
  line({{"step", validation.step},
        {"val_loss", number(validation.loss)},
        {"val_bits_per_byte", number(validation.bits_per_byte)}});
}

void MetricsFile::event(const std::string& name, int64_t step, const Json& details) {
  Json object = {{"event", name}, {"step", step}};
  object.update(details);
  line(object);
}

}  // namespace ng
