// A device's time by kind of operation: moments on its stream, between which all is of one kind.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "backend/operation_words.h"

namespace ng::cuda {

/// A clock that runs with the device.
class Moments {
 public:
  Moments() = default;
  virtual ~Moments() = default;
  Moments(const Moments&) = delete;
  Moments& operator=(const Moments&) = delete;

  /// Moment `i` is when all has ended that was launched so far.
  virtual void note(size_t i) = 0;
  /// Of moments that have passed.
  [[nodiscard]] virtual double seconds(size_t from, size_t to) const = 0;
};

class KindClock {
 public:
  explicit KindClock(std::unique_ptr<Moments> moments) : moments_(std::move(moments)) {}

  /// What is launched from here on is of this kind. `also`, which outlives it or is forgotten,
  /// gets its seconds, too.
  void begin(TimeKind kind, TimeByKind* also = nullptr) {
    begin(Span{.kind = kind, .also = also, .shares = nullptr});
  }
  /// It is of all kinds, as in `shares` when it is collected.
  void begin_mixed(const TimeByKind* shares) {
    begin(Span{.kind = kNone, .also = nullptr, .shares = shares});
  }
  void end() {
    if (!spans_.empty()) begin(Span{});
  }

  /// After end(), when all of it has passed: seconds since the last time are added.
  void collect(TimeByKind& to) {
    for (size_t i = 0; i + 1 < spans_.size(); ++i) add(spans_[i], moments_->seconds(i, i + 1), to);
    spans_.clear();
  }
  /// Nobody writes there or reads it any more.
  void forget(const TimeByKind* seconds) {
    for (Span& span : spans_) {
      if (span.also == seconds) span.also = nullptr;
      if (span.shares == seconds) span = {};
    }
  }

 private:
  static constexpr auto kNone = static_cast<TimeKind>(kTimeKinds);
  struct Span {
    TimeKind kind = kNone;
    TimeByKind* also = nullptr;
    const TimeByKind* shares = nullptr;
    friend bool operator==(const Span&, const Span&) = default;
  };

  void begin(const Span& span) {
    if (!spans_.empty() && spans_.back() == span) return;
    moments_->note(spans_.size());
    spans_.push_back(span);
  }
  static void add(const Span& span, double seconds, TimeByKind& to) {
    if (span.kind != kNone) {
      to[static_cast<size_t>(span.kind)] += seconds;
      if (span.also != nullptr) (*span.also)[static_cast<size_t>(span.kind)] += seconds;
    } else if (span.shares != nullptr) {
      const double whole = total_seconds(*span.shares);
      for (size_t kind = 0; kind < kTimeKinds && whole > 0; ++kind)
        to[kind] += seconds * (*span.shares)[kind] / whole;
    }
  }

  std::unique_ptr<Moments> moments_;
  std::vector<Span> spans_;  ///< span i begins at moment i; the last is still under way
};

}  // namespace ng::cuda
