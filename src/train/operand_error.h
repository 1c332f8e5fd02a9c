// The signal-to-noise ratio of each operand of a step: how far its numbers are from what they stand
// for, by layer and operand. [formats.md §8]
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run/run.h"

namespace ng {

/// Rows of operands that are read at a time: a turned source has them side by side.
constexpr int64_t kOperandRows = 16;

/// Rows `first` ... of an operand before its cast, zero-padded and transformed, as many and as far
/// along K as `out` has: at most kOperandRows rows, whole Hadamard groups.
void read_exact_rows(const Backend& backend, const PackedOperand& packed,
                     const OperandOrigin& origin, int64_t first, const Rows<float>& out);

/// Measures a sample, so that a step with it costs little more than one without: of the first
/// operand of each layer and role (the first micro-batch, the first piece of the head) up to 32
/// rows in two groups of sixteen, and of these the first 512 values along K.
class OperandErrors final : public OperandObserver {
 public:
  explicit OperandErrors(Run& run);

  void operand(const PackedOperand& packed, const OperandOrigin& origin, std::string_view layer,
               std::string_view role) override;
  /// SQNR in dB since forget(); NaN where nothing was measured.
  [[nodiscard]] double sqnr_db(const std::string& layer, const std::string& role) const;
  void forget() { sqnr_db_.clear(); }

 private:
  [[nodiscard]] double measure(const PackedOperand& packed, const OperandOrigin& origin);

  Run& run_;
  std::map<std::pair<std::string, std::string>, double> sqnr_db_;
  View unpacked_;                      // backend memory for sixteen rows
  std::vector<float> exact_, narrow_;  // sixteen rows each
};

}  // namespace ng
