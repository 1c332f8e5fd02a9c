#include "report/event_file.h"

#include <gtest/gtest.h>

#include <array>

namespace ng::report {
namespace {

TEST(Crc32c, IsThatOfTheStandard) {  // [RFC 3720, B.4]
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
}

TEST(TfRecord, HasLengthDataAndTheirChecksums) {
  const std::string record = tf_record("abc");
  ASSERT_EQ(record.size(), 8u + 4u + 3u + 4u);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

class EventFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = join_path(testing::TempDir(), "event_file_test");
    remove_all(folder_);
    make_folders(folder_);
  }
  void TearDown() override { remove_all(folder_); }
  std::string folder_;
};

TEST_F(EventFileTest, IsAChainOfWholeRecords) {
  EventFile file(folder_, 1);
  file.add(1, std::array<Scalar, 2>{{{"loss", 1.5}, {"lr", 0.25}}});
  const std::vector<std::string> names = list_folder(folder_);
  ASSERT_EQ(names.size(), 1u);
  const std::string bytes = read_file(join_path(folder_, names[0]), 1 << 20);
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = static_cast<size_t>(static_cast<uint8_t>(bytes[at]));
    events.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(bytes.substr(at, 16 + length), tf_record(events.back()));
    at += 16 + length;
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[0].ends_with("brain.Event:2"));
  // wall_time takes nine bytes; step 1, session_log { status: START }
  EXPECT_EQ(events[1].substr(9), std::string("\x10\x01\x3A\x02\x08\x01", 6));
  // step 1, summary { value { tag: "loss" simple_value: 1.5 } value { tag: "lr" ... 0.25 } }
  EXPECT_EQ(events[2].substr(9), std::string("\x10\x01\x2A\x18"
                                             "\x0A\x0B\x0A\x04loss\x15\0\0\xC0\x3F"
                                             "\x0A\x09\x0A\x02lr\x15\0\0\x80\x3E",
                                             28));
}

TEST_F(EventFileTest, ComesAfterEarlierOnesByName) {
  for (int i = 0; i < 3; ++i) EventFile(folder_, 1);
  const std::vector<std::string> names = list_folder(folder_);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_NE(names[0].substr(0, 30), names[1].substr(0, 30)) << "seconds differ";
  EXPECT_NE(names[1].substr(0, 30), names[2].substr(0, 30));
}

}  // namespace
}  // namespace ng::report
