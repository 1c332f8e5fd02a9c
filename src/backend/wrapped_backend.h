// What looks at the operations of another backend, or changes some, derives from this.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backend/backend.h"

namespace ng {

/// Does what the backend that it owns does.
class WrappedBackend : public Backend {
 public:
  explicit WrappedBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  [[nodiscard]] std::string_view name() const override { return backend_->name(); }
  [[nodiscard]] std::string device_name() const override { return backend_->device_name(); }
  [[nodiscard]] size_t scratch_bytes() const override { return backend_->scratch_bytes(); }
  [[nodiscard]] int64_t logits_bytes() const override { return backend_->logits_bytes(); }
  std::byte* allocate(size_t bytes) override { return backend_->allocate(bytes); }
  void release(std::byte* memory, size_t bytes) override { backend_->release(memory, bytes); }
  void upload(std::byte* to, const void* from, size_t bytes) override {
    backend_->upload(to, from, bytes);
  }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    backend_->download(to, from, bytes);
  }
  [[nodiscard]] bool is_in_hosts_reach() const override { return backend_->is_in_hosts_reach(); }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return backend_->operand_bytes(spec);
  }
  [[nodiscard]] bool takes_off_means() const override { return backend_->takes_off_means(); }
  [[nodiscard]] SumUnits sum_units(const OperandSpec& a, const OperandSpec& b,
                                   SumOrder sum) const override {
    return backend_->sum_units(a, b, sum);
  }
  void use_stream(void* stream) override { backend_->use_stream(stream); }
  void execute(const Operation& operation) override { backend_->execute(operation); }
  void require(const Operation& operation) const override { backend_->require(operation); }
  void forget_repeated_steps() override { backend_->forget_repeated_steps(); }
  [[nodiscard]] bool measures_seconds() const override { return backend_->measures_seconds(); }
  [[nodiscard]] TimeByKind measured_seconds() override { return backend_->measured_seconds(); }

 protected:
  [[nodiscard]] Backend& wrapped() { return *backend_; }

 private:
  std::unique_ptr<Backend> backend_;
};

}  // namespace ng
