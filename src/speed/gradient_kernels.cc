#include "speed/gradient_kernels.h"

#include <fmt/format.h>

#include <array>
#include <memory>

#include "backend/gradient_scale.h"

namespace ng {
namespace {

/// A gradient, what it is sent as, and what two ranks that send the same make of it.
class SentGradient {
 public:
  SentGradient(Backend& backend, const ConstView& gradient)
      : backend_(backend),
        x_(gradient),
        mean_(backend, static_cast<size_t>(gradient.size()) * sizeof(float)),
        codes_(backend, static_cast<size_t>(gradient.size())),
        codes_of_other_(backend, static_cast<size_t>(gradient.size())),
        facts_(backend, sizeof(Facts)) {
    cast_.scale = ScaleKind::pow2;
    find_amax();
    store(codes_);
    store(codes_of_other_);
    float amax = 0;
    backend_.download(&amax, reinterpret_cast<const std::byte*>(&facts()->amax), sizeof amax);
    encode_scale_ = 2 * shared_encode_scale(cast_, amax, {});
  }

  void find_amax() { backend_.execute(FindAmax{.amax = &facts()->amax, .x = x_}); }
  void store() { store(codes_); }
  void sum(RankSum rule) {
    const std::array<ConstView, 2> ranks = {sent(codes_), sent(codes_of_other_)};
    backend_.execute(SumOfRanks{.y = fp32_in(mean_, x_.rows, x_.cols),
                                .x = ranks,
                                .rule = rule,
                                .encode_scale = encode_scale_,
                                .size = x_.size(),
                                .largest = rule == RankSum::ring ? &facts()->largest : nullptr});
  }

 private:
  /// What lies in the backend's memory, too.
  struct Facts {
    uint64_t largest;
    float amax, scale;
  };
  [[nodiscard]] Facts* facts() const { return reinterpret_cast<Facts*>(facts_.data()); }
  [[nodiscard]] View sent(const BackendMemory& codes) const {
    return {codes.data(), *cast_.element, x_.rows, x_.cols, x_.cols};
  }
  void store(const BackendMemory& codes) {
    View y = sent(codes);
    auto* const scale = reinterpret_cast<std::byte*>(&facts()->scale);
    y.scales = {scale, &fp32_format(), cast_.block, nullptr};
    backend_.execute(StoreGradient{.y = {y, cast_}, .x = x_, .key = {}, .amax = &facts()->amax});
  }

  Backend& backend_;
  ConstView x_;
  Operand cast_ = operand_of("fp8_e4m3");
  BackendMemory mean_, codes_, codes_of_other_, facts_;
  float encode_scale_ = 1;
};

}  // namespace

std::vector<TimedKernel> gradient_kernels(
    Backend& backend, const ConstView& gradient,
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
    if (!sent) sent = std::make_shared<SentGradient>(backend, gradient);
    all.push_back({.name = kernel.name,
                   .bytes_per_element = kernel.bytes,
                   .work = [sent, work = kernel.work] { work(*sent); }});
  }
  return all;
}

}  // namespace ng
