// Scalars for TensorBoard: a file of TFRecords, each an Event message. [tensorflow/core/util/
// event.proto, framework/summary.proto, lib/io/record_writer.cc]
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/files.h"

namespace ng::report {

/// One value of a curve; the tag is the curve's name.
using Scalar = std::pair<std::string_view, double>;

class EventFile {
 public:
  /// A new file in `folder`, named so that TensorBoard reads it after those already there. It
  /// begins with the word that values of steps from `first_step` on in earlier files are void: a
  /// resumed run makes them again.
  EventFile(const std::string& folder, int64_t first_step);

  void add(int64_t step, std::span<const Scalar> scalars);
  void sync() { file_->sync(); }

 private:
  void record(std::string_view event);
  std::unique_ptr<AppendFile> file_;
};

/// A record: length, its checksum, the data, their checksum.
[[nodiscard]] std::string tf_record(std::string_view data);

/// CRC-32C (Castagnoli), as in iSCSI. [RFC 3720, B.4]
[[nodiscard]] uint32_t crc32c(std::string_view data);

}  // namespace ng::report
