#include "report/history.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "data/data_origin.h"
#include "recipe/layer_names.h"

namespace ng::report {
namespace {

constexpr uint64_t kPiece = 1 << 20;  // bytes read at a time: files of long runs are large
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// null stands for what is not finite.
double number(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : kNaN;
}

int64_t integer(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

// Lines of every operand have roles within layers, others roles only: numbers are one deeper.
bool are_by_layer(const Json& operands) {
  return !operands.empty() && !operands.front().empty() && operands.front().front().is_object();
}

void add(Curves& curves, std::span<const std::string_view> names, int64_t step,
         const Json& figures) {
  curves.resize(names.size(), Series(kOperandPoints));
  for (size_t i = 0; i < names.size(); ++i) curves[i].add(step, number(figures, names[i]));
}

/// As validation_text() says it of the origin, but for files, which are counted as those to train
/// on.
std::string text_of_validation(const Json& validation) {
  if (validation.contains("files")) return files_text(validation.at("files"));
  DataOrigin origin{.train = {}, .blocks = validation.value("blocks", int64_t{0})};
  for (const ValidationFrom from : {ValidationFrom::spread, ValidationFrom::tail})
    if (validation.at("from") == name_of(from)) origin.from = from;
  return validation_text(origin);
}

}  // namespace

History::History(std::string path, size_t points)
    : path_(std::move(path)),
      points_(points),
      loss_(points),
      val_loss_(points),
      lr_(points),
      grad_norm_(points),
      tokens_per_second_(points),
      last_val_loss_(kNaN),
      last_bits_per_byte_(kNaN) {}

void History::read() {
  if (!is_file(path_)) return;
  const ReadFile file(path_);
  std::string text;  // read, but not taken yet
  for (uint64_t next = bytes_; next < file.size();) {
    const size_t before = text.size(), count = std::min<uint64_t>(kPiece, file.size() - next);
    text.resize(before + count);
    file.read(next, std::as_writable_bytes(std::span(text).subspan(before)));
    next += count;
    const size_t taken = take_lines(text);
    text.erase(0, taken);
    bytes_ += taken;
  }
}

// The complete lines of a text; returns how many bytes they are.
size_t History::take_lines(std::string_view text) {
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', begin)) {
    const Json line = parse_json_line(text.substr(begin, end - begin));
    if (line.is_object()) take(line);
    begin = end + 1;
  }
  return begin;
}

void History::take(const Json& line) {
  if (line.contains("event")) return take_event(line);
  take_preferences(line);
  if (line.contains("loss")) return take_step(line);
  if (!line.contains("val_loss")) return;
  last_val_loss_ = number(line, "val_loss");
  last_bits_per_byte_ = number(line, "val_bits_per_byte");
  val_loss_.add(integer(line, "step"), last_val_loss_);
}

void History::take_step(const Json& line) {
  steps_ = integer(line, "step");
  tokens_ = integer(line, "tokens");
  seconds_ = number(line, "seconds");
  if (line.contains("skipped")) ++skipped_;
  loss_.add(steps_, number(line, "loss"));
  lr_.add(steps_, number(line, "lr"));
  grad_norm_.add(steps_, number(line, "grad_norm"));
  tokens_per_second_.add(steps_, number(line, "tokens_per_second"));
  sent_.clear();
  if (const auto sent = line.find("sent"); sent != line.end() && sent->is_object())
    for (const auto& [kind, bytes] : sent->items()) sent_[kind] = number(*sent, kind);
  take_layers(line);
}

void History::take_layers(const Json& line) {
  static const Json kNone = Json::object();
  const auto layers = [&](const char* key) -> const Json& {
    const auto found = line.find(key);
    return found != line.end() && found->is_object() ? *found : kNone;
  };
  if (const Json& operands = layers("operands"); are_by_layer(operands))
    for (const auto& [layer, roles] : operands.items())
      for (const auto& [role, losses] : roles.items())
        add(operands_[layer][role], kLosses, steps_, losses);
  for (const auto& [parameter, metrics] : layers("updates").items())
    add(updates_[std::string(layers::layer_of(parameter))], kUpdateMetrics, steps_, metrics);
  for (const auto& [layer, figures] : layers("bit_widths").items())
    add(bits_[layer], kBitMetrics, steps_, figures);
}

void History::take_preferences(const Json& line) {
  constexpr std::string_view kValidation = "val_";
  for (const auto& [key, value] : line.items()) {
    const bool is_val = key.starts_with(kValidation);
    const std::string name = is_val ? key.substr(kValidation.size()) : key;
    if (!name.starts_with("rewards/") && !name.starts_with("logps/")) continue;
    std::map<std::string, Series>& known = is_val ? val_preferences_ : preferences_;
    known.try_emplace(name, points_).first->second.add(integer(line, "step"), number(line, key));
  }
}

void History::take_event(const Json& line) {
  const Json& event = line["event"];
  take_stretch(stretches_, line);
  if (event == "resume") {
    earlier_seconds_ += std::exchange(seconds_, 0);
    for (const auto& [kind, seconds] : std::exchange(kinds_, {})) earlier_kinds_[kind] += seconds;
  } else if (event == "time" && line.contains("seconds")) {
    for (const auto& [kind, seconds] : line["seconds"].items())
      if (seconds.is_number()) kinds_[kind] = seconds.get<double>();
  } else if (event == "data") {
    take_data(line);
  }
}

void History::take_data(const Json& line) try {
  train_text_ = files_text(line.at("train"));
  validation_text_ = text_of_validation(line.at("validation"));
} catch (const Json::exception&) {  // of a version that said less
}

std::map<std::string, double> History::seconds_by_kind() const {
  std::map<std::string, double> all = earlier_kinds_;
  for (const auto& [kind, seconds] : kinds_) all[kind] += seconds;
  return all;
}

}  // namespace ng::report
