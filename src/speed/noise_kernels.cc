#include "speed/noise_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <span>

#include "backend/cpu/quantize/kernels.h"
#include "speed/box_muller.h"

namespace ng {
namespace {

struct Method {
  NoiseKind kind;
  const char* name;
};
constexpr Method kMethods[] = {
    {NoiseKind::gaussws, "gaussws"}, {NoiseKind::diffq, "diffq"}, {NoiseKind::nipq, "nipq"}};

int64_t blocks_in(int64_t size) { return (size + kNoiseBlock - 1) / kNoiseBlock; }

/// A weight with noise, and everything that forward and backward write.
class NoisyMatrix {
 public:
  NoisyMatrix(Backend& backend, NoiseKind kind, const ConstView& weight)
      : backend_(backend),
        is_one_(kind == NoiseKind::nipq),
        grid_(block_grid(block(), weight.rows, weight.cols)),
        bit_widths_(backend, bytes_of_blocks()),
        scales_(backend, bytes_of_blocks()),
        gradient_of_bits_(backend, bytes_of_blocks()),
        clip_(backend, sizeof(float)),
        gradient_of_clip_(backend, sizeof(float)),
        y_(backend, static_cast<size_t>(weight.size()) * sizeof(Bf16)),
        of_{.kind = kind,
            .weight = weight,
            .bit_widths = blocks(bit_widths_),
            .clip = one(clip_),
            .block = block(),
            .key = {.seed = 1, .purpose = Purpose::weight_noise}} {
    backend_.execute(Fill{.x = blocks(bit_widths_), .value = 1});
    backend_.execute(Fill{.x = fp32_in(clip_, 1, 1), .value = 1});
  }

  void forward() {
    backend_.execute(AddNoise{.y = matrix(), .scales = blocks(scales_), .of = of_});
  }
  /// What forward has written serves as the gradient.
  void backward() {
    backend_.execute(AddNoiseBackward{.bits = blocks(gradient_of_bits_),
                                      .clip = one(gradient_of_clip_),
                                      .grad = matrix(),
                                      .scales = blocks(scales_),
                                      .of = of_});
  }

 private:
  [[nodiscard]] size_t bytes_of_blocks() const {
    return static_cast<size_t>(grid_.down() * grid_.across()) * sizeof(float);
  }
  [[nodiscard]] View blocks(const BackendMemory& values) const {
    return fp32_in(values, grid_.down(), grid_.across());
  }
  [[nodiscard]] View one(const BackendMemory& value) const {
    return is_one_ ? fp32_in(value, 1, 1) : View();
  }
  [[nodiscard]] View matrix() const {
    return {reinterpret_cast<Bf16*>(y_.data()), of_.weight.rows, of_.weight.cols, of_.weight.cols};
  }
  [[nodiscard]] Block block() const {
    if (is_one_) return {.kind = Block::Kind::tensor};
    return {.kind = Block::Kind::tile, .rows = kNoiseBlock, .cols = kNoiseBlock};
  }

  Backend& backend_;
  bool is_one_;
  BlockGrid grid_;
  BackendMemory bit_widths_, scales_, gradient_of_bits_, clip_, gradient_of_clip_, y_;
  NoisyWeight of_;
};

/// What gaussws does, its draws by Box and Muller, panel by panel.
class BoxMullerMatrix {
 public:
  BoxMullerMatrix(cpu::Workspace& workspace, Rows<const float> weight)
      : workspace_(workspace),
        weight_(weight),
        y_(static_cast<size_t>(weight.rows * weight.cols)) {}

  void run() {
    parallel_for(workspace_.threads(), blocks_in(weight_.rows), [&](int64_t strip, int worker) {
      const int64_t first = strip * kNoiseBlock;
      const int64_t rows = std::min(kNoiseBlock, weight_.rows - first);
      const std::vector<float> scales = scales_of(first, rows);
      for (int64_t row = first; row < first + rows; row += kRows)
        run_panel(row, std::min(kRows, first + rows - row), scales, worker);
    });
  }

 private:
  static constexpr int64_t kRows = 4;  // whose draws stay in the first cache

  [[nodiscard]] std::vector<float> scales_of(int64_t first, int64_t rows) const {
    std::vector<uint32_t> amax(static_cast<size_t>(blocks_in(weight_.cols)));
    cpu::block_amax(
        {weight_.row(first), weight_.stride}, rows, weight_.cols,
        {.amax = amax.data(), .stride = 0, .rows_per_block = rows, .block = kNoiseBlock});
    std::vector<float> scales;
    for (const uint32_t bits : amax) scales.push_back(noise_scale(std::bit_cast<float>(bits), 6));
    return scales;
  }
  void run_panel(int64_t row, int64_t rows, const std::vector<float>& scales, int worker) {
    constexpr int64_t kGroup = 8;
    const std::span<std::byte> scratch = workspace_.worker(worker);
    NG_CHECK(static_cast<size_t>(rows * weight_.cols) * sizeof(uint16_t) <= scratch.size(),
             weight_.cols);
    auto* const draws = reinterpret_cast<uint16_t*>(scratch.data());
    const int64_t groups = weight_.cols / kGroup;
    cpu::draw_rows({.seed = 1, .purpose = Purpose::weight_noise},
                   {.group = static_cast<uint64_t>(row * groups),
                    .group_stride = static_cast<uint64_t>(groups),
                    .rows = rows,
                    .groups = groups},
                   draws, weight_.cols);
    add_box_muller({.weight = weight_.row(row),
                    .draws = draws,
                    .scales = scales.data(),
                    .y = &y_[static_cast<size_t>(row * weight_.cols)],
                    .rows = rows,
                    .cols = weight_.cols});
  }

  cpu::Workspace& workspace_;
  Rows<const float> weight_;
  std::vector<Bf16> y_;
};

}  // namespace

std::vector<TimedKernel> noise_kernels(
    Backend& backend, const ConstView& weight,
    const std::function<bool(const std::string& name)>& is_wanted) {
  NG_CHECK(weight.cols % kNoiseBlock == 0 && weight.stride == weight.cols, weight.cols);
  std::vector<TimedKernel> all;
  for (const Method& method : kMethods) {
    const std::string forward = fmt::format("noise {}", method.name);
    const std::string backward = forward + " backward";
    if (!is_wanted(forward) && !is_wanted(backward)) continue;
    const auto matrix = std::make_shared<NoisyMatrix>(backend, method.kind, weight);
    if (is_wanted(forward))
      all.push_back(
          {.name = forward, .bytes_per_element = 6, .work = [matrix] { matrix->forward(); }});
    if (is_wanted(backward))  // nipq reads the weight too, and writes
      all.push_back({.name = backward,
                     .bytes_per_element = method.kind == NoiseKind::nipq ? 8.0 : 2.0,
                     .work = [matrix] { matrix->backward(); }});
  }
  return all;
}

TimedKernel box_muller_kernel(cpu::Workspace& workspace, Rows<const float> weight) {
  const auto matrix = std::make_shared<BoxMullerMatrix>(workspace, weight);
  return {.name = "noise box-muller", .bytes_per_element = 6, .work = [matrix] { matrix->run(); }};
}

}  // namespace ng
