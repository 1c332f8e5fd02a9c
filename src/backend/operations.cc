#include "backend/operations.h"

namespace ng {

std::string_view name_of(TimeKind kind) {
  constexpr std::array<std::string_view, kTimeKinds> kNames = {
      "gemm fprop",   "gemm dgrad", "gemm wgrad",          "quantize",
      "weight noise", "attention",  "norm and activation", "head and loss",
      "embedding",    "optimizer",  "elementwise",         "communication"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view name_of(SumOrder sum) { return sum == SumOrder::chain ? "chain" : "tile32"; }

std::string_view name_of(const Operation& operation) {
  return std::visit([](const auto& op) { return op.kName; }, operation);
}

TimeKind time_of(const Operation& operation) {
  return std::visit(
      [](const auto& op) {
        if constexpr (requires { op.time; })
          return op.time;
        else
          return op.kTime;
      },
      operation);
}

}  // namespace ng
