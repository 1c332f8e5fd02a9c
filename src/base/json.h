// Strict JSON from files that nobody may trust, with errors that name file, key and value.
#pragma once

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

extern template class nlohmann::basic_json<>;  // in json.cc: it takes each user a second

namespace ng {

/// Parses one JSON document. Refuses, by Error at `place`: syntax errors, invalid UTF-8, a NUL, a
/// key given twice in an object, nesting deeper than `max_depth`. Takes time by the size alone.
[[nodiscard]] Json parse_json(std::string_view text, const std::string& place, int max_depth = 32);

/// The same for a line of a log, which may be torn: is_discarded() where it is no JSON.
[[nodiscard]] Json parse_json_line(std::string_view line);

/// read_file + parse_json.
[[nodiscard]] Json read_json_file(const std::string& path, size_t max_bytes);

/// A document as text; what is not UTF-8 in its strings (a file's name may hold anything) becomes
/// U+FFFD. `indent` per level; -1: one line.
[[nodiscard]] std::string json_text(const Json& json, int indent = -1);
/// A template, so that what becomes JSON for the call becomes Json.
template <std::same_as<OrderedJson> Ordered>
[[nodiscard]] std::string json_text(const Ordered& json, int indent = -1) {
  return json.dump(indent, ' ', false, Ordered::error_handler_t::replace);
}

/// A value for an error message: one line, at most about 40 characters.
[[nodiscard]] std::string brief(const Json& value);

/// Typed access to an object. Errors name `place` and the key, with `prefix` before it.
class JsonObject {
 public:
  /// Throws Error where `value` is not an object.
  JsonObject(const Json& value, std::string place, std::string prefix = "");

  [[nodiscard]] const Json& value() const { return *value_; }
  [[nodiscard]] const std::string& place() const { return place_; }

  /// There and not null.
  [[nodiscard]] bool has(std::string_view key) const;
  /// The value; throws Error "missing" where the key is absent or null, `expected` its remedy.
  [[nodiscard]] const Json& at(std::string_view key, const std::string& expected = "a value") const;
  [[nodiscard]] JsonObject object(std::string_view key) const;

  [[nodiscard]] int64_t integer(std::string_view key, int64_t min, int64_t max) const;
  [[nodiscard]] int64_t integer_or(std::string_view key, int64_t min, int64_t max,
                                   int64_t otherwise) const;
  /// Finite and in [min, max].
  [[nodiscard]] double number(std::string_view key, double min, double max) const;
  [[nodiscard]] double number_or(std::string_view key, double min, double max,
                                 double otherwise) const;
  [[nodiscard]] bool boolean_or(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view otherwise) const;

  /// Throws Error about one of its keys.
  [[noreturn]] void refuse(std::string_view key, const std::string& problem,
                           const std::string& remedy) const;

 private:
  const Json* value_;
  std::string place_;
  std::string prefix_;
};

}  // namespace ng
