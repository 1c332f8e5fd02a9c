#include "backend/cpu/cpu_backend.h"

#include <cstring>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/noise/noise.h"
#include "backend/cpu/ops/activation.h"
#include "backend/cpu/ops/cross_entropy.h"
#include "backend/cpu/ops/elementwise.h"
#include "backend/cpu/ops/embedding.h"
#include "backend/cpu/ops/norm.h"
#include "backend/cpu/ops/reduce.h"
#include "backend/cpu/quantize/quantize.h"
#include "backend/cpu/update/adamw_fp32.h"
#include "backend/cpu/update/update.h"
#include "backend/cpu/workspace.h"
#include "backend/host_preference.h"
#include "backend/host_step.h"
#include "backend/ref/update/update.h"

namespace ng {
namespace cpu {
namespace {

// Every operation is an overload of perform: those of ops/ and attention/, and these.
void perform(Workspace& workspace, const Prepare& op) { prepare(workspace, op); }
void perform(Workspace& workspace, const FindOperandAmax& op) { find_operand_amax(workspace, op); }
void perform(Workspace& workspace, const PrepareBoth& op) { prepare_both(workspace, op); }
void perform(Workspace& workspace, const Unpack& op) { unpack(workspace.threads(), op); }
void perform(Workspace& workspace, const TurnBack& op) { turn_back(workspace, op); }
void perform(Workspace& workspace, const RoundingBackward& op) { rounding_backward(workspace, op); }
void perform(Workspace& workspace, const Gemm& op) { gemm(workspace, op); }
void perform(Workspace& /* workspace */, const RollDelayedScale& op) {
  roll_delayed_scale(op.cast, op.state);
}
void perform(Workspace& /* workspace */, const DecideStep& op) { decide_step(op); }
void perform(Workspace& /* workspace */, const PreferenceLoss& op) { preference_loss_on_host(op); }
// Looks at values in steps only whose gradients are out of all proportion: no kernel is worth it.
void perform(Workspace& /* workspace */, const CheckUpdate& op) { ref::perform(op); }

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(Threads threads) : workspace_(threads) {}

  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] size_t scratch_bytes() const override { return workspace_.bytes(); }

  std::byte* allocate(size_t bytes) override { return cpu::allocate(bytes); }
  void release(std::byte* memory, size_t bytes) override { cpu::release(memory, bytes); }
  void upload(std::byte* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return cpu::operand_bytes(spec);
  }
  [[nodiscard]] bool takes_off_means() const override { return true; }
  void execute(const Operation& operation) override {
    const auto with = [this]<class Op>(const Op& op) requires requires(Workspace & workspace) {
      perform(workspace, op);
    }
    { perform(workspace_, op); };
    execute_with(with, name(), operation);
  }

 private:
  Workspace workspace_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(Threads threads) {
  return std::make_unique<cpu::CpuBackend>(threads);
}

}  // namespace ng
