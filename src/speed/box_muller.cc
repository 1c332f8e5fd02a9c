#include "speed/box_muller.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "speed/box_muller.cc"
#include <hwy/foreach_target.h>  // once per instruction set

// After foreach_target.h
#include <hwy/contrib/math/math-inl.h>

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

HWY_INLINE F16 UniformOf(const uint16_t* draws) {
  return Mul(Add(ToFloat(LoadHalves16<int32_t>(draws)), Set16(0.5f)), Set16(0x1p-16f));
}

struct NormalPair {
  F16 first, second;
};

HWY_INLINE NormalPair NormalsOf(const F16& u1, const F16& u2) {
  constexpr float kTwoPi = 0x1.921fb6p+2f;
  const F16::Tag d;
  const F16 radius = ForParts<F16>([&](size_t p) HWY_ATTR {
    return hn::Sqrt(hn::Mul(hn::Set(d, -2.0f), hn::Log(d, u1.part[p])));
  });
  const F16 angle = Mul(u2, Set16(kTwoPi));
  return {Mul(radius, ForParts<F16>([&](size_t p) HWY_ATTR { return hn::Cos(d, angle.part[p]); })),
          Mul(radius, ForParts<F16>([&](size_t p) HWY_ATTR { return hn::Sin(d, angle.part[p]); }))};
}

HWY_INLINE void AddRounded(const F16& normal, const float* w, const F16& scale, Bf16* y) {
  const F16 whole = Set16(0x1.8p23f);  // adding it leaves no bits behind the point
  const F16 rounded = Sub(Add(Mul(normal, Set16(0.5f)), whole), whole);
  Store16(Add(Load16(w), Mul(rounded, scale)), y, AllLanes());
}

void AddPanel(const BoxMullerPanel& panel) {
  for (int64_t r = 0; r < panel.rows; ++r)
    for (int64_t c = 0; c < panel.cols; c += 2 * kLanes) {
      const int64_t at = r * panel.cols + c;
      const NormalPair n =
          NormalsOf(UniformOf(panel.draws + at), UniformOf(panel.draws + at + kLanes));
      const F16 scale = Set16(panel.scales[c / (2 * kLanes)]);
      AddRounded(n.first, panel.weight + at, scale, panel.y + at);
      AddRounded(n.second, panel.weight + at + kLanes, scale, panel.y + at + kLanes);
    }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng {
namespace cpu {
HWY_EXPORT(AddPanel);
}

void add_box_muller(const BoxMullerPanel& panel) {
  using namespace cpu;  // NOLINT(google-build-using-namespace): the dispatch table lies there
  HWY_DYNAMIC_DISPATCH(AddPanel)(panel);
}

}  // namespace ng
#endif
