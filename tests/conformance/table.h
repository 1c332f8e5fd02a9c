// Which operations were compared with ref, on which backends, and with what result: a table for
// people, written where NG_CONFORMANCE_TABLE says.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace ng::conformance {

class Table {
 public:
  static Table& of_all() {
    static Table table;
    return table;
  }
  /// An operation of the call that goes on.
  void note(std::string_view operation) { operations_.emplace(operation); }
  void begin_call() { operations_.clear(); }
  /// Of a backend other than ref; `same`: all results had the bits of ref.
  void end_call(const std::string& backend, bool same) {
    backends_.insert(backend);
    for (const std::string& operation : operations_) {
      Cell& cell = cells_[operation][backend];
      ++cell.calls;
      cell.same += same ? 1 : 0;
    }
  }

  [[nodiscard]] std::string markdown() const {
    std::string text = "| operation |", rule = "\n|---|";
    for (const std::string& backend : backends_) {
      text += fmt::format(" `{}` |", backend);
      rule += "---|";
    }
    text += rule + "\n";
    for (const auto& [operation, row] : cells_) {
      text += fmt::format("| `{}` |", operation);
      for (const std::string& backend : backends_) {
        const auto cell = row.find(backend);
        text += cell == row.end() ? " |" : cell->second.text();
      }
      text += '\n';
    }
    return text;
  }

 private:
  struct Cell {
    int calls = 0, same = 0;
    [[nodiscard]] std::string text() const {
      return same == calls ? fmt::format(" bits {} |", calls)
                           : fmt::format(" bound {}, bits {} |", calls, same);
    }
  };
  std::set<std::string> operations_, backends_;
  std::map<std::string, std::map<std::string, Cell>> cells_;
};

class TableFile : public testing::Environment {
 public:
  void TearDown() override {
    const char* const path = std::getenv("NG_CONFORMANCE_TABLE");
    if (path == nullptr) return;
    std::FILE* const file = std::fopen(path, "w");
    ASSERT_NE(file, nullptr) << path;
    fmt::print(file, "{}", Table::of_all().markdown());
    std::fclose(file);
  }
};
inline testing::Environment* const kTableFile =
    testing::AddGlobalTestEnvironment(new TableFile);  // googletest owns it

}  // namespace ng::conformance
