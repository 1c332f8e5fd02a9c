#include "speed/gradient_kernels.h"

#include <fmt/format.h>

#include <array>
#include <memory>

#include "backend/cpu/update/update.h"
#include "backend/gradient_scale.h"

namespace ng {
namespace {

/// A gradient, what it is sent as, and what two ranks that send the same make of it.
class SentGradient {
 public:
  SentGradient(cpu::Workspace& workspace, Rows<const float> gradient)
      : workspace_(workspace),
        x_(gradient.data, gradient.rows, gradient.cols, gradient.stride),
        mean_(static_cast<size_t>(gradient.rows * gradient.cols)),
        codes_(mean_.size()),
        codes_of_other_(mean_.size()) {
    cast_.scale = ScaleKind::pow2;
    find_amax();
    store();
    codes_of_other_ = codes_;
  }

  void find_amax() { cpu::perform(workspace_, FindAmax{.amax = &amax_, .x = x_}); }
  void store() {
    View y = sent(codes_);
    y.scales = {reinterpret_cast<std::byte*>(&scale_), &fp32_format(), cast_.block, nullptr};
    cpu::perform(workspace_, StoreGradient{.y = {y, cast_}, .x = x_, .key = {}, .amax = &amax_});
  }
  void sum(RankSum rule) {
    const std::array<ConstView, 2> ranks = {sent(codes_), sent(codes_of_other_)};
    uint64_t largest = 0;
    cpu::perform(workspace_, SumOfRanks{.y = {mean_.data(), x_.rows, x_.cols, x_.cols},
                                        .x = ranks,
                                        .rule = rule,
                                        .encode_scale = 2 * shared_encode_scale(cast_, amax_, {}),
                                        .size = x_.size(),
                                        .largest = rule == RankSum::ring ? &largest : nullptr});
  }

 private:
  [[nodiscard]] View sent(std::vector<std::byte>& codes) const {
    return {codes.data(), *cast_.element, x_.rows, x_.cols, x_.cols};
  }

  cpu::Workspace& workspace_;
  ConstView x_;
  Operand cast_ = operand_of("fp8_e4m3");
  std::vector<float> mean_;
  std::vector<std::byte> codes_, codes_of_other_;
  float amax_ = 0, scale_ = 1;
};

}  // namespace

std::vector<TimedKernel> gradient_kernels(
    cpu::Workspace& workspace, Rows<const float> gradient,
    const std::function<bool(const std::string& name)>& is_wanted) {
  struct Each {
    const char* name;
    double bytes;
    std::function<void(SentGradient&)> work;
  };
  const Each each[] = {
      {"gradient amax", 4, [](SentGradient& g) { g.find_amax(); }},
      {"gradient to fp8_e4m3", 4 + 1, [](SentGradient& g) { g.store(); }},
      {"gradient of 2 ranks exact", 2 + 4, [](SentGradient& g) { g.sum(RankSum::exact); }},
      {"gradient of 2 ranks ring", 2 + 4, [](SentGradient& g) { g.sum(RankSum::ring); }}};
  std::shared_ptr<SentGradient> sent;
  std::vector<TimedKernel> all;
  for (const Each& kernel : each) {
    if (!is_wanted(kernel.name)) continue;
    if (!sent) sent = std::make_shared<SentGradient>(workspace, gradient);
    all.push_back({.name = kernel.name,
                   .bytes_per_element = kernel.bytes,
                   .work = [sent, work = kernel.work] { work(*sent); }});
  }
  return all;
}

}  // namespace ng
