// Section of study noise: how fast it is made. [source 002, Fig. 6]
#include <fmt/format.h>

#include <algorithm>

#include "base/isa.h"
#include "speed/kernel_speed.h"
#include "speed/machine.h"
#include "study/noise_sections.h"

namespace ng::study {
namespace {

constexpr int64_t kSmallest = 512, kLargest = 8192;
constexpr int kRounds = 3;

/// What is timed by speed/noise_kernels.h, and what it is called here.
struct Column {
  const char* kernel;
  const char* name;
};
constexpr Column kColumns[] = {{"noise gaussws", "gaussws"},
                               {"noise diffq", "diffq"},
                               {"noise nipq", "nipq"},
                               {"noise box-muller", "Box-Muller"},
                               {"read", "reading the weight"}};
constexpr size_t kGaussws = 0, kBoxMuller = 3, kRatio = std::size(kColumns);

std::vector<int64_t> sizes_of(const Settings& settings) {
  std::vector<int64_t> sizes;
  const int64_t most = settings.part_of(kLargest, 2 * kSmallest);  // a line takes two points
  for (int64_t size = kSmallest; size <= most; size *= 2) sizes.push_back(size);
  return sizes;
}

double elements_per_second(const std::vector<KernelSpeed>& speeds, std::string_view kernel) {
  return std::ranges::find(speeds, kernel, &KernelSpeed::name)->elements_per_second;
}

Grid speed_grid(const Settings& settings, const std::vector<int64_t>& sizes) {
  std::vector<std::string> rows, columns;
  for (const int64_t size : sizes) rows.push_back(fmt::format("{}", size));
  for (const Column& column : kColumns) columns.emplace_back(column.name);
  columns.emplace_back("gaussws over Box-Muller");
  Grid grid(
      "speed",
      "ŵ in BF16 of a square weight in FP32, 10^9 elements a second: maxima of blocks, draws, "
      "Eq. 3",
      "columns", std::move(rows), std::move(columns));
  grid.digits = 3;
  grid.timed = true;
  for (size_t r = 0; r < sizes.size(); ++r) {
    const std::vector<KernelSpeed> speeds = kernel_speeds({.threads = settings.threads,
                                                           .rows = sizes[r],
                                                           .cols = sizes[r],
                                                           .rounds = kRounds,
                                                           .filter = "noise"});
    for (size_t c = 0; c < std::size(kColumns); ++c)
      grid.at(r, c).found = elements_per_second(speeds, kColumns[c].kernel) * 1e-9;
    grid.at(r, kRatio).found = grid.at(r, kGaussws).found / grid.at(r, kBoxMuller).found;
  }
  return grid;
}

std::string speed_text(const Settings& settings, const Grid& grid) {
  const auto ratios = [&](size_t r) { return grid.at(r, kRatio).found; };
  double least = ratios(0), most = least;
  for (size_t r = 1; r < grid.rows.size(); ++r) {
    least = std::min(least, ratios(r));
    most = std::max(most, ratios(r));
  }
  return fmt::format(
      "{}, {}, {} threads: rounded normal noise out of bits takes between 1/{:.1f} and 1/{:.1f} of "
      "the time of normal numbers by Box and Muller, rounded, in the same single pass. What one "
      "composes of torch.randn and round is beside it in benchmarks/kernels/compare --sizes.",
      cpu_model(), name_of(current_isa()), settings.threads.count, least, most);
}

}  // namespace

Section noise_speed_section(const Settings& settings, Progress& progress) {
  const std::vector<int64_t> sizes = sizes_of(settings);
  const Grid grid = speed_grid(settings, sizes);
  progress.step();
  Chart chart = lines_of(grid, {sizes.begin(), sizes.end()}, "rows and columns", "10^9 elements/s");
  chart.log_x = chart.log_y = true;
  chart.x_ticks = {sizes.begin(), sizes.end()};
  chart.series.pop_back();  // the ratio is no speed
  return {.heading = "Speed (Fig. 6)",
          .paragraphs = {speed_text(settings, grid)},
          .grids = {grid},
          .charts = {std::move(chart)}};
}

}  // namespace ng::study
