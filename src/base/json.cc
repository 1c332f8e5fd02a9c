#include "base/json.h"

#include <cmath>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/files.h"

template class nlohmann::basic_json<>;

namespace ng {
namespace {

/// nlohmann's "[json.exception.parse_error.101] parse error at ..." without the first word.
std::string without_tag(std::string_view what) {
  const size_t end = what.find("] ");
  return std::string(end == std::string_view::npos ? what : what.substr(end + 2));
}

/// Sees every event of a parse: limits the depth and finds keys given twice.
class Watcher {
 public:
  Watcher(const std::string& place, int max_depth) : place_(place), max_depth_(max_depth) {}

  void see(Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (static_cast<int>(keys_.size()) >= max_depth_) {
        throw Error({.place = place_,
                     .key = "",
                     .problem = fmt::format("JSON nested deeper than {} levels", max_depth_),
                     .remedy = "is it the right file?"});
      }
      keys_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys_.pop_back();
    } else if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw Error({.place = place_,
                   .key = brief(parsed),
                   .problem = "is given twice",
                   .remedy = "give each key once"});
    }
  }

 private:
  const std::string& place_;
  const int max_depth_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& place, int max_depth) {
  Watcher watcher(place, max_depth);
  const auto callback = [&](int, Json::parse_event_t event, const Json& parsed) {
    watcher.see(event, parsed);
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), callback);
  } catch (const Json::exception& error) {
    throw Error({.place = place,
                 .key = "",
                 .problem = "not valid JSON: " + without_tag(error.what()),
                 .remedy = ""});
  }
}

Json read_json_file(const std::string& path, size_t max_bytes) {
  return parse_json(read_file(path, max_bytes), path);
}

std::string brief(const Json& value) {
  constexpr size_t kLongest = 40;
  if (value.is_structured() && value.size() > 8) {
    return fmt::format("{} of {} entries", value.is_object() ? "an object" : "a list",
                       value.size());
  }
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

JsonObject::JsonObject(const Json& value, std::string place, std::string prefix)
    : value_(&value), place_(std::move(place)), prefix_(std::move(prefix)) {
  if (value.is_object()) return;
  throw Error({.place = place_,
               .key = prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1),
               .problem = brief(value) + " is not an object",
               .remedy = "write {\"key\": value, ...}"});
}

void JsonObject::refuse(std::string_view key, const std::string& problem,
                        const std::string& remedy) const {
  throw Error(
      {.place = place_, .key = prefix_ + std::string(key), .problem = problem, .remedy = remedy});
}

bool JsonObject::has(std::string_view key) const {
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

const Json& JsonObject::at(std::string_view key) const {
  if (!has(key)) refuse(key, "missing", "");
  return *value_->find(key);
}

JsonObject JsonObject::object(std::string_view key) const {
  return {at(key), place_, prefix_ + std::string(key) + "."};
}

int64_t JsonObject::integer(std::string_view key, int64_t min, int64_t max) const {
  const Json& value = at(key);
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                        : value.is_number_integer();
  if (!fits || value.get<int64_t>() < min || value.get<int64_t>() > max) {
    refuse(key, brief(value), fmt::format("an integer from {} to {}", min, max));
  }
  return value.get<int64_t>();
}

int64_t JsonObject::integer_or(std::string_view key, int64_t min, int64_t max,
                               int64_t otherwise) const {
  return has(key) ? integer(key, min, max) : otherwise;
}

double JsonObject::number(std::string_view key, double min, double max) const {
  const Json& value = at(key);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= min && number <= max)) {
    refuse(key, brief(value), fmt::format("a number from {} to {}", min, max));
  }
  return number;
}

double JsonObject::number_or(std::string_view key, double min, double max, double otherwise) const {
  return has(key) ? number(key, min, max) : otherwise;
}

bool JsonObject::boolean_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_boolean()) refuse(key, brief(at(key)), "true or false");
  return at(key).get<bool>();
}

std::string JsonObject::text(std::string_view key) const {
  if (!at(key).is_string()) refuse(key, brief(at(key)), "a string");
  return at(key).get<std::string>();
}

std::string JsonObject::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

}  // namespace ng
