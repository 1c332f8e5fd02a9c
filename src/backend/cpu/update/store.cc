#include "backend/cpu/update/stored.h"
#include "backend/cpu/update/update.h"

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

}  // namespace

void perform(Workspace& workspace, const Store& op) {
  NG_CHECK(same_shape(op.y.view, op.x), op.y.view.rows, op.y.view.cols, op.x.rows, op.x.cols);
  if (op.x.size() == 0 || (op.control != nullptr && op.control->skip != 0)) return;
  StoredCodec y(op.kName, op.y, op.key, op.key.purpose);
  StoredCodec x(op.kName, as_stored(op.x), op.key, op.key.purpose);
  StoredCodec* const codecs[] = {&y, &x};
  bool is_flat = true;
  const StretchWalk walk = walk_through(codecs, op.x.rows, op.x.cols, is_flat);
  if (y.needs_pass()) {
    const auto count = static_cast<size_t>(y.scale_count());
    auto* const words = reinterpret_cast<float*>(workspace.shared().data());
    if (3 * count * sizeof(float) > kSharedScratchBytes)
      throw Unsupported(fmt::format("cpu: store of {} scales", count));
    y.set_pass_memory(reinterpret_cast<uint32_t*>(words), words + count, words + 2 * count);
    for_values(workspace, walk, x, [&](const Stretch& at, Buffers& b, const float* values) {
      y.note(at, values, b.scratch);
    });
    y.find_scales(false);
  }
  for_values(workspace, walk, x, [&](const Stretch& at, Buffers& b, const float* values) {
    y.write(at, values, b.elements, b.scratch);
  });
  y.put_scales();
}

}  // namespace ng::cpu
