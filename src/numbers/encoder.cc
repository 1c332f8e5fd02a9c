#include "numbers/encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/cpu/packed.h"
#include "backend/cpu/quantize.h"
#include "numbers/by_definition.h"

namespace ng {
namespace {

constexpr size_t kAlignment = 64;

int64_t ceil_to(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

/// Scales that look at the whole matrix, or at whole columns while panels are ranges of rows.
bool scales_span_panels(const EncodeJob& job) {
  const Operand& cast = job.cast;
  if (cast.is_unscaled()) return false;
  if (cast.scale == ScaleKind::e4m3 && cast.tensor_scale != ScaleKind::none) return true;
  return scale_spans_rows(cast, job.options.along);
}

/// Rows of the matrix that share a scale where that is a fixed number, and whole transforms.
int64_t unit_of(const EncodeJob& job) {
  const Operand& cast = job.cast;
  const bool tiled = cast.block.kind == Block::Kind::tile && !cast.is_unscaled();
  if (job.options.along == Contract::cols) return tiled ? cast.block.rows : 1;
  return std::lcm(int64_t{tiled ? cast.block.cols : 1},
                  int64_t{std::max(job.options.hadamard.size, 1)});
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

}  // namespace

NarrowEncoder::NarrowEncoder(cpu::Workspace& workspace, const EncodeJob& job)
    : workspace_(workspace),
      job_(job),
      unit_(unit_of(job_)),
      needs_range_(scales_span_panels(job_)),
      codes_(*job_.cast.element) {
  NG_CHECK(job_.cast.scaling == Scaling::current && job_.cast.element->bits <= 16,
           job_.cast.element->name);
  const bool transformed = job_.options.hadamard.size != 0;
  NG_CHECK(!transformed || !is_by_definition(job_.cast), job_.cast.element->name);
  const int64_t fitting =
      job_.options.panel_values / std::max<int64_t>(job_.cols, 1) / unit_ * unit_;
  panel_rows_ = std::max(unit_, fitting);
  // The range of a transformed matrix is not that of its source: it is one panel.
  if (panel_rows_ >= job_.rows || (transformed && needs_range_)) {
    panel_rows_ = std::max<int64_t>(job_.rows, 1);
    needs_range_ = false;
  }
  if (needs_range_) ranges_.resize(has_column_ranges() ? static_cast<size_t>(job_.cols) : 1);
}

bool NarrowEncoder::has_column_ranges() const {
  return job_.cast.block.kind == Block::Kind::row && job_.options.along == Contract::rows;
}

void NarrowEncoder::note(ConstView panel) {
  if (!needs_range_) return;
  witness_.clear();
  if (has_column_ranges()) return note_columns(ranges_, panel, workspace_.threads());
  note_values(ranges_[0], panel, workspace_.threads());
}

void NarrowEncoder::encode(int64_t first_row, ConstView panel, NarrowMatrix& out) {
  NG_CHECK(panel.cols == job_.cols && first_row + panel.rows <= job_.rows, panel.cols, first_row,
           panel.rows);
  NG_CHECK(panel.rows == panel_rows_ || first_row + panel.rows == job_.rows, panel.rows);
  const int64_t g = std::max(job_.options.hadamard.size, 1);
  const bool straight = job_.options.along == Contract::cols;
  out.cast = job_.cast;
  out.along = job_.options.along;
  out.rows = straight ? panel.rows : ceil_to(panel.rows, g);
  out.cols = straight ? ceil_to(panel.cols, g) : panel.cols;
  out.grid = scale_grid(out.cast, out.along, out.rows, out.cols);
  out.counts = {};
  if (panel.size() == 0) return encode_nothing(out);
  if (is_by_definition(job_.cast))
    encode_by_definition(panel, first_row, job_.options.key, ranges_, out, workspace_.threads());
  else
    encode_operand(first_row, panel, out);
  out.counts.values = static_cast<uint64_t>(panel.size());
}

void NarrowEncoder::encode_operand(int64_t first_row, ConstView panel, NarrowMatrix& out) {
  if (!needs_range_) {
    prepare(panel, first_row, out.counts);
  } else {
    if (witness_.empty()) make_witness();
    const ConstView extended = with_witness(panel);
    const int64_t last = extended.rows - 1;
    OperandStats witness;  // alone it draws and counts as in its place
    prepare(extended.slice(last, 1), first_row + last, witness);
    prepare(extended, first_row, out.counts);
    out.counts -= witness;
  }
  unpack_operand(packed_, codes_, out, workspace_.threads());
}

void NarrowEncoder::prepare(ConstView source, int64_t first_row, OperandStats& counts) {
  const bool straight = job_.options.along == Contract::cols;
  packed_ = {};
  packed_.spec.cast = job_.cast;
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
  context.first_row = first_row;
  context.stats = &counts;
  cpu::prepare(workspace_, packed_, source, context);
}

// A panel is prepared together with one more row whose amax is that of the whole matrix (or of each
// column), so that it gets the matrix's scales. That row begins a block of its own.
void NarrowEncoder::make_witness() {
  witness_.assign(static_cast<size_t>(job_.cols), 0.0f);
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const bool skips_nan = job_.cast.scale == ScaleKind::e4m3;
    witness_[i] =
        ranges_[i].finite || skips_nan ? ranges_[i].amax() : std::numeric_limits<float>::infinity();
  }
}

ConstView NarrowEncoder::with_witness(ConstView panel) {
  const int64_t rows = ceil_to(panel.rows, unit_) + 1;
  extended_.assign(static_cast<size_t>(rows * job_.cols), 0.0f);
  const View whole{extended_.data(), rows, job_.cols, job_.cols};
  for (int64_t r = 0; r < panel.rows; ++r) std::copy_n(panel.row(r), panel.cols, whole.row(r));
  std::copy(witness_.begin(), witness_.end(), whole.row(rows - 1));
  return whole;
}

}  // namespace ng
