// metrics.jsonl of a run as the session writes it: by the one rank that does; on others nothing
// happens.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/json.h"
#include "train/metrics.h"

namespace ng {

class RunLog {
 public:
  /// See MetricsFile, whose listener `heard` is. To be called by the rank that writes.
  void open(const std::string& path, int64_t last_step,
            const std::function<void(const std::string&)>& notice,
            std::function<void(const Json&)> heard) {
    file_ = std::make_unique<MetricsFile>(path, last_step, notice);
    file_->set_listener(std::move(heard));
  }

  template <class... Parts>
  void write(const Parts&... parts) const {
    if (file_) file_->write(parts...);
  }
  void event(const std::string& name, int64_t step, const Json& details) const {
    if (file_) file_->event(name, step, details);
  }
  void event(const std::string& name, int64_t step) const {
    if (file_) file_->event(name, step);
  }
  /// -1 where nobody writes here.
  [[nodiscard]] int64_t validated() const { return file_ ? file_->validated() : -1; }
  void sync() const {
    if (file_) file_->sync();
  }
  void saved() const {
    if (file_) file_->saved();
  }
  void keep_both() const {
    if (file_) file_->keep_both();
  }

 private:
  std::unique_ptr<MetricsFile> file_;
};

}  // namespace ng
