#include "base/json.h"

#include <cmath>
#include <utility>
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

/// Builds the document from the events of a parse, as nlohmann's own builder does, but limits the
/// depth and refuses a key given twice. (nlohmann's callbacks would do for that, if they did not
/// walk through an object's earlier members at the end of each member.)
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& place, int max_depth) : place_(place), max_depth_(max_depth) {}

  [[nodiscard]] Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(size_t /*members*/) override { return open(Json::object()); }
  bool start_array(size_t /*values*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [member, is_new] = open_.back()->emplace(name, nullptr);
    if (!is_new)
      throw Error({.place = place_,
                   .key = brief(Json(name)),
                   .problem = "is given twice",
                   .remedy = "give each key once"});
    member_ = &*member;
    return true;
  }

  bool parse_error(size_t /*byte*/, const std::string& /*token*/,
                   const Json::exception& error) override {
    throw Error({.place = place_, .problem = "not valid JSON: " + without_tag(error.what())});
  }

 private:
  /// Puts a value where the next one belongs.
  Json& put(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    return open_.back()->emplace_back(std::move(value));
  }
  bool add(Json value) {
    put(std::move(value));
    return true;
  }
  bool open(Json container) {
    if (static_cast<int>(open_.size()) >= max_depth_)
      throw Error({.place = place_,
                   .problem = fmt::format("JSON nested deeper than {} levels", max_depth_),
                   .remedy = "is it the right file?"});
    open_.push_back(&put(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& place_;
  const int max_depth_;
  Json root_;
  std::vector<Json*>
      open_;  ///< objects and lists around the next value; each is the last of its own
  Json* member_ = nullptr;  ///< of the innermost object, named and without a value yet
};

/// nlohmann takes a NUL for the end of the text, whatever follows.
void refuse_nul(std::string_view text, const std::string& place) {
  const size_t at = text.find('\0');
  if (at == std::string_view::npos) return;
  throw Error({.place = place,
               .problem = fmt::format("not valid JSON: a NUL at byte {} of {}", at, text.size())});
}

}  // namespace

Json parse_json(std::string_view text, const std::string& place, int max_depth) {
  refuse_nul(text, place);
  Builder builder(place, max_depth);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json parse_json_line(std::string_view line) {
  if (line.find('\0') != std::string_view::npos) return Json::value_t::discarded;
  return Json::parse(line, nullptr, /*allow_exceptions=*/false);
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

const Json& JsonObject::at(std::string_view key, const std::string& expected) const {
  if (!has(key)) refuse(key, "missing", expected);
  return *value_->find(key);
}

JsonObject JsonObject::object(std::string_view key) const {
  return {at(key, "an object"), place_, prefix_ + std::string(key) + "."};
}

int64_t JsonObject::integer(std::string_view key, int64_t min, int64_t max) const {
  const std::string expected = fmt::format("an integer from {} to {}", min, max);
  const Json& value = at(key, expected);
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                        : value.is_number_integer();
  if (!fits || value.get<int64_t>() < min || value.get<int64_t>() > max)
    refuse(key, brief(value), expected);
  return value.get<int64_t>();
}

int64_t JsonObject::integer_or(std::string_view key, int64_t min, int64_t max,
                               int64_t otherwise) const {
  return has(key) ? integer(key, min, max) : otherwise;
}

double JsonObject::number(std::string_view key, double min, double max) const {
  const std::string expected = fmt::format("a number from {} to {}", min, max);
  const Json& value = at(key, expected);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= min && number <= max)) refuse(key, brief(value), expected);
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
  const char* const expected = "a string";
  const Json& value = at(key, expected);
  if (!value.is_string()) refuse(key, brief(value), expected);
  return value.get<std::string>();
}

std::string JsonObject::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

}  // namespace ng
