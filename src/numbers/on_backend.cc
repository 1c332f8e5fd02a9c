#include "numbers/on_backend.h"

#include <algorithm>

#include "numbers/product.h"
#include "numbers/unpack.h"
#include "run/transfer.h"

namespace ng {
namespace {

/// A matrix and the operand made of it, in a backend's memory.
class SeamOperand {
 public:
  SeamOperand(Backend& backend, const OperandSpec& spec, Rows<const float> source,
              const RandomKey& key)
      : backend_(backend),
        source_(backend, source.rows, source.cols),
        storage_(backend, std::max<size_t>(backend.operand_bytes(spec), 1)),
        stats_(backend, sizeof(OperandStats)) {
    const auto cols = static_cast<size_t>(source.cols);
    if (source.stride == source.cols)
      source_.upload({source.row(0), static_cast<size_t>(source.size())});
    else
      for (int64_t r = 0; r < source.rows; ++r)
        upload_row(backend, source_.view(), r, {source.row(r), cols});
    packed_ = {.spec = spec,
               .source = {},
               .storage = storage_.data(),
               .bytes = backend.operand_bytes(spec)};
    PrepareContext context;
    context.key = key;
    context.stats = reinterpret_cast<OperandStats*>(stats_.data());
    backend.execute(Prepare{&packed_, source_.view(), context});
  }

  [[nodiscard]] const PackedOperand& packed() const { return packed_; }
  [[nodiscard]] OperandStats counts() const { return read<OperandStats>(stats_, 1).front(); }
  template <class Value>
  [[nodiscard]] std::vector<Value> read(const BackendMemory& memory, size_t count) const {
    std::vector<Value> values(count);
    backend_.download(values.data(), memory.data(), count * sizeof(Value));
    return values;
  }

 private:
  Backend& backend_;
  TemporaryTensor source_;
  BackendMemory storage_, stats_;
  PackedOperand packed_;
};

/// Where an element of the matrix has its code and its scale in the operand.
struct OperandPlaces {
  const OperandSpec& spec;

  [[nodiscard]] bool is_straight() const { return spec.contract == Contract::cols; }
  [[nodiscard]] size_t code_of(int64_t row, int64_t col) const {
    return static_cast<size_t>((is_straight() ? row : col) * spec.k_padded() +
                               (is_straight() ? col : row));
  }
  [[nodiscard]] size_t scale_of(int64_t row, int64_t col) const {
    const Block& block = spec.cast.block;
    const bool is_tile = block.kind == Block::Kind::tile;
    const int64_t rows = is_tile ? block.rows : block.kind == Block::Kind::row ? 1 : spec.rows;
    const int64_t cols = is_tile ? block.cols : spec.k_padded();
    const int64_t across = scale_shape(spec.cast, spec.rows, spec.k_padded()).cols;
    return static_cast<size_t>((is_straight() ? row : col) / rows * across +
                               (is_straight() ? col : row) / cols);
  }
};

}  // namespace

NarrowMatrix quantize_on(Backend& backend, Rows<const float> source, const Operand& cast,
                         const QuantizeOptions& options) {
  const bool straight = options.along == Contract::cols;
  OperandSpec spec;
  spec.cast = cast;
  spec.contract = options.along;
  spec.rows = straight ? source.rows : source.cols;
  spec.k = straight ? source.cols : source.rows;
  spec.k_multiple = k_multiple(cast, cast, options.hadamard);
  spec.hadamard = options.hadamard;
  spec.signed_zeros = true;
  const int64_t g = std::max(options.hadamard.size, 1), k = (spec.k + g - 1) / g * g;
  NarrowMatrix out;
  out.cast = cast;
  out.along = options.along;
  out.rows = straight ? source.rows : k;
  out.cols = straight ? k : source.cols;
  out.grid = scale_grid(cast, options.along, out.rows, out.cols);
  if (source.size() == 0) return out;

  const SeamOperand operand(backend, spec, source, options.key);
  const ScaleShape scales = scale_shape(cast, spec.rows, spec.k_padded());
  const auto values = static_cast<size_t>(spec.rows * spec.k_padded());
  const auto blocks = static_cast<size_t>(std::max<int64_t>(scales.rows * scales.cols, 1));
  const TemporaryTensor decoded(backend, spec.rows, spec.k_padded());
  const BackendMemory codes(backend, values * sizeof(uint16_t));
  const BackendMemory of_blocks(backend, blocks * sizeof(float)), level(backend, sizeof(float));
  backend.execute(Unpack{.packed = &operand.packed(),
                         .values = decoded.view(),
                         .codes = reinterpret_cast<uint16_t*>(codes.data()),
                         .scales = cast.is_unscaled() ? nullptr : of_blocks.floats(),
                         .tensor_scale = cast.is_unscaled() ? nullptr : level.floats()});
  const std::vector<uint16_t> all_codes = operand.read<uint16_t>(codes, values);
  const OperandPlaces places{spec};
  for (int64_t r = 0; r < out.rows; ++r)
    for (int64_t c = 0; c < out.cols; ++c) out.codes.push_back(all_codes[places.code_of(r, c)]);
  const std::vector<float> all_scales = operand.read<float>(of_blocks, blocks);
  for (int64_t i = 0; i < out.grid.rows; ++i)
    for (int64_t j = 0; j < out.grid.cols; ++j) {
      out.scales.push_back(
          all_scales[places.scale_of(i * out.grid.block_rows, j * out.grid.block_cols)]);
      if (has_scale_codes(cast))
        out.scale_codes.push_back(scale_code(cast.scale, out.scales.back()));
    }
  if (!cast.is_unscaled()) out.tensor_scale = operand.read<float>(level, 1).front();
  out.counts = operand.counts();
  out.counts.values = static_cast<uint64_t>(source.size());
  return out;
}

std::vector<float> product_on(Backend& backend, const ProductJob& job) {
  const SeamOperand a(backend, spec_of(job, Side::left), job.a, key_of(job, Side::left));
  const SeamOperand b(backend, spec_of(job, Side::right), job.b, key_of(job, Side::right));
  const TemporaryTensor y(backend, job.m(), job.n());
  backend.execute(
      Gemm{.y = y.view(), .a = &a.packed(), .b = &b.packed(), .bias = {}, .sum = job.sum});
  return y.download();
}

}  // namespace ng
