#include "backend/cpu/ops/elementwise.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/types.h"
#include "math/normal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/elementwise.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// kernel(rows), rows of a view as what it is stored as.
template <class Kernel>
HWY_INLINE void WithRows(const ConstView& view, const Kernel& kernel) {
  WithStored(view, [&](auto in) HWY_ATTR { kernel(in.RowsOf(view)); });
}

void AddBlock(View y, ConstView a, ConstView b) {
  WithStored(y, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(y);
    WithRows(a, [&](const auto& x) HWY_ATTR {
      WithRows(b, [&](const auto& z) HWY_ATTR {
        for (int64_t r = 0; r < y.rows; ++r) {
          ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
            const F16 sum = Add(in.Read(x.row(r) + i, left), in.Read(z.row(r) + i, left));
            in.Write(sum, to.row(r) + i, left);
          });
        }
      });
    });
  });
}

void CombineBlock(View y, ConstView x, float a, float b) {
  const auto to = y.as<float>();
  const auto from = x.as<float>();
  for (int64_t r = 0; r < y.rows; ++r) {
    ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
      const F16 scaled = Mul(Set16(a), Load16(from.row(r) + i, left));
      float* const at = to.row(r) + i;
      Store16(b == 0 ? scaled : Add(scaled, Mul(Set16(b), Load16(at, left))), at, left);
    });
  }
}

void DivideBlock(View y, ConstView x, float by) {
  const auto to = y.as<float>();
  const auto from = x.as<float>();
  for (int64_t r = 0; r < y.rows; ++r) {
    ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
      Store16(Div(Load16(from.row(r) + i, left), Set16(by)), to.row(r) + i, left);
    });
  }
}

// Between FP32 and BF16.
void ConvertBlock(View y, ConstView x) {
  WithStored(y, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(y);
    WithRows(x, [&](const auto& from) HWY_ATTR {
      for (int64_t r = 0; r < y.rows; ++r) {
        ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
          in.Write(Load16(from.row(r) + i, left), to.row(r) + i, left);
        });
      }
    });
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(AddBlock);
HWY_EXPORT(CombineBlock);
HWY_EXPORT(DivideBlock);
HWY_EXPORT(ConvertBlock);

namespace {

constexpr size_t kBlockBytes = sizeof(float) * kBlockElements;

template <class Value>
void fill_rows(const Rows<Value>& x, Value value) {
  for (int64_t r = 0; r < x.rows; ++r) std::fill_n(x.row(r), x.cols, value);
}

}  // namespace

void perform(Workspace& workspace, const Fill& op) {
  require_values(op.kName, {op.x});
  const auto block = [&](const View& x) {
    if (x.is(bf16_format()))
      fill_rows(x.as<Bf16>(), to_bf16(op.value));
    else
      fill_rows(x.as<float>(), op.value);
  };
  for_blocks(workspace.threads(), block, op.x);
}

void perform(Workspace& workspace, const Clear& op) {
  const size_t items = (op.bytes.size() + kBlockBytes - 1) / kBlockBytes;
  parallel_for(workspace.threads(), static_cast<int64_t>(items), [&](int64_t item, int) {
    const size_t first = static_cast<size_t>(item) * kBlockBytes;
    const auto block = op.bytes.subspan(first, std::min(kBlockBytes, op.bytes.size() - first));
    std::memset(block.data(), 0, block.size());
  });
}

void perform(Workspace& workspace, const Copy& op) {
  require_values(op.kName, {op.y, op.x});
  const auto block = [&](const View& y, const ConstView& x) {
    if (!y.is(*x.element)) return HWY_DYNAMIC_DISPATCH(ConvertBlock)(y, x);
    for (int64_t r = 0; r < y.rows; ++r) {
      const ConstView from = x.slice(r, 1);
      std::memcpy(y.slice(r, 1).data, from.data, from.bytes());
    }
  };
  for_blocks(workspace.threads(), block, op.y, op.x);
}

void perform(Workspace& workspace, const Add& op) {
  require_values(op.kName, {op.y, op.a, op.b});
  for_blocks(workspace.threads(), HWY_DYNAMIC_DISPATCH(AddBlock), op.y, op.a, op.b);
}

void perform(Workspace& workspace, const Combine& op) {
  require_fp32(op.kName, {op.y, op.x});
  const auto block = [&](const View& y, const ConstView& x) {
    HWY_DYNAMIC_DISPATCH(CombineBlock)(y, x, op.a, op.b);
  };
  for_blocks(workspace.threads(), block, op.y, op.x);
}

void perform(Workspace& workspace, const Normalize& op) {
  require_fp32(op.kName, {op.y, op.x});
  const auto norm = static_cast<float>(std::sqrt(*op.sum_of_squares) + 1e-7);
  const auto block = [&](const View& y, const ConstView& x) {
    HWY_DYNAMIC_DISPATCH(DivideBlock)(y, x, norm);
  };
  for_blocks(workspace.threads(), block, op.y, op.x);
}

void perform(Workspace& workspace, const FillNormal& op) {
  require_fp32(op.kName, {op.x});
  const Rows<float> x = op.x.as<float>();
  const int64_t size = x.size();
  const auto put = [&](int64_t element, double z) {
    float* to = x.contiguous() ? x.data + element : x.row(element / x.cols) + element % x.cols;
    *to = static_cast<float>(z * op.deviation);
  };
  const int64_t items = (size + kBlockElements - 1) / kBlockElements;
  static_assert(kBlockElements % 2 == 0);  // pairs stay together
  parallel_for(workspace.threads(), items, [&](int64_t item, int) {
    const int64_t end = std::min(size, (item + 1) * kBlockElements);
    for (int64_t e = item * kBlockElements; e < end; e += 2) {
      const auto pair = math::normal_pair(op.key, static_cast<uint64_t>(e / 2));
      put(e, pair[0]);
      if (e + 1 < end) put(e + 1, pair[1]);
    }
  });
}

}  // namespace ng::cpu
#endif
