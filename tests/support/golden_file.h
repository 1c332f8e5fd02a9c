// Vectors of independent oracles, as tests read them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/safetensors.h"

namespace ng {

/// A file of tests/golden, named without its ending, and its cases. Python writes figures that are
/// not finite in a way that JSON does not have: they are null.
class GoldenFile {
 public:
  explicit GoldenFile(std::string_view name)
      : file_(fmt::format("{}/tests/golden/{}.safetensors", NG_SOURCE_DIR, name)),
        cases_(cases_of(file_)) {}

  [[nodiscard]] const Json& cases() const { return cases_; }
  [[nodiscard]] const std::vector<io::SafetensorsEntry>& entries() const { return file_.entries(); }
  [[nodiscard]] const std::vector<int64_t>& shape(const std::string& name) const {
    return file_.at(name).shape;
  }
  [[nodiscard]] bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  [[nodiscard]] std::vector<float> floats(const std::string& name) const {
    return io::to_floats(file_.at(name));
  }
  [[nodiscard]] std::vector<double> doubles(const std::string& name) const {
    const io::SafetensorsEntry& entry = file_.at(name);
    EXPECT_EQ(entry.dtype, "F64") << name;
    std::vector<double> values(static_cast<size_t>(entry.elements()));
    entry.read(0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  [[nodiscard]] std::vector<int64_t> integers(const std::string& name) const {
    return io::to_integers(file_.at(name));
  }
  /// Of a U64 tensor, whose values an int64_t may not hold.
  [[nodiscard]] std::vector<uint64_t> words64(const std::string& name) const {
    const io::SafetensorsEntry& entry = file_.at(name);
    EXPECT_EQ(entry.dtype, "U64") << name;
    std::vector<uint64_t> values(static_cast<size_t>(entry.elements()));
    entry.read(0, std::as_writable_bytes(std::span(values)));
    return values;
  }

 private:
  static Json cases_of(const io::Safetensors& file) {
    const auto found = file.metadata().find("cases");
    if (found == file.metadata().end()) return Json::object();
    std::string text = found->second;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
      for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
        text.replace(at, word.size(), "null");
    return Json::parse(text);
  }

  io::Safetensors file_;
  Json cases_;
};

}  // namespace ng
