// Section of study noise: noise that a cast drops, and what blocks that are not square do to W and
// its transpose. [source 002, §2.1, Fig. 2 and D.1]
#include <algorithm>
#include <cmath>

#include "format/operand.h"
#include "numbers/narrow_matrix.h"
#include "study/mean.h"
#include "study/noise_sections.h"
#include "study/noise_weights.h"
#include "study/samples.h"

namespace ng::study {
namespace {

constexpr uint32_t kFigureStream = 640, kMatrixStream = 641;

/// rows × cols values.
struct BlockMatrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values = {};

  [[nodiscard]] Rows<const float> view() const { return {values.data(), rows, cols, cols}; }
  [[nodiscard]] BlockMatrix transposed() const {
    BlockMatrix t{cols, rows, std::vector<float>(values.size())};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        t.values[static_cast<size_t>(c * rows + r)] = values[static_cast<size_t>(r * cols + c)];
    return t;
  }
};

template <class Combine>
BlockMatrix combined(const BlockMatrix& a, const BlockMatrix& b, const Combine& combine) {
  BlockMatrix result = a;
  for (size_t i = 0; i < a.values.size(); ++i) result.values[i] = combine(a.values[i], b.values[i]);
  return result;
}

BlockMatrix difference(const BlockMatrix& a, const BlockMatrix& b) {
  return combined(a, b, [](float x, float y) { return x - y; });
}

/// Q(x), as values.
BlockMatrix quantized(const BlockMatrix& x, const Operand& cast, Threads threads) {
  return {x.rows, x.cols, dequantize(quantize(x.view(), cast, {}, threads), threads)};
}

/// A format with blocks of rows × cols.
Operand in_blocks(std::string_view format, int rows, int cols) {
  Operand cast = operand_of(format);
  cast.block = {.kind = Block::Kind::tile, .rows = rows, .cols = cols};
  return cast;
}

/// Each block of rows × cols in INT4 with a scale of its own. A GEMM has no blocks that small: each
/// is cast as a tensor.
BlockMatrix in_int4(const BlockMatrix& x, int64_t rows, int64_t cols) {
  Operand cast = operand_of("int4");
  cast.block = {.kind = Block::Kind::tensor};
  BlockMatrix result = x;
  for (int64_t r = 0; r < x.rows; r += rows)
    for (int64_t c = 0; c < x.cols; c += cols) {
      const int64_t first = r * x.cols + c;
      const Rows<const float> block{x.values.data() + first, rows, cols, x.cols};
      const std::vector<float> rounded = dequantize(quantize(block, cast, {}, {}), {});
      for (int64_t i = 0; i < rows; ++i)
        std::copy_n(rounded.begin() + i * cols, cols, result.values.begin() + first + i * x.cols);
    }
  return result;
}

double norm(const BlockMatrix& of) { return std::sqrt(sum_of_squares(of.values)); }

int64_t nonzeros(const BlockMatrix& of) {
  return std::ssize(of.values) - std::count(of.values.begin(), of.values.end(), 0.0f);
}

double percent(int64_t count, const BlockMatrix& of) {
  return 100 * static_cast<double>(count) / static_cast<double>(of.values.size());
}

// ---------------------------------------------------------------- the figures, 4 × 4

constexpr int64_t kSide = 4;
constexpr int kFigureBlock = 2;
constexpr float kFigureBits = 4;

Grid matrix_grid(const char* name, const char* caption, const BlockMatrix& of) {
  const Names places = texts_of(integers(1, kSide));
  return Grid(name, caption, "", places, places, {.digits = 3}).filled([&](size_t r, size_t c) {
    return static_cast<double>(of.values[r * kSide + c]);
  });
}

BlockMatrix figure_matrix(const Settings& settings) {
  return {kSide, kSide,
          samples(Distribution::normal, stream(settings.seed, kFigureStream), kSide * kSide, {})};
}

/// Every element's max|w| of its block.
BlockMatrix maxima(const BlockMatrix& w, int64_t block_rows, int64_t block_cols) {
  const ScaleGrid blocks{.block_rows = block_rows,
                         .block_cols = block_cols,
                         .rows = (w.rows + block_rows - 1) / block_rows,
                         .cols = (w.cols + block_cols - 1) / block_cols};
  std::vector<float> amax(static_cast<size_t>(blocks.size()));
  const auto block_of = [&](size_t i) {
    const auto place = static_cast<int64_t>(i);
    return static_cast<size_t>(blocks.at(place / w.cols, place % w.cols));
  };
  for (size_t i = 0; i < w.values.size(); ++i)
    amax[block_of(i)] = std::max(amax[block_of(i)], std::fabs(w.values[i]));
  BlockMatrix result = w;
  for (size_t i = 0; i < w.values.size(); ++i) result.values[i] = amax[block_of(i)];
  return result;
}

/// R·max|w|·2^(1 - b_t) of square blocks, R uniform in ±1/2.
BlockMatrix figure_noise(const BlockMatrix& w, const Settings& settings) {
  BlockMatrix noise{kSide, kSide,
                    drawn_noise(NoiseLaw::uniform16, noise_stream(settings.seed, kFigureStream),
                                kSide * kSide, {})};
  return combined(noise, maxima(w, kFigureBlock, kFigureBlock),
                  [](float r, float amax) { return r * noise_scale(amax, kFigureBits); });
}

/// Fig. 2 and D.1, of other numbers than the paper's, which it gives as pictures.
struct BlockFigures {
  BlockMatrix w, noise, noisy, effective;        ///< Fig. 2
  BlockMatrix backward, forward, inconsistency;  ///< D.1

  explicit BlockFigures(const Settings& settings) : w(figure_matrix(settings)) {
    noise = figure_noise(w, settings);
    noisy = in_int4(combined(w, noise, [](float x, float n) { return x + n; }), kFigureBlock,
                    kFigureBlock);
    effective = difference(noisy, in_int4(w, kFigureBlock, kFigureBlock));
    backward = in_int4(w, 1, kFigureBlock);
    forward = in_int4(w.transposed(), 1, kFigureBlock).transposed();
    inconsistency = difference(forward, backward);
  }
  [[nodiscard]] std::vector<Grid> grids() const {
    return {matrix_grid("figure_2_w", "Fig. 2: W", w),
            matrix_grid("figure_2_backward", "Fig. 2: noise, as the backward pass takes it", noise),
            matrix_grid("figure_2_noisy", "Fig. 2: Q(W + noise), INT4, square blocks of 2", noisy),
            matrix_grid("figure_2_forward", "Fig. 2: Q(W + noise) - Q(W), what forward had of it",
                        effective),
            matrix_grid("figure_d1_backward", "Fig. D.1: W in INT4, blocks of 2 along N (backward)",
                        backward),
            matrix_grid("figure_d1_forward", "Fig. D.1: W in INT4, blocks of 2 along K (forward)",
                        forward),
            matrix_grid("figure_d1_difference", "Fig. D.1: forward less backward", inconsistency)};
  }
};

// ---------------------------------------------------------------- large matrices

constexpr int64_t kMatrixRows = 1024;
constexpr int64_t kLeastRows = 64;
constexpr int64_t kMatrixCols = 1024;

struct BlockCase {
  const char* name;
  const char* format;
  int rows, cols;
};
constexpr BlockCase kBlockCases[] = {{"MXFP6 E3M2, 1 × 32 (fqt)", "mxfp6_e3m2", 1, 32},
                                     {"MXFP6 E3M2, 32 × 32 (fqt-square)", "mxfp6_e3m2", 32, 32},
                                     {"MXFP4, 1 × 32", "mxfp4", 1, 32},
                                     {"MXFP4, 32 × 32", "mxfp4", 32, 32},
                                     {"INT4, 1 × 32", "int4", 1, 32},
                                     {"INT4, 32 × 32", "int4", 32, 32}};

Grid transpose_grid(const BlockMatrix& w, const Settings& settings) {
  Grid grid("transpose", "Q(W)ᵀ against Q(Wᵀ), W of N(0,1)", "format, block", names_of(kBlockCases),
            {"elements that differ, percent", "‖Q(W)ᵀ - Q(Wᵀ)‖/‖W‖", "‖Q(W) - W‖/‖W‖"},
            {.expected_is = "square blocks"});
  const BlockMatrix turned = w.transposed();
  for (size_t r = 0; r < std::size(kBlockCases); ++r) {
    const BlockCase& each = kBlockCases[r];
    const Operand cast = in_blocks(each.format, each.rows, each.cols);
    const BlockMatrix q = quantized(w, cast, settings.threads);
    const BlockMatrix off = difference(q.transposed(), quantized(turned, cast, settings.threads));
    const double exact = each.rows == each.cols ? 0 : kNone;
    grid.at(r, 0) = {.found = percent(nonzeros(off), off), .expected = exact};
    grid.at(r, 1) = {.found = norm(off) / norm(w), .expected = exact};
    grid.at(r, 2).found = norm(difference(q, w)) / norm(w);
  }
  return grid;
}

/// s of fprop over s of dgrad, blocks lying along what each contracts.
Grid scale_grid_of(const BlockMatrix& w) {
  Grid grid("noise_scale", "Scale of noise that fprop sees over that of dgrad, element by element",
            "blocks", {"1 × 32", "32 × 32"},
            {"elements where they differ, percent", "root mean square of log2", "largest ratio"},
            {.expected_is = "square blocks"});
  for (size_t r = 0; r < 2; ++r) {
    const int64_t block_rows = r == 0 ? 1 : kNoiseBlock;
    const BlockMatrix fprop = maxima(w, block_rows, kNoiseBlock);
    const BlockMatrix dgrad = maxima(w.transposed(), block_rows, kNoiseBlock).transposed();
    const BlockMatrix ratio = combined(fprop, dgrad, [](float a, float b) { return a / b; });
    std::vector<double> logs;
    for (const float x : ratio.values) logs.push_back(std::log2(static_cast<double>(x)));
    const auto differ = std::ranges::count_if(ratio.values, [](float x) { return x != 1; });
    const bool is_square = r == 1;
    grid.at(r, 0) = {.found = percent(differ, ratio), .expected = is_square ? 0 : kNone};
    grid.at(r, 1) = {.found = root_mean_square(logs), .expected = is_square ? 0 : kNone};
    grid.at(r, 2) = {.found = std::ranges::max(ratio.values), .expected = is_square ? 1 : kNone};
  }
  return grid;
}

}  // namespace

Section noise_blocks_section(const Settings& settings, Progress& progress) {
  const BlockFigures figures(settings);
  const int64_t rows = settings.part_of(kMatrixRows, kLeastRows) / kNoiseBlock * kNoiseBlock;
  const BlockMatrix w{rows, kMatrixCols,
                      samples(Distribution::normal, stream(settings.seed, kMatrixStream),
                              rows * kMatrixCols, settings.threads)};
  std::vector<Grid> grids = figures.grids();
  grids.push_back(transpose_grid(w, settings));
  grids.push_back(scale_grid_of(w));
  progress.step();
  const auto all = std::ssize(figures.w.values);
  return section_of("noise", "blocks", std::move(grids),
                    {{"bits", static_cast<int64_t>(kFigureBits)},
                     {"all", all},
                     {"lost", all - nonzeros(figures.effective)},
                     {"differ", nonzeros(figures.inconsistency)}});
}

}  // namespace ng::study
