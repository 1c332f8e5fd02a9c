#include "backend/ref/ref_backend.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "backend/ref/activation.h"
#include "backend/ref/attention.h"
#include "backend/ref/elementwise.h"
#include "backend/ref/embed.h"
#include "backend/ref/gemm.h"
#include "backend/ref/loss.h"
#include "backend/ref/noise.h"
#include "backend/ref/norm.h"
#include "backend/ref/operand.h"
#include "backend/ref/rank_sum.h"
#include "backend/ref/update/momentum.h"
#include "backend/ref/update/store.h"
#include "backend/ref/update/update.h"

namespace ng {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kScratchDoubles = size_t{1} << 17;

/// Every operation is an overload of perform in its topic's file.
class RefBackend final : public Backend {
 public:
  RefBackend() : scratch_(kScratchDoubles) {}

  std::string_view name() const override { return "ref"; }
  size_t scratch_bytes() const override { return scratch_.size() * sizeof(double); }

  std::byte* allocate(size_t bytes) override {
    const bool fits = bytes <= std::numeric_limits<size_t>::max() - kAlignment;
    const size_t size = fits ? (bytes + kAlignment - 1) / kAlignment * kAlignment : 0;
    void* memory = fits ? std::aligned_alloc(kAlignment, size == 0 ? kAlignment : size) : nullptr;
    if (memory == nullptr)
      throw Error({.place = "memory",
                   .key = "",
                   .problem = fmt::format("cannot allocate {} bytes", bytes),
                   .remedy = "a smaller batch, context or model"});
    return static_cast<std::byte*>(std::memset(memory, 0, size));
  }
  void release(std::byte* memory, size_t) override { std::free(memory); }

  void upload(std::byte* to, const void* from, size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }

  size_t operand_bytes(const OperandSpec& spec) const override { return ref::operand_bytes(spec); }
  bool takes_off_means() const override { return true; }

  void execute(const Operation& operation) override {
    const auto with = [this]<class Op>(const Op& op) requires(
        requires { ref::perform(op); } ||
        requires(ref::Scratch & scratch) { ref::perform(op, scratch); }) {
      if constexpr (requires { ref::perform(op); })
        ref::perform(op);
      else
        ref::perform(op, scratch_);
    };
    execute_with(with, name(), operation);
  }

 private:
  ref::Scratch scratch_;
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend(Threads) { return std::make_unique<RefBackend>(); }

}  // namespace ng
