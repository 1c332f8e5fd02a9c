// The signal-to-noise ratio of each operand of a step: how far its numbers are from what they stand
// for, by layer and operand. [formats.md §8]
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run/run.h"

namespace ng {

/// Measures a sample, so that a step with it costs little more than one without: of the first
/// operand of each layer and role (the first micro-batch, the first piece of the head) up to 32
/// rows in two groups of sixteen, and of these the first 512 values along K.
class OperandErrors final : public OperandObserver {
 public:
  explicit OperandErrors(Run& run);

  void operand(const PackedOperand& packed, const ConstView& source, std::string_view layer,
               std::string_view role) override;
  /// SQNR in dB since forget(); NaN where nothing was measured.
  [[nodiscard]] double sqnr_db(const std::string& layer, const std::string& role) const;
  void forget() { sqnr_db_.clear(); }

 private:
  [[nodiscard]] double measure(const PackedOperand& packed, const ConstView& source);

  Run& run_;
  std::map<std::pair<std::string, std::string>, double> sqnr_db_;
  View unpacked_;                      // backend memory for sixteen rows
  std::vector<float> exact_, narrow_;  // sixteen rows each
};

}  // namespace ng
