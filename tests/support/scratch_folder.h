// A folder for the files of one test, and what an error about them says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace ng {

/// Gives each test an absent folder_.
class ScratchFolder : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = join_path(testing::TempDir(),
                        fmt::format("{}_{}_{}", test->test_suite_name(), test->name(), ::getpid()));
    remove_all(folder_);
  }
  void TearDown() override { remove_all(folder_); }

  [[nodiscard]] std::string in(std::string_view name) const { return join_path(folder_, name); }

  std::string folder_;
};

/// What an act's Error says in its one line.
inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "accepted";
}

}  // namespace ng
