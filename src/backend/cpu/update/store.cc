#include <atomic>
#include <cmath>

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/ops/reduce.h"
#include "backend/cpu/update/e4m3.h"
#include "backend/cpu/update/stored.h"
#include "backend/cpu/update/update.h"
#include "backend/gradient_scale.h"

namespace ng::cpu {
namespace {

struct Buffers {
  alignas(64) float values[kStretch], elements[kStretch];
  StretchScratch scratch;
};
static_assert(sizeof(Buffers) <= kWorkerScratchBytes);

// body(stretch, buffers, values of x there)
template <class Body>
void for_values(Workspace& workspace, const StretchWalk& walk, const StoredCodec& x,
                const Body& body) {
  parallel_for(workspace.threads(), walk.items(), [&](int64_t item, int worker) {
    auto& b = *reinterpret_cast<Buffers*>(workspace.worker(worker).data());
    walk.for_item(item, [&](const Stretch& at) { body(at, b, x.read(at, b.values, b.scratch)); });
  });
}

/// What a tensor becomes: values rounded once, scales found before. `noted(y)` and `scaled(y)` are
/// called before and after they are found. `is_known`: `noted` says all that scales depend on.
template <class Noted, class Scaled>
void store(Workspace& workspace, StoredCodec& y, StoredCodec& x, int64_t rows, int64_t cols,
           bool is_known, const Noted& noted, const Scaled& scaled) {
  StoredCodec* const codecs[] = {&y, &x};
  bool is_flat = true;
  const StretchWalk walk = walk_through(codecs, rows, cols, is_flat);
  if (y.needs_pass()) {
    const auto count = static_cast<size_t>(y.scale_count());
    auto* const words = reinterpret_cast<float*>(workspace.shared().data());
    if (3 * count * sizeof(float) > kSharedScratchBytes)
      throw Unsupported(fmt::format("cpu: store of {} scales", count));
    y.set_pass_memory(reinterpret_cast<uint32_t*>(words), words + count, words + 2 * count);
    if (!is_known)
      for_values(workspace, walk, x, [&](const Stretch& at, Buffers& b, const float* values) {
        y.note(at, values, b.scratch);
      });
    noted(y);
    y.find_scales(false);
    scaled(y);
  }
  for_values(workspace, walk, x, [&](const Stretch& at, Buffers& b, const float* values) {
    y.write(at, values, b.elements, b.scratch);
  });
  y.put_scales();
}

int64_t count_largest(Workspace& workspace, const ConstView& codes) {
  NG_CHECK(codes.element->bits == 8 && codes.contiguous(), codes.element->name, codes.stride);
  const uint32_t largest = ElementCodec(*codes.element).encode(range_of(*codes.element).max);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(codes.data);
  const int64_t size = codes.size(), items = (size + kBlockElements - 1) / kBlockElements;
  std::atomic<uint64_t> found = 0;
  parallel_for(workspace.threads(), items, [&](int64_t item, int) {
    const int64_t first = item * kBlockElements, count = std::min(kBlockElements, size - first);
    found +=
        count_magnitude({bytes + first, static_cast<size_t>(count)}, static_cast<uint8_t>(largest));
  });
  return static_cast<int64_t>(found.load());
}

}  // namespace

void perform(Workspace& workspace, const Store& op) {
  NG_CHECK(same_shape(op.y.view, op.x), op.y.view.rows, op.y.view.cols, op.x.rows, op.x.cols);
  if (op.x.size() == 0 || is_skipped(op.control)) return;
  StoredCodec y(op.kName, op.y, op.key, op.key.purpose);
  StoredCodec x(op.kName, as_stored(op.x), op.key, op.key.purpose);
  store(
      workspace, y, x, op.x.rows, op.x.cols, false,
      [&](StoredCodec& noted) {
        if (op.amax != nullptr) noted.note_of_all(*op.amax);
      },
      [](StoredCodec&) {});
}

void perform(Workspace& workspace, const FindAmax& op) {
  *op.amax = 0;
  if (op.x.size() == 0) return;
  StoredCodec x(op.kName, as_stored(op.x), {}, Purpose::gradient_wire);
  StoredCodec* const codecs[] = {&x};
  bool is_flat = true;
  const StretchWalk walk = walk_through(codecs, op.x.rows, op.x.cols, is_flat);
  std::atomic<uint32_t> largest = 0;  // bits of magnitudes are ordered like them, NaN on top
  for_values(workspace, walk, x, [&](const Stretch& at, Buffers& b, const float* values) {
    b.scratch.amax[0] = 0;
    block_amax({values, at.count}, 1, at.count,
               {.amax = b.scratch.amax, .stride = 0, .rows_per_block = 1, .block = at.count});
    uint32_t seen = largest;
    while (seen < b.scratch.amax[0] && !largest.compare_exchange_weak(seen, b.scratch.amax[0])) {
    }
  });
  *op.amax = float_of_bits(largest);
}

void perform(Workspace& workspace, const StoreGradient& op) {
  NG_CHECK(same_shape(op.y.view, op.x), op.y.view.rows, op.y.view.cols, op.x.rows, op.x.cols);
  if (op.x.size() == 0) return;
  StoredCodec y(op.kName, op.y, op.key, op.key.purpose);
  StoredCodec x(op.kName, as_stored(op.x), op.key, op.key.purpose);
  const bool has_mu = has_one_float_scale(op.y.cast);
  const bool is_shared = op.amax != nullptr && std::isfinite(*op.amax);
  const bool is_known = is_shared && op.y.cast.block.kind == Block::Kind::tensor;
  store(
      workspace, y, x, op.x.rows, op.x.cols, is_known,
      [&](StoredCodec& noted) {
        if (is_shared) noted.note_of_all(*op.amax);
      },
      [&](StoredCodec& found) {
        if (has_mu) found.scale_for_wire(op.scale);
      });
  uint64_t nonfinite = op.amax != nullptr && !is_shared ? 1 : 0;  // a finite amax has seen x
  if (op.amax == nullptr) perform(workspace, AddNonfinite{&nonfinite, op.x});
  if (nonfinite > 0) poison(op.y.view);
}

void perform(Workspace& workspace, const CountLargest& op) {
  *op.count += static_cast<uint64_t>(count_largest(workspace, op.codes));
}

void perform(Workspace& workspace, const MoveAutoScale& op) {
  if (is_skipped(op.control)) return;
  move_auto_scale(op, count_largest(workspace, op.codes), op.codes.size());
}

}  // namespace ng::cpu
