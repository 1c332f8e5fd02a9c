#include "backend/cpu/noise/noise.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>

#include "backend/cpu/noise/kernels.h"
#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/types.h"
#include "backend/ref/noise.h"

namespace ng::cpu {
namespace {

constexpr int64_t kGroup = 8;  // elements of a draw
constexpr int64_t kPanelGroups = kPanelColumns / kGroup;
constexpr int64_t kPanelTiles = kPanelColumns / kNoiseTile;

/// A worker's draws and numbers of one panel.
struct PanelScratch {
  alignas(64) uint16_t draws[kNoiseTile * kPanelColumns];
  alignas(64) uint32_t amax[kPanelTiles];
  alignas(64) float scales[kPanelTiles];
};
static_assert(sizeof(PanelScratch) <= kWorkerScratchBytes);

int64_t tiles_in(int64_t size) { return (size + kNoiseTile - 1) / kNoiseTile; }

/// The part of a matrix that is one panel, and which tiles it is.
struct NoisePlace {
  int64_t row, rows, col, cols;
  int64_t tile_row, first_tile;

  template <class AnyView>
  [[nodiscard]] AnyView of(const AnyView& x) const {
    return x.part(row, rows, col, cols);
  }
};

/// body(place, scratch) of every panel of a matrix, by all threads.
template <class Body>
void for_panels(const Workspace& workspace, const ConstView& shape, const Body& body) {
  const int64_t across = (shape.cols + kPanelColumns - 1) / kPanelColumns;
  parallel_for(workspace.threads(), tiles_in(shape.rows) * across, [&](int64_t item, int worker) {
    const int64_t strip = item / across, panel = item % across;
    const NoisePlace place{.row = strip * kNoiseTile,
                           .rows = std::min(kNoiseTile, shape.rows - strip * kNoiseTile),
                           .col = panel * kPanelColumns,
                           .cols = std::min(kPanelColumns, shape.cols - panel * kPanelColumns),
                           .tile_row = strip,
                           .first_tile = panel * kPanelTiles};
    body(place, *reinterpret_cast<PanelScratch*>(workspace.worker(worker).data()));
  });
}

PanelDraws draw_panel(const NoisyWeight& of, const NoisePlace& place, PanelScratch& scratch) {
  const int64_t groups = (of.weight.cols + kGroup - 1) / kGroup;
  const DrawBox box{.group = static_cast<uint64_t>(place.row * groups + place.col / kGroup),
                    .group_stride = static_cast<uint64_t>(groups),
                    .rows = place.rows,
                    .groups = (place.cols + kGroup - 1) / kGroup};
  if (of.kind == NoiseKind::gaussws) {
    auto* const nibbles = reinterpret_cast<uint32_t*>(scratch.draws);
    draw_nibbles(of.noise_key(), box, nibbles, kPanelGroups);
    return {.nibbles = nibbles, .stride = kPanelGroups};
  }
  draw_rows(of.noise_key(), box, scratch.draws, kPanelColumns);
  return {.halves = scratch.draws, .stride = kPanelColumns};
}

NoisePanel panel_at(const NoisyWeight& of, const NoisePlace& place, const float* scales,
                    float alpha, PanelScratch& scratch) {
  return {.kind = of.kind,
          .weight = place.of(of.weight),
          .draws = draw_panel(of, place, scratch),
          .scales = scales,
          .alpha = alpha};
}

bool has_one_block(const NoisyWeight& of) { return of.block.kind == Block::Kind::tensor; }

/// Of the one block that a tensor is.
float scale_of_tensor(const Workspace& workspace, const NoisyWeight& of) {
  if (of.kind == NoiseKind::nipq) return static_cast<float>(proxy_of(of).delta);
  std::atomic<uint32_t> most = 0;
  for_panels(workspace, of.weight, [&](const NoisePlace& place, PanelScratch& scratch) {
    find_maxima(place.of(of.weight), scratch.amax);
    const uint32_t here = *std::max_element(scratch.amax, scratch.amax + tiles_in(place.cols));
    for (uint32_t seen = most; seen < here && !most.compare_exchange_weak(seen, here);) continue;
  });
  return noise_scale(std::bit_cast<float>(most.load()), bits_of(of, 0, 0));
}

float alpha_of(const NoisyWeight& of) {
  return of.kind == NoiseKind::nipq ? static_cast<float>(proxy_of(of).alpha) : 0.0f;
}

void require_types(std::string_view operation, const NoisyWeight& of, const ConstView& other) {
  of.check_shapes();
  require_values(operation, {of.weight, other});
}

/// Room for a sum of every tile of a matrix, row by row, `kinds` times.
template <class Sum>
Sum* room_for_sums(const Workspace& workspace, const ConstView& shape, int64_t kinds) {
  const int64_t tiles = tiles_in(shape.rows) * tiles_in(shape.cols);
  NG_CHECK(static_cast<size_t>(kinds * tiles) * sizeof(Sum) <= kSharedScratchBytes, shape.rows,
           shape.cols);
  return reinterpret_cast<Sum*>(workspace.shared().data());
}

template <class Sum>
double total_of(const Sum* sums, const ConstView& shape) {
  double total = 0;
  for (int64_t i = 0; i < tiles_in(shape.rows) * tiles_in(shape.cols); ++i) total += sums[i];
  return total;
}

void proxy_backward(const Workspace& workspace, const AddNoiseBackward& op) {
  const int64_t across = tiles_in(op.grad.cols);
  double* const by_noise = room_for_sums<double>(workspace, op.grad, 2);
  double* const by_clip = by_noise + tiles_in(op.grad.rows) * across;
  const NoiseProxy proxy = proxy_of(op.of);
  for_panels(workspace, op.grad, [&](const NoisePlace& place, PanelScratch& scratch) {
    const int64_t first = place.tile_row * across + place.first_tile;
    sum_clipped_tiles(panel_at(op.of, place, nullptr, static_cast<float>(proxy.alpha), scratch),
                      place.of(op.grad), {by_noise + first, by_clip + first});
  });
  const double noise = total_of(by_noise, op.grad), clip = total_of(by_clip, op.grad);
  op.bits.as<float>().row(0)[0] = static_cast<float>(noise * proxy.delta_by_bits);
  op.clip.as<float>().row(0)[0] = static_cast<float>(clip + noise * proxy.delta_by_alpha);
}

}  // namespace

void perform(Workspace& workspace, const AddNoise& op) {
  const NoisyWeight& of = op.of;
  require_types(op.kName, of, op.y);
  if (of.noise.rows > 0) return ref::perform(op);
  const auto scales = op.scales.as<float>();
  const bool is_one = has_one_block(of);
  const float alpha = alpha_of(of);
  if (is_one) scales.row(0)[0] = scale_of_tensor(workspace, of);
  for_panels(workspace, of.weight, [&](const NoisePlace& place, PanelScratch& scratch) {
    const int64_t tiles = tiles_in(place.cols);
    if (is_one) {
      std::fill_n(scratch.scales, tiles, scales.row(0)[0]);
    } else {
      find_maxima(place.of(of.weight), scratch.amax);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t i = place.tile_row, j = place.first_tile + t;
        scratch.scales[t] = noise_scale(std::bit_cast<float>(scratch.amax[t]), bits_of(of, i, j));
        scales.row(i)[j] = scratch.scales[t];
      }
    }
    add_noise(panel_at(of, place, scratch.scales, alpha, scratch), place.of(op.y));
  });
}

void perform(Workspace& workspace, const AddNoiseBackward& op) {
  const NoisyWeight& of = op.of;
  require_types(op.kName, of, op.grad);
  if (of.noise.rows > 0) return ref::perform(op);
  if (of.kind == NoiseKind::nipq) return proxy_backward(workspace, op);
  float* const sums = room_for_sums<float>(workspace, op.grad, 1);
  const int64_t across = tiles_in(op.grad.cols);
  for_panels(workspace, op.grad, [&](const NoisePlace& place, PanelScratch& scratch) {
    sum_tiles(panel_at(of, place, nullptr, 0, scratch), place.of(ConstView(op.grad)),
              sums + place.tile_row * across + place.first_tile);
  });
  const auto bits = op.bits.as<float>();
  const auto scales = op.scales.as<const float>();
  if (has_one_block(of)) {
    bits.row(0)[0] = kMinusLn2 * scales.row(0)[0] * static_cast<float>(total_of(sums, op.grad));
    return;
  }
  for (int64_t i = 0; i < bits.rows; ++i)
    for (int64_t j = 0; j < bits.cols; ++j)
      bits.row(i)[j] = kMinusLn2 * scales.row(i)[j] * sums[i * bits.cols + j];
}

// By the definition: a scalar codec for each block, and ŵ is cast once a step.
void perform(Workspace& workspace, const RoundByBits& op) {
  require_types(op.kName, op.of, op.y);
  require_values(op.kName, {op.x});
  parallel_for(workspace.threads(), op.of.grid().down(),
               [&](int64_t i, int /* worker */) { ref::round_blocks(op, i); });
}

void perform(Workspace& workspace, const CountCast& op) {
  std::mutex adding;
  parallel_for(workspace.threads(), tiles_in(op.x.rows), [&](int64_t strip, int /* worker */) {
    const int64_t first = strip * kNoiseTile;
    const OperandStats counts = ref::counts_of(op, first, std::min(kNoiseTile, op.x.rows - first));
    const std::lock_guard lock(adding);
    *op.stats += counts;
  });
}

void perform(Workspace& workspace, const QuantizeByProxy& op) {
  require_types(op.kName, op.of, op.y);
  const NoiseProxy proxy = quiet_proxy_of(op.of);
  const auto alpha = static_cast<float>(proxy.alpha), delta = static_cast<float>(proxy.delta);
  for_panels(workspace, op.of.weight, [&](const NoisePlace& place, PanelScratch& /* scratch */) {
    quantize_by_proxy(place.of(op.of.weight), alpha, delta, place.of(op.y));
  });
}

void perform(Workspace& /* workspace */, const FinishNoiseGradient& op) { ref::perform(op); }

}  // namespace ng::cpu
