#include "report/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>

namespace ng::report {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr uint64_t kSessionStart = 1;  // SessionLog.START

// Protocol buffers' wire format: a field's number and kind, then its value, least byte first.
enum class Wire : uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

class Message {
 public:
  Message& varint(uint64_t field, uint64_t value) {
    key(field, Wire::varint);
    append_varint(value);
    return *this;
  }
  Message& fixed64(uint64_t field, double value) {
    key(field, Wire::fixed64);
    append_fixed(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  Message& fixed32(uint64_t field, float value) {
    key(field, Wire::fixed32);
    append_fixed(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  Message& bytes(uint64_t field, std::string_view value) {
    key(field, Wire::bytes);
    append_varint(value.size());
    text_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void key(uint64_t field, Wire wire) { append_varint(field << 3 | static_cast<uint64_t>(wire)); }
  void append_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  void append_fixed(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
  }
  std::string text_;
};

// Event: 1 wall_time, 2 step, then one of 3 file_version, 5 summary, 7 session_log.
Message event(int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Message message;
  message.fixed64(1, std::chrono::duration<double>(now).count());
  message.varint(2, static_cast<uint64_t>(step));
  return message;
}

// Seconds in the name of an event file; 0 for other names.
int64_t time_of(std::string_view name) {
  int64_t time = 0;
  if (name.starts_with(kPrefix))
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), time);
  return time;
}

// TensorBoard reads the files of a folder by name.
std::string next_name(const std::string& folder) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  int64_t time = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (const std::string& name : list_folder(folder)) time = std::max(time, time_of(name) + 1);
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}{:010}.{}.{}", kPrefix, time, host[0] != '\0' ? host.data() : "localhost",
                     ::getpid());
}

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return table;
}

// A checksum of data that hold checksums would be weak: they are rotated and moved.
uint32_t masked_crc(std::string_view data) { return std::rotr(crc32c(data), 15) + 0xA282EAD8u; }

void append(std::string& text, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char c : data) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string tf_record(std::string_view data) {
  std::string record;
  append(record, data.size(), 8);
  append(record, masked_crc(record), 4);
  record += data;
  append(record, masked_crc(data), 4);
  return record;
}

EventFile::EventFile(const std::string& folder, int64_t first_step)
    : file_(std::make_unique<AppendFile>(join_path(folder, next_name(folder)))) {
  record(event(0).bytes(3, "brain.Event:2").text());
  const Message start = Message().varint(1, kSessionStart);
  record(event(first_step).bytes(7, start.text()).text());
}

void EventFile::add(int64_t step, std::span<const Scalar> scalars) {
  Message summary;  // 1 value: 1 tag, 2 simple_value
  for (const auto& [tag, value] : scalars) {
    const Message one = Message().bytes(1, tag).fixed32(2, static_cast<float>(value));
    summary.bytes(1, one.text());
  }
  record(event(step).bytes(5, summary.text()).text());
}

void EventFile::record(std::string_view event) { file_->append(tf_record(event)); }

}  // namespace ng::report
