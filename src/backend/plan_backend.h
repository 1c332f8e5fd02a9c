// A backend without memory, for dry runs.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/backend.h"

namespace ng {

/// Hands out addresses without memory and does nothing; what operands and scratch need another
/// backend says, which outlives it.
class PlanBackend : public Backend {
 public:
  explicit PlanBackend(const Backend& backend) : backend_(backend) {}
  [[nodiscard]] std::string_view name() const override { return backend_.name(); }
  [[nodiscard]] size_t scratch_bytes() const override { return backend_.scratch_bytes(); }
  [[nodiscard]] int64_t logits_bytes() const override { return backend_.logits_bytes(); }
  // Never read; not null, so that it counts as a place.
  std::byte* allocate(size_t /* bytes */) override {
    return reinterpret_cast<std::byte*>(uintptr_t{1} << 20);
  }
  void release(std::byte* /* memory */, size_t /* bytes */) override {}
  void upload(std::byte* /* to */, const void* /* from */, size_t /* bytes */) override {}
  void download(void* to, const std::byte* /* from */, size_t bytes) const override {
    std::memset(to, 0, bytes);
  }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return backend_.operand_bytes(spec);
  }
  [[nodiscard]] bool takes_off_means() const override { return backend_.takes_off_means(); }
  void execute(const Operation& /* operation */) override {}
  void require(const Operation& operation) const override { backend_.require(operation); }

 private:
  const Backend& backend_;
};

}  // namespace ng
