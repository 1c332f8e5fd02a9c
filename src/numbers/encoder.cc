#include "numbers/encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/cpu/packed.h"
#include "numbers/by_definition.h"

namespace ng {
namespace {

constexpr size_t kAlignment = 64;
constexpr int64_t kDrawGroup = 8;     // values of a row that share 128 random bits [recipes.md §0]
constexpr int64_t kLeastCols = 1024;  // of a part of rows that need not be one
constexpr int64_t kFold = int64_t{1} << 16;  // one row is worked on as rows of so many values

int64_t ceil_to(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

bool is_tiled(const Operand& cast) {
  return cast.block.kind == Block::Kind::tile && !cast.is_unscaled();
}

/// A block without values has scale 1.
void encode_nothing(NarrowMatrix& out) {
  out.codes.clear();
  out.scales.assign(static_cast<size_t>(out.grid.size()), 1.0f);
  out.scale_codes.assign(has_scale_codes(out.cast) ? out.scales.size() : 0,
                         scale_code(out.cast.scale, 1.0f));
  out.zeros.assign(is_affine(out.cast) ? out.scales.size() : 0, 0);
  out.tensor_scale = 1;
}

/// For a matrix of one row: that row is the tensor, and no tile has a second.
Operand of_one_row(Operand cast) {
  if (cast.is_unscaled()) return cast;
  if (cast.block.kind == Block::Kind::row) cast.block = {};
  if (cast.block.kind == Block::Kind::tile) cast.block.rows = 1;
  return cast;
}

void set_shape(NarrowMatrix& out, int64_t rows, int64_t cols) {
  out.rows = rows;
  out.cols = cols;
  out.grid = scale_grid(out.cast, out.along, rows, cols);
}

}  // namespace

NarrowEncoder::NarrowEncoder(cpu::Workspace& workspace, const EncodeJob& job)
    : workspace_(workspace), job_(job), codes_(code_table(*job_.cast.element)) {
  NG_CHECK(job_.cast.scaling == Scaling::current && job_.cast.element->bits <= 16 &&
               job_.cast.other == nullptr,
           job_.cast.element->name);
  const bool transformed = job_.options.hadamard.size != 0;
  NG_CHECK(!transformed || !is_by_definition(job_.cast), job_.cast.element->name);
  cut();
  range_ = range_of_scales();
  // The range of a transformed matrix is not that of its source: it is one panel.
  if (transformed && range_ != Range::none) {
    panel_rows_ = std::max<int64_t>(job_.rows, 1);
    panel_cols_ = std::max<int64_t>(job_.cols, 1);
    range_ = Range::none;
  }
  if (range_ == Range::none) return;
  ranges_.resize(range_ == Range::whole  ? 1
                 : range_ == Range::rows ? static_cast<size_t>(job_.rows)
                                         : static_cast<size_t>(job_.cols));
}

void NarrowEncoder::cut() {
  const Operand& cast = job_.cast;
  const bool straight = job_.options.along == Contract::cols;
  const int64_t across = is_tiled(cast) && !is_one_row() ? cast.block.rows : 1;
  const int64_t along = std::lcm(int64_t{is_tiled(cast) ? cast.block.cols : 1},
                                 int64_t{std::max(job_.options.hadamard.size, 1)});
  row_unit_ = straight ? across : along;
  const int64_t block_cols = straight ? along : across;
  col_unit_ = std::lcm(block_cols, kDrawGroup);
  const int64_t rows = std::max<int64_t>(job_.rows, 1), cols = std::max<int64_t>(job_.cols, 1);
  const int64_t wanted = job_.options.panel_values;
  panel_rows_ = rows;
  panel_cols_ = cols;
  if (job_.rows == 0 || job_.cols == 0) return;  // one panel, however large
  const int64_t unit = rows_of_panels();
  const int64_t fitting_rows = wanted / ceil_to(cols, block_cols) - (held_rows(unit) - unit);
  panel_rows_ = std::min(std::max<int64_t>(fitting_rows, 0) / unit * unit, rows);
  const bool has_column_scales =
      !straight && !cast.is_unscaled() && cast.block.kind == Block::Kind::row;
  if (has_column_scales && panel_rows_ < rows && rows * kLeastCols <= wanted)
    panel_rows_ = rows;  // all of some columns: their scales are known at once
  else if (panel_rows_ > 0)
    return;
  else
    panel_rows_ = std::min(unit, rows);
  const int64_t fitting = wanted / held_rows(panel_rows_) / col_unit_ * col_unit_;
  panel_cols_ = std::min(std::max(fitting, col_unit_), cols);
}

bool NarrowEncoder::is_one_row() const {
  return job_.options.along == Contract::cols && job_.rows == 1;
}

/// Rows of which a panel holds a multiple.
int64_t NarrowEncoder::rows_of_panels() const {
  const int64_t together = job_.options.rows_together;
  const int64_t wanted = job_.options.panel_values;
  if (together > wanted) return row_unit_;
  const int64_t unit = std::lcm(row_unit_, together);
  return held_rows(unit) * std::max(col_unit_, kLeastCols) <= wanted ? unit : row_unit_;
}

/// Rows that a panel takes while it is encoded: those that fill up its blocks count, and the block
/// of its witness.
int64_t NarrowEncoder::held_rows(int64_t rows) const {
  return row_unit_ == 1 ? rows : ceil_to(rows, row_unit_) + row_unit_;
}

/// Whose scales look beyond a panel.
NarrowEncoder::Range NarrowEncoder::range_of_scales() const {
  const Operand& cast = job_.cast;
  const bool rows_are_cut = panel_rows_ < job_.rows, cols_are_cut = panel_cols_ < job_.cols;
  if (cast.is_unscaled() || !(rows_are_cut || cols_are_cut)) return Range::none;
  const bool two_levels = cast.scale == ScaleKind::e4m3 && cast.tensor_scale != ScaleKind::none;
  if (two_levels || cast.block.kind == Block::Kind::tensor) return Range::whole;
  if (cast.block.kind != Block::Kind::row) return Range::none;
  if (job_.options.along == Contract::cols) return cols_are_cut ? Range::rows : Range::none;
  return rows_are_cut ? Range::cols : Range::none;
}

std::vector<Panel> NarrowEncoder::panels() const {
  if (job_.rows == 0 || job_.cols == 0) return {{0, job_.rows, 0, job_.cols}};
  std::vector<Panel> panels;
  for (int64_t row = 0; row < job_.rows; row += panel_rows_)
    for (int64_t col = 0; col < job_.cols; col += panel_cols_)
      panels.push_back({row, std::min(panel_rows_, job_.rows - row), col,
                        std::min(panel_cols_, job_.cols - col)});
  return panels;
}

void NarrowEncoder::note(const Panel& panel, Rows<const float> values) {
  const Threads threads = workspace_.threads();
  if (range_ == Range::whole) note_values(ranges_[0], values, threads);
  if (range_ == Range::rows)
    for (int64_t r = 0; r < panel.rows; ++r)
      note_values(ranges_[static_cast<size_t>(panel.row + r)], values.slice(r, 1), threads);
  if (range_ != Range::cols) return;
  note_columns(std::span(ranges_).subspan(static_cast<size_t>(panel.col)), values, threads);
}

/// One for the panel, one for each of its columns, or none.
std::span<const ValueRange> NarrowEncoder::ranges_of(const Panel& panel) const {
  const std::span<const ValueRange> all(ranges_);
  if (range_ == Range::rows) return all.subspan(static_cast<size_t>(panel.row), 1);
  if (range_ != Range::cols) return all;
  return all.subspan(static_cast<size_t>(panel.col), static_cast<size_t>(panel.cols));
}

void NarrowEncoder::encode(const Panel& panel, Rows<const float> values, NarrowMatrix& out,
                           const ByteCodes& bytes) {
  encode_whole(panel, values, out, bytes);
  if (bytes.codes == nullptr || out.codes.empty()) return;
  parallel_for(workspace_.threads(), out.rows, [&](int64_t row, int) {
    std::copy_n(out.codes.begin() + row * out.cols, out.cols, bytes.codes + row * bytes.stride);
  });
}

/// Codes go to `bytes` or to `out`.
void NarrowEncoder::encode_whole(const Panel& panel, Rows<const float> values, NarrowMatrix& out,
                                 const ByteCodes& bytes) {
  NG_CHECK(values.rows == panel.rows && values.cols == panel.cols, values.rows, values.cols);
  NG_CHECK(panel.rows <= panel_rows_ && panel.cols <= panel_cols_, panel.rows, panel.cols);
  const int64_t g = std::max(job_.options.hadamard.size, 1);
  const bool straight = job_.options.along == Contract::cols;
  out.cast = job_.cast;
  out.along = job_.options.along;
  set_shape(out, straight ? panel.rows : ceil_to(panel.rows, g),
            straight ? ceil_to(panel.cols, g) : panel.cols);
  out.counts = {};
  if (values.size() == 0) return encode_nothing(out);
  if (range_ == Range::rows && panel.rows > 1) return encode_rows(panel, values, out);
  if (is_folded(panel)) {
    encode_folded(panel, values, out);
  } else {
    const int64_t per_row = (job_.cols + kDrawGroup - 1) / kDrawGroup;
    encode_values(panel, values, {panel.row * per_row + panel.col / kDrawGroup, per_row}, out,
                  bytes);
  }
  out.counts.values = static_cast<uint64_t>(values.size());
}

bool NarrowEncoder::is_folded(const Panel& panel) const {
  return panel.rows == 1 && panel.cols > kFold && kFold % col_unit_ == 0 &&
         job_.options.along == Contract::cols && job_.options.hadamard.size == 0;
}

// Parts of rows whose scales look beyond them, one by one.
void NarrowEncoder::encode_rows(const Panel& panel, Rows<const float> values, NarrowMatrix& out) {
  const auto append = [](auto& whole, const auto& part) {
    whole.insert(whole.end(), part.begin(), part.end());
  };
  out.codes.clear();
  out.scales.clear();
  out.scale_codes.clear();
  out.zeros.clear();
  for (int64_t r = 0; r < panel.rows; ++r) {
    encode({panel.row + r, 1, panel.col, panel.cols}, values.slice(r, 1), row_);
    append(out.codes, row_.codes);
    append(out.scales, row_.scales);
    append(out.scale_codes, row_.scale_codes);
    append(out.zeros, row_.zeros);
    out.counts += row_.counts;
    out.tensor_scale = row_.tensor_scale;
  }
}

// A row as rows of kFold values, which all threads work on; blocks and draws lie as before.
void NarrowEncoder::encode_folded(const Panel& panel, Rows<const float> values, NarrowMatrix& out) {
  const int64_t rows = (panel.cols + kFold - 1) / kFold;
  if (rows * kFold > panel.cols) {
    folded_.assign(static_cast<size_t>(rows * kFold), 0.0f);
    std::copy_n(values.data, panel.cols, folded_.begin());
    values.data = folded_.data();
  }
  const int64_t per_row = (job_.cols + kDrawGroup - 1) / kDrawGroup;
  out.cast = of_one_row(job_.cast);
  set_shape(out, rows, kFold);
  encode_values(panel, {values.data, rows, kFold, kFold},
                {panel.row * per_row + panel.col / kDrawGroup, kFold / kDrawGroup}, out);
  out.cast = job_.cast;
  set_shape(out, 1, panel.cols);
  out.codes.resize(static_cast<size_t>(panel.cols));
  const auto scales = static_cast<size_t>(out.grid.size());
  out.scales.resize(scales);
  if (!out.scale_codes.empty()) out.scale_codes.resize(scales);
  if (!out.zeros.empty()) out.zeros.resize(scales);
}

void NarrowEncoder::encode_values(const Panel& panel, Rows<const float> values,
                                  const cpu::DrawGroups& groups, NarrowMatrix& out,
                                  const ByteCodes& bytes) {
  const std::span<const ValueRange> ranges = ranges_of(panel);
  if (is_by_definition(out.cast))
    return encode_by_definition(values, {job_.options.key, groups}, ranges, out,
                                workspace_.threads());
  // A part of a row has its scale from the witness, as a part of a tensor has.
  const bool alone = range_ == Range::rows || is_one_row();
  const Operand cast = alone ? of_one_row(out.cast) : out.cast;
  if (ranges.empty()) {
    prepare(cast, values, groups, out.counts);
  } else {
    const Rows<const float> extended = with_witness(ranges, values);
    const int64_t last = extended.rows - 1;
    OperandStats witness;  // alone it draws and counts as in its place
    prepare(cast, extended.slice(last, 1), {groups.first + last * groups.per_row, groups.per_row},
            witness);
    prepare(cast, extended, groups, out.counts);
    out.counts -= witness;
  }
  unpack_operand(packed_, codes_, out, workspace_.threads(), bytes);
}

void NarrowEncoder::prepare(const Operand& cast, Rows<const float> source,
                            const cpu::DrawGroups& groups, OperandStats& counts) {
  const bool straight = job_.options.along == Contract::cols;
  packed_ = {};
  packed_.spec.cast = cast;
  packed_.spec.contract = job_.options.along;
  packed_.spec.rows = straight ? source.rows : source.cols;
  packed_.spec.k = straight ? source.cols : source.rows;
  packed_.spec.k_multiple = std::max(job_.options.hadamard.size, 1);
  packed_.spec.hadamard = job_.options.hadamard;
  packed_.spec.signed_zeros = true;
  packed_.bytes = cpu::operand_bytes(packed_.spec);
  if (storage_.size() < packed_.bytes + kAlignment) storage_.resize(packed_.bytes + kAlignment);
  const auto address = reinterpret_cast<uintptr_t>(storage_.data());
  packed_.storage = storage_.data() + (kAlignment - address % kAlignment) % kAlignment;
  PrepareContext context;
  context.key = job_.options.key;
  context.stats = &counts;
  cpu::prepare(workspace_, {&packed_, source, context}, groups);
}

// A panel is prepared together with one more row whose amax is that of the whole matrix (row,
// column), so that it gets its scales. That row begins a block of its own.
Rows<const float> NarrowEncoder::with_witness(std::span<const ValueRange> ranges,
                                              Rows<const float> values) {
  const int64_t rows = ceil_to(values.rows, row_unit_) + 1;
  extended_.assign(static_cast<size_t>(rows * values.cols), 0.0f);
  const Rows<float> whole{extended_.data(), rows, values.cols, values.cols};
  for (int64_t r = 0; r < values.rows; ++r) std::copy_n(values.row(r), values.cols, whole.row(r));
  const bool skips_nan = job_.cast.scale == ScaleKind::e4m3;
  for (size_t i = 0; i < ranges.size(); ++i)
    whole.row(rows - 1)[i] =
        ranges[i].finite || skips_nan ? ranges[i].amax() : std::numeric_limits<float>::infinity();
  return whole;
}

}  // namespace ng
