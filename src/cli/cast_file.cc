#include "cli/cast_file.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "backend/ref/operand.h"
#include "base/glob.h"
#include "format/codec.h"
#include "io/safetensors.h"

namespace ng::cli {
namespace {

bool is_float(const std::string& dtype) { return dtype[0] == 'F' || dtype == "BF16"; }

/// A tensor as a matrix whose columns run along the axis of the blocks: blocks of several rows and
/// random draws see that matrix, which for a tensor of two dimensions is it or its transpose.
struct Axes {
  int64_t outer = 1, k = 1, inner = 1;  ///< the tensor is (outer, k, inner), row-major

  [[nodiscard]] int64_t rows() const { return outer * inner; }
  [[nodiscard]] bool is_transpose() const { return outer == 1 && inner > 1; }
  [[nodiscard]] size_t place(int64_t row, int64_t col) const {
    return static_cast<size_t>((row / inner * k + col) * inner + row % inner);
  }
};

Axes axes_of(const io::SafetensorsEntry& entry, int64_t axis, const std::string& path) {
  const auto rank = static_cast<int64_t>(entry.shape.size());
  if (rank == 0) return {};
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    throw Error({.place = path,
                 .key = entry.name,
                 .problem = fmt::format("has {} dimensions, --axis {}", rank, axis),
                 .remedy = fmt::format("--axis from {} to {}", -rank, rank - 1)});
  const auto product = [&](int64_t first, int64_t last) {
    return std::accumulate(entry.shape.begin() + first, entry.shape.begin() + last, int64_t{1},
                           std::multiplies<>());
  };
  return {product(0, at), entry.shape[static_cast<size_t>(at)], product(at + 1, rank)};
}

OperandSpec spec_of(const CastSettings& settings, const Axes& axes) {
  OperandSpec spec;
  spec.cast = settings.cast;
  spec.contract = axes.is_transpose() ? Contract::rows : Contract::cols;
  spec.rows = axes.rows();
  spec.k = axes.k;
  return spec;
}

/// Blocks of a tensor: how many along rows and along the axis.
struct ScaleShape {
  int64_t rows = 0, cols = 0;

  [[nodiscard]] size_t size() const { return static_cast<size_t>(rows * cols); }
};
ScaleShape scale_shape(const CastSettings& settings, const Axes& axes) {
  if (settings.cast.is_unscaled()) return {};
  const Block& block = settings.cast.block;
  switch (block.kind) {
    case Block::Kind::tensor:
      return {1, 1};
    case Block::Kind::row:
      return {axes.rows(), 1};
    default:
      return {(axes.rows() + block.rows - 1) / block.rows, (axes.k + block.cols - 1) / block.cols};
  }
}

bool has_scale_codes(const Operand& cast) {
  return cast.scale == ScaleKind::e8m0 || cast.scale == ScaleKind::e4m3;
}

// What a tensor becomes, in the order in which it is written.
std::vector<io::SafetensorsTensor> outputs_of(const CastSettings& settings,
                                              const io::SafetensorsEntry& entry, const Axes& axes) {
  const Operand& cast = settings.cast;
  std::vector<io::SafetensorsTensor> out;
  out.push_back(
      {entry.name + ".codes", cast.element->bits <= 8 ? "U8" : "U16", entry.shape, nullptr});
  if (!cast.is_unscaled()) {
    const ScaleShape scales = scale_shape(settings, axes);
    std::vector<int64_t> shape = {scales.rows, scales.cols};
    if (cast.block.kind == Block::Kind::tensor) shape = {1};
    if (scales.rows == axes.rows() && cast.block.kind != Block::Kind::tensor) {
      shape = entry.shape;  // the axis counts blocks
      const auto rank = static_cast<int64_t>(shape.size());
      const int64_t at = settings.axis < 0 ? settings.axis + rank : settings.axis;
      if (rank == 0)
        shape = {1};
      else
        shape[static_cast<size_t>(at)] = scales.cols;
    }
    out.push_back({entry.name + ".scale", has_scale_codes(cast) ? "U8" : "F32", shape, nullptr});
  }
  if (cast.scale == ScaleKind::e4m3)
    out.push_back({entry.name + ".tensor_scale", "F32", {1}, nullptr});
  out.push_back({entry.name + ".values", "F32", entry.shape, nullptr});
  return out;
}

struct Codes {
  std::vector<uint16_t> codes;  ///< by place in the tensor
  std::vector<float> values;
  std::vector<float> scales;  ///< (rows, cols) of ScaleShape
  float tensor_scale = 1;
};

// The draws of element (row, col) are those of its place in the matrix that a GEMM would read.
uint32_t draw_of(const RandomKey& key, const Axes& axes, int64_t row, int64_t col, int bits) {
  const auto u = [](int64_t i) { return static_cast<uint64_t>(i); };
  if (axes.is_transpose()) return random_bits(key, u(col), u(row), u(axes.inner), bits);
  return random_bits(key, u(row), u(col), u(axes.k), bits);
}

Codes cast_elements(const CastSettings& settings, const std::vector<float>& x, const Axes& axes,
                    const RandomKey& key) {
  const Operand& cast = settings.cast;
  const OverflowRule overflow =
      cast.overflow == Overflow::special ? OverflowRule::special : OverflowRule::saturate;
  Codes out{std::vector<uint16_t>(x.size()), std::vector<float>(x.size()), {}};
  Rounder rounder;
  if (cast.rounding == Rounding::stochastic) rounder = {RoundMode::sr, cast.sr_bits, 0};
  for (int64_t row = 0; row < axes.rows(); ++row)
    for (int64_t col = 0; col < axes.k; ++col) {
      const size_t at = axes.place(row, col);
      if (rounder.mode == RoundMode::sr)
        rounder.random = draw_of(key, axes, row, col, cast.sr_bits);
      out.codes[at] = static_cast<uint16_t>(encode(*cast.element, x[at], rounder, overflow));
      out.values[at] = decode(*cast.element, out.codes[at]);
    }
  return out;
}

// A tensor without values has scales where a block has no values: they are 1.
Codes cast_nothing(const CastSettings& settings, const Axes& axes) {
  Codes out;
  out.scales.assign(scale_shape(settings, axes).size(), 1.0f);
  return out;
}

Codes cast_blocks(const CastSettings& settings, const std::vector<float>& x, const Axes& axes,
                  const RandomKey& key) {
  std::vector<float> matrix = x;  // rows as the backend wants them, later the decoded values
  if (!axes.is_transpose())
    for (int64_t row = 0; row < axes.rows(); ++row)
      for (int64_t col = 0; col < axes.k; ++col)
        matrix[static_cast<size_t>(row * axes.k + col)] = x[axes.place(row, col)];
  PackedOperand packed;
  packed.spec = spec_of(settings, axes);
  std::vector<float> storage(ref::operand_bytes(packed.spec) / sizeof(float));
  packed.storage = reinterpret_cast<std::byte*>(storage.data());
  packed.bytes = storage.size() * sizeof(float);
  PrepareContext context;
  context.key = key;
  const ConstView source = axes.is_transpose()
                               ? ConstView{matrix.data(), axes.k, axes.inner, axes.inner}
                               : ConstView{matrix.data(), axes.rows(), axes.k, axes.k};
  ref::prepare(packed, source, context);
  std::vector<uint16_t> codes(x.size());
  ref::unpack(packed, {matrix.data(), axes.rows(), axes.k, axes.k}, codes.data());
  Codes out{std::vector<uint16_t>(x.size()), std::vector<float>(x.size()), {}};
  for (int64_t row = 0; row < axes.rows(); ++row)
    for (int64_t col = 0; col < axes.k; ++col) {
      const auto from = static_cast<size_t>(row * axes.k + col);
      out.codes[axes.place(row, col)] = codes[from];
      out.values[axes.place(row, col)] = matrix[from];
    }
  const ref::OperandParts parts = ref::parts_of(packed);
  out.scales.assign(parts.scales, parts.scales + parts.scale_rows * parts.scale_cols);
  out.tensor_scale = *parts.tensor_scale;
  return out;
}

Codes cast_tensor(const CastSettings& settings, const std::vector<float>& x, const Axes& axes,
                  const RandomKey& key) {
  if (x.empty()) return cast_nothing(settings, axes);
  return settings.cast.is_unscaled() ? cast_elements(settings, x, axes, key)
                                     : cast_blocks(settings, x, axes, key);
}

template <class Value>
void write_values(io::SafetensorsWriter& writer, const std::vector<Value>& values) {
  writer.write(std::as_bytes(std::span(values)));
}

void write_narrow(io::SafetensorsWriter& writer, const std::vector<uint16_t>& codes) {
  write_values(writer, std::vector<uint8_t>(codes.begin(), codes.end()));
}

uint16_t scale_code(ScaleKind kind, float scale) {
  if (kind == ScaleKind::e4m3) return static_cast<uint16_t>(encode(element_format("e4m3"), scale));
  return static_cast<uint16_t>(encode(element_format("e8m0"), scale));
}

// Scales of (outer · inner) rows by blocks, in the order of the tensor's axes.
std::vector<float> in_tensor_order(const std::vector<float>& scales, const Axes& axes,
                                   const ScaleShape& shape) {
  if (shape.rows != axes.rows()) return scales;
  const Axes blocks{axes.outer, shape.cols, axes.inner};
  std::vector<float> out(scales.size());
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t col = 0; col < shape.cols; ++col)
      out[blocks.place(row, col)] = scales[static_cast<size_t>(row * shape.cols + col)];
  return out;
}

void write_tensor(io::SafetensorsWriter& writer, const CastSettings& settings, const Axes& axes,
                  const Codes& result) {
  const Operand& cast = settings.cast;
  if (cast.element->bits <= 8)
    write_narrow(writer, result.codes);
  else
    write_values(writer, result.codes);
  if (!cast.is_unscaled()) {
    const auto scales = in_tensor_order(result.scales, axes, scale_shape(settings, axes));
    std::vector<uint16_t> codes;
    for (const float scale : scales)
      if (has_scale_codes(cast)) codes.push_back(scale_code(cast.scale, scale));
    if (has_scale_codes(cast))
      write_narrow(writer, codes);
    else
      write_values(writer, scales);
  }
  if (cast.scale == ScaleKind::e4m3) write_values(writer, std::vector<float>{result.tensor_scale});
  write_values(writer, result.values);
}

}  // namespace

size_t cast_file(const std::string& in, const std::string& out, const CastSettings& settings) {
  const io::Safetensors file(in);
  std::vector<size_t> chosen;  // the random key counts all tensors, whichever are wanted
  std::vector<io::SafetensorsTensor> outputs;
  for (size_t i = 0; i < file.entries().size(); ++i) {
    const io::SafetensorsEntry& entry = file.entries()[i];
    if (!is_float(entry.dtype) || !glob_matches(settings.tensors, entry.name)) continue;
    chosen.push_back(i);
    const auto parts = outputs_of(settings, entry, axes_of(entry, settings.axis, in));
    outputs.insert(outputs.end(), parts.begin(), parts.end());
  }
  if (chosen.empty())
    throw Error({.place = in,
                 .key = "",
                 .problem = fmt::format("no float tensor matches \"{}\"", settings.tensors),
                 .remedy = fmt::format("one of its {} tensors", file.entries().size())});
  io::SafetensorsWriter writer(out, outputs);
  for (const size_t i : chosen) {
    const io::SafetensorsEntry& entry = file.entries()[i];
    const Axes axes = axes_of(entry, settings.axis, in);
    const RandomKey key{.seed = settings.seed,
                        .tensor = static_cast<uint32_t>(i),
                        .step = 0,
                        .purpose = Purpose::fprop_input};
    write_tensor(writer, settings, axes, cast_tensor(settings, io::to_floats(entry), axes, key));
  }
  writer.commit();
  return chosen.size();
}

}  // namespace ng::cli
