#include "numbers/product.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/quantize/quantize.h"
#include "format/codec.h"
#include "format/scale.h"
#include "numbers/by_definition.h"
#include "numbers/unpack.h"

namespace ng {
namespace {

int64_t block_along_k(const Operand& cast) {
  return cast.block.kind == Block::Kind::tile && !cast.is_unscaled() ? cast.block.cols : 1;
}

/// Elements of `matrix` as operand rows along K, in the form that `stored` gives a value. The
/// padding is left as it is.
template <class Stored>
void pack_elements(const OperandSpec& spec, const NarrowMatrix& matrix,
                   const cpu::PackedLayout& layout, const Stored& stored, std::byte* elements,
                   Threads threads) {
  using Value = decltype(stored(0.0f));
  std::vector<Value> of_code;
  for (const float value : decode_table(*matrix.cast.element)) of_code.push_back(stored(value));
  const bool straight = matrix.along == Contract::cols;
  const int64_t step = straight ? 1 : matrix.cols;
  parallel_for(threads, spec.rows, [&](int64_t row, int) {
    const uint16_t* code = matrix.codes.data() + (straight ? row * matrix.cols : row);
    auto* to = reinterpret_cast<Value*>(elements);
    for (int64_t i = 0; i < spec.k; ++i, code += step) to[layout.index(row, i)] = of_code[*code];
  });
}

void pack_scales(const OperandSpec& spec, const NarrowMatrix& matrix,
                 const cpu::PackedLayout& layout, float* scales) {
  std::fill_n(scales, spec.rows * layout.blocks, 1.0f);
  if (matrix.grid.size() == 0 || spec.k == 0) return;
  const bool straight = matrix.along == Contract::cols;
  const int64_t used = (spec.k + layout.block - 1) / layout.block;  // the rest is padding
  for (int64_t row = 0; row < spec.rows; ++row)
    for (int64_t b = 0; b < used; ++b) {
      const int64_t first = b * layout.block;
      const int64_t at = straight ? matrix.grid.at(row, first) : matrix.grid.at(first, row);
      scales[row * layout.blocks + b] = matrix.scales[static_cast<size_t>(at)];
    }
}

OperandSpec spec_of(const NarrowMatrix& matrix, Side side, const Hadamard& hadamard) {
  const bool straight = matrix.along == Contract::cols;
  OperandSpec spec;
  spec.cast = matrix.cast;
  spec.contract = matrix.along;
  spec.side = side;
  spec.rows = straight ? matrix.rows : matrix.cols;
  spec.k = straight ? matrix.cols : matrix.rows;
  spec.hadamard = hadamard;
  return spec;
}

}  // namespace

int64_t k_multiple(const Operand& a, const Operand& b, const Hadamard& hadamard) {
  return std::lcm(std::lcm(block_along_k(a), block_along_k(b)),
                  int64_t{std::max(hadamard.size, 1)});
}

Factor::Factor(const OperandSpec& spec) {
  packed_.spec = spec;
  packed_.bytes = cpu::operand_bytes(spec);
  if (packed_.bytes == 0) return;
  storage_ = {cpu::allocate(packed_.bytes), Release{packed_.bytes}};
  packed_.storage = storage_.get();
}

void Factor::Release::operator()(std::byte* memory) const { cpu::release(memory, bytes); }

Factor::Factor(cpu::Workspace& workspace, const OperandSpec& spec, Rows<const float> source,
               const RandomKey& key)
    : Factor(spec) {
  PrepareContext context;
  context.key = key;
  context.stats = &counts_;
  cpu::prepare(workspace, {&packed_, source, context});
}

// With rounding to nearest the driver would read plain numbers from a source, and round them.
Factor::Factor(const OperandSpec& spec, const NarrowMatrix& matrix, Threads threads)
    : Factor([&] {
        OperandSpec stored = spec;
        stored.cast.rounding = Rounding::stochastic;
        stored.contract = Contract::cols;  // row by row, as pack_elements writes
        return stored;
      }()) {
  const bool straight = matrix.along == Contract::cols;
  NG_CHECK(spec.rows == (straight ? matrix.rows : matrix.cols), spec.rows);
  NG_CHECK(spec.k == (straight ? matrix.cols : matrix.rows), spec.k);
  const cpu::PackedLayout layout = cpu::packed_layout(packed_.spec);
  std::byte* elements = packed_.storage + layout.elements_at;  // zeros as yet
  switch (layout.form) {
    case cpu::ElementForm::int8:
      pack_elements(
          spec, matrix, layout, [&](float v) { return static_cast<int8_t>(v / layout.unit); },
          elements, threads);
      break;
    case cpu::ElementForm::bf16:
      pack_elements(
          spec, matrix, layout, [](float v) { return static_cast<uint16_t>(float_bits(v) >> 16); },
          elements, threads);
      break;
    case cpu::ElementForm::fp32:
      pack_elements(
          spec, matrix, layout, [](float v) { return v; }, elements, threads);
      break;
  }
  pack_scales(spec, matrix, layout, reinterpret_cast<float*>(packed_.storage + layout.scales_at));
  auto* tensor = reinterpret_cast<float*>(packed_.storage + layout.tensor_at);
  std::fill_n(tensor, 16, 0.0f);
  tensor[0] = matrix.tensor_scale;
}

bool are_operand(const NarrowMatrix& matrix) {
  if (is_by_definition(matrix.cast)) return false;
  const ElementFormat& element = *matrix.cast.element;
  const bool is_integer = element.kind == ElementKind::integer;
  const auto least = static_cast<uint16_t>(1u << (element.bits - 1));
  if (is_integer &&
      std::find(matrix.codes.begin(), matrix.codes.end(), least) != matrix.codes.end())
    return false;
  return std::all_of(matrix.scales.begin(), matrix.scales.end(),
                     [&](float scale) { return is_scale(matrix.cast.scale, scale); });
}

std::vector<float> multiply(const NarrowMatrix& a, const NarrowMatrix& b, const Hadamard& hadamard,
                            Threads threads) {
  OperandSpec left = spec_of(a, Side::left, hadamard), right = spec_of(b, Side::right, hadamard);
  NG_CHECK(left.k == right.k, left.k, right.k);
  left.k_multiple = right.k_multiple = k_multiple(a.cast, b.cast, hadamard);
  std::vector<float> y(static_cast<size_t>(left.rows * right.rows));
  if (y.empty()) return y;
  cpu::Workspace workspace(threads);
  const Factor of_a(left, a, threads), of_b(right, b, threads);
  cpu::gemm(workspace, {.y = {y.data(), left.rows, right.rows, right.rows},
                        .a = &of_a.packed(),
                        .b = &of_b.packed()});
  return y;
}

}  // namespace ng
