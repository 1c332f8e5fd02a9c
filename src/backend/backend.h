// THE SEAM. A backend owns memory and does the operations of operations.h. `ref` is the executable
// specification, `cpu` the fast implementation; tests/conformance compares them.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backend/device_messages.h"
#include "backend/operations.h"
#include "backend/repeated_step.h"
#include "base/threads.h"

namespace ng {

/// Thrown for an operation, or a type of tensor, that a backend does not have: a named SKIP in the
/// conformance suite.
class Unsupported : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Of the device that computes, "NVIDIA H200 (sm_90)"; empty: the host does.
  [[nodiscard]] virtual std::string device_name() const { return {}; }
  /// Bytes of scratch held for the backend's lifetime (for the memory table).
  [[nodiscard]] virtual size_t scratch_bytes() const = 0;

  /// Of logits in FP32 that the head makes at once: enough for products at full speed, little
  /// beside the activations of any real model.
  [[nodiscard]] virtual int64_t logits_bytes() const { return int64_t{64} << 20; }

  // Memory. -------------------------------------------------------------------------------------
  /// Zeroed bytes aligned to 64; throws Error when there is not enough.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* memory, size_t bytes) = 0;
  /// Host memory to backend memory, and back.
  virtual void upload(std::byte* to, const void* from, size_t bytes) = 0;
  virtual void download(void* to, const std::byte* from, size_t bytes) const = 0;
  /// Whether the host's own code, a transport's say, may read and write it in place.
  [[nodiscard]] virtual bool is_in_hosts_reach() const { return true; }

  /// Which device the memory is of, among those of all hosts; empty: messages go by the host's
  /// memory. Ranks whose backends all name another one may have DeviceMessages.
  [[nodiscard]] virtual std::string device_address() const { return {}; }
  /// Of rank `rank` of `ranks`; called by all of them.
  virtual std::unique_ptr<DeviceMessages> make_device_messages(int /* rank */, int /* ranks */,
                                                               const FromFirst& /* share */) {
    return nullptr;
  }

  /// Bytes of storage that Prepare needs: 0 where the backend reads the source in place.
  [[nodiscard]] virtual size_t operand_bytes(const OperandSpec& spec) const = 0;
  /// Whether PrepareContext::mean may be set; else a source without its mean is made before.
  [[nodiscard]] virtual bool takes_off_means() const = 0;

  /// By what a Gemm of such operands adds its products.
  [[nodiscard]] virtual SumUnits sum_units(const OperandSpec& /* a */, const OperandSpec& /* b */,
                                           SumOrder /* sum */) const {
    return SumUnits::defined;
  }

  /// What matrix units there are for; none: all is plain arithmetic.
  [[nodiscard]] virtual std::vector<ProductMode> product_modes() { return {}; }

  /// Of a device whose memory others use, too: operations from now on go behind what they have
  /// given to this stream, and what they will behind these.
  virtual void use_stream(void* /* stream */) {}

  /// Throws Unsupported where the backend lacks the operation or one of its tensors' types.
  virtual void execute(const Operation& operation) = 0;

  /// Throws Unsupported where execute would, and does nothing else: asked of every operation of a
  /// dry run, so that what a backend lacks is said before the first step. The tensors of a dry run
  /// have types and no memory.
  virtual void require(const Operation& /* operation */) const {}

  /// For operations that come again in each step. Not to outlive the backend.
  virtual std::unique_ptr<RepeatedStep> make_repeated_step() {
    return std::make_unique<RepeatedStep>();
  }

  /// Memory of steps was taken anew: what they did may not be done again as it was.
  virtual void forget_repeated_steps() {}

  /// Whether the host's clock only sees how operations are sent to a device, which measures them.
  [[nodiscard]] virtual bool measures_seconds() const { return false; }
  /// Of all operations so far; waits until they have ended.
  [[nodiscard]] virtual TimeByKind measured_seconds() { return {}; }
};

/// What a backend computes on, as reports name it: machine_text(threads), or a device in its host.
[[nodiscard]] std::string machine_text(const Backend& backend, Threads threads);

/// perform(op) where it can be called with the operation: a backend is a set of overloads. Throws
/// Unsupported for the others.
template <class Perform>
void execute_with(const Perform& perform, std::string_view backend, const Operation& operation) {
  std::visit(
      [&](const auto& op) {
        if constexpr (std::is_invocable_v<const Perform&, decltype(op)>)
          perform(op);
        else
          throw Unsupported(std::string(backend) + " has no " + std::string(op.kName));
      },
      operation);
}

}  // namespace ng
