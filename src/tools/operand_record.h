// The operands that a linear layer takes into its GEMMs, as codes, scales and values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/run.h"

namespace ng {

/// One operand on the host, rows × reduction as the GEMM reads it, padded and transformed.
struct RecordedOperand {
  std::string role;  ///< "fprop.input"
  OperandSpec spec;
  std::vector<uint16_t> codes;  ///< (rows, k_padded); empty: FP32
  ScaleShape shape;             ///< of the scales; 0 × 0: none
  std::vector<float> scales;    ///< decode multipliers
  ScaleShape levels;            ///< of the second level
  std::vector<float> tensor_scales;
  std::vector<float> values;  ///< element · scale · tensor scale
  double sqnr_db = 0;         ///< against what was cast; NaN where that is all zeros

  /// The scales as codes of one byte, where they are stored so.
  [[nodiscard]] std::vector<uint8_t> scale_codes() const;
};

/// Keeps every operand of a Run that it hears of.
class OperandRecord final : public OperandObserver {
 public:
  explicit OperandRecord(Run& run) : run_(run) { run.set_operand_observer(this); }
  ~OperandRecord() override { run_.set_operand_observer(nullptr); }
  OperandRecord(const OperandRecord&) = delete;
  OperandRecord& operator=(const OperandRecord&) = delete;

  void operand(const PackedOperand& packed, const OperandOrigin& origin, std::string_view layer,
               std::string_view role) override;
  [[nodiscard]] const std::vector<RecordedOperand>& operands() const { return operands_; }

 private:
  Run& run_;
  std::vector<RecordedOperand> operands_;
};

}  // namespace ng
