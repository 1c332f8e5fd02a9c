#include "backend/cpu/ops/elementwise.h"

#include <cstring>

#include "backend/cpu/ops/blocks.h"
#include "math/normal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/elementwise.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

void AddBlock(View y, ConstView a, ConstView b, Compute compute) {
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int64_t r = 0; r < y.rows; ++r) {
      ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
        const F16 sum = Add(in.Read(a.row(r) + i, left), in.Read(b.row(r) + i, left));
        in.Write(sum, y.row(r) + i, left);
      });
    }
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(AddBlock);

void fill(Workspace& workspace, View x, float value) {
  const auto block = [&](View b) {
    for (int64_t r = 0; r < b.rows; ++r) std::fill_n(b.row(r), b.cols, value);
  };
  for_blocks(workspace.threads(), block, x);
}

void copy(Workspace& workspace, View y, ConstView x) {
  const auto block = [&](View yb, ConstView xb) {
    const size_t bytes = static_cast<size_t>(yb.cols) * sizeof(float);
    for (int64_t r = 0; r < yb.rows; ++r) std::memcpy(yb.row(r), xb.row(r), bytes);
  };
  for_blocks(workspace.threads(), block, y, x);
}

void add(Workspace& workspace, View y, ConstView a, ConstView b, Compute compute) {
  const auto block = [&](View yb, ConstView ab, ConstView bb) {
    HWY_DYNAMIC_DISPATCH(AddBlock)(yb, ab, bb, compute);
  };
  for_blocks(workspace.threads(), block, y, a, b);
}

void fill_normal(Workspace& workspace, View x, float deviation, const RandomKey& key) {
  const int64_t size = x.size();
  const auto put = [&](int64_t element, double z) {
    float* to = x.contiguous() ? x.data + element : x.row(element / x.cols) + element % x.cols;
    *to = static_cast<float>(z * deviation);
  };
  const int64_t items = (size + kBlockElements - 1) / kBlockElements;
  static_assert(kBlockElements % 2 == 0);  // pairs stay together
  parallel_for(workspace.threads(), items, [&](int64_t item, int) {
    const int64_t end = std::min(size, (item + 1) * kBlockElements);
    for (int64_t e = item * kBlockElements; e < end; e += 2) {
      const auto pair = math::normal_pair(key, static_cast<uint64_t>(e / 2));
      put(e, pair[0]);
      if (e + 1 < end) put(e + 1, pair[1]);
    }
  });
}

}  // namespace ng::cpu
#endif
