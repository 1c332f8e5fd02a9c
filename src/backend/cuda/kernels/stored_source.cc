#include "backend/cuda/kernels/stored_source.h"

#include "backend/backend.h"

namespace ng::cuda {
namespace {

ScaleKind scale_kind(const ElementFormat& element) {
  if (element.kind == ElementKind::power) return ScaleKind::e8m0;
  return element.bits == 8 ? ScaleKind::e4m3 : ScaleKind::fp32;
}

}  // namespace

void require_elements(const ConstView& x) {
  if (x.low != nullptr) throw Unsupported("cuda: moments in two parts (parts = 2)");
  if (x.scales.coding == Coding::expanded) throw Unsupported("cuda: moments with expand = true");
  if (x.scales.coding != Coding::elements)
    throw Unsupported("cuda: moments with map = \"dynamic\"");
}

StoredSource stored_source(const ConstView& x) {
  if (x.rows == 0) return {};
  require_elements(x);
  Operand cast;
  cast.element = x.element;
  StoredSource source;
  source.codes = {reinterpret_cast<uint8_t*>(const_cast<std::byte*>(x.data)), x.stride,
                  x.element->bits};
  source.element = element_cast(cast, {});
  if (!x.has_scales()) return source;
  const Block& block = x.scales.block;
  const bool is_tile = block.kind == Block::Kind::tile;
  const int64_t width = is_tile ? block.cols : x.cols;
  source.scales = {reinterpret_cast<uint8_t*>(const_cast<std::byte*>(x.scales.data)),
                   scale_kind(*x.scales.element),
                   is_tile                             ? block.rows
                   : block.kind == Block::Kind::tensor ? x.rows
                                                       : 1,
                   width, (x.cols + width - 1) / width};
  source.tensor = x.scales.tensor;
  return source;
}

}  // namespace ng::cuda
