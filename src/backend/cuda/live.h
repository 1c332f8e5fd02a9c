// What launches of a repeated step read in the card's memory, for it changes from step to step,
// while all else that they were given stays as it was when they were captured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/operand_spec.h"
#include "backend/optimizer_rule.h"
#include "backend/repeated_step.h"
#include "base/host_device.h"
#include "format/hadamard.h"
#include "math/philox.h"

namespace ng::cuda {

/// Signs of Hadamard transforms that one repeated step draws anew in each step.
inline constexpr size_t kMostLiveSigns = 4096;

/// In the card's memory.
struct LiveTable {
  StepNumbers numbers;
  SignBits signs[kMostLiveSigns];
};

/// Who captures keeps one, and fills its table before each step.
class Live {
 public:
  explicit Live(LiveTable* table) : table_(table) {}

  /// What is captured from here on is of this step, and of a later one when it is done again.
  void start(uint32_t step) {
    step_ = step;
    drawn_.clear();
  }
  [[nodiscard]] const StepNumbers* numbers() const { return &table_->numbers; }
  /// Null: keys of this step stay as they are.
  [[nodiscard]] const StepNumbers* of(const RandomKey& key) const {
    return key.step == step_ ? numbers() : nullptr;
  }
  /// Null: the transform's signs stay as they are.
  [[nodiscard]] const uint32_t* signs_of(const Hadamard& hadamard) {
    if (hadamard.size == 0 || !hadamard.is_drawn() || of(hadamard.key) == nullptr) return nullptr;
    const Drawn drawn{hadamard.key, hadamard.gemm};
    const auto found = std::find(drawn_.begin(), drawn_.end(), drawn);
    const auto at = static_cast<size_t>(found - drawn_.begin());
    if (at >= kMostLiveSigns) {
      is_full_ = true;
      return nullptr;
    }
    if (found == drawn_.end()) drawn_.push_back(drawn);
    return table_->signs[at].data();
  }
  /// More signs were asked for than the table holds: what was captured may not be done again.
  [[nodiscard]] bool is_full() const { return is_full_; }

  /// As the table is to begin, as far as it is read.
  [[nodiscard]] std::vector<std::byte> filled(const StepNumbers& now) const;

 private:
  struct Drawn {
    RandomKey key;
    uint32_t gemm;
    friend bool operator==(const Drawn&, const Drawn&) = default;
  };

  LiveTable* table_;
  uint32_t step_ = 0;
  std::vector<Drawn> drawn_;
  bool is_full_ = false;
};

/// A key as a kernel is passed it.
struct StepKey {
  RandomKey key{};
  const StepNumbers* live = nullptr;  ///< whose step it has; null: its own

  [[nodiscard]] StepKey with(Purpose purpose) const {
    StepKey other = *this;
    other.key.purpose = purpose;
    return other;
  }
  [[nodiscard]] NG_HD RandomKey now() const {
    RandomKey at = key;
    if (live != nullptr) at.step = live->step;
    return at;
  }
};

/// The numbers of an update as a kernel is passed them.
struct CardOptimizerNumbers {
  OptimizerNumbers numbers{};
  const StepNumbers* live = nullptr;  ///< whose rate and corrections they are; null: their own

  [[nodiscard]] NG_HD OptimizerNumbers now() const {
    OptimizerNumbers at = numbers;
    if (live == nullptr) return at;
    at.lr = live->lr;
    at.correction1 = live->correction1;
    at.correction2 = live->correction2;
    return at;
  }
};

}  // namespace ng::cuda
