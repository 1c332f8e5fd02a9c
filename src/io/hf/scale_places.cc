#include "io/hf/scale_places.h"

#include <algorithm>

namespace ng::io {
namespace {

int64_t block_in(size_t dimension, size_t dimensions, const ScaleBlock& block) {
  if (dimension + 1 == dimensions) return block.cols;
  return dimension + 2 == dimensions ? block.rows : 1;
}

/// `scales` has as many dimensions as `shape`, each with one scale or as many as blocks.
ScalePlaces places_with(std::span<const int64_t> shape, std::span<const int64_t> scales,
                        const ScaleBlock& block) {
  ScalePlaces places{.blocks = std::vector<int64_t>(shape.size(), 1),
                     .strides = std::vector<int64_t>(shape.size(), 0)};
  const bool is_empty = std::ranges::find(shape, 0) != shape.end();
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0 && !is_empty;) {
    places.blocks[d] = scales[d] == 1 ? shape[d] : block_in(d, shape.size(), block);
    places.strides[d] = scales[d] == 1 ? 0 : stride;
    stride *= scales[d];  // the sizes of a tensor that holds values: their product fits
  }
  return places;
}

}  // namespace

int64_t ScalePlaces::of_row(std::span<const int64_t> shape, int64_t row) const {
  int64_t index = 0;
  for (size_t d = shape.empty() ? 0 : shape.size() - 1; d-- > 0;) {
    index += row % shape[d] / blocks[d] * strides[d];
    row /= shape[d];
  }
  return index;
}

std::optional<ScalePlaces> plain_places(std::span<const int64_t> shape,
                                        std::span<const int64_t> scales) {
  std::vector<int64_t> sizes(scales.begin(), scales.end());
  const bool is_one = std::ranges::all_of(sizes, [](int64_t size) { return size == 1; });
  if (is_one) sizes.clear();
  if (sizes.size() > shape.size()) return {};
  sizes.resize(shape.size(), 1);
  for (size_t d = 0; d < shape.size(); ++d)
    if (sizes[d] != 1 && sizes[d] != shape[d]) return {};
  return places_with(shape, sizes, {});
}

std::vector<int64_t> block_shape(std::span<const int64_t> shape, const ScaleBlock& block) {
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t size = block_in(d, sizes.size(), block);
    sizes[d] = shape[d] / size + (shape[d] % size == 0 ? 0 : 1);
  }
  return sizes;
}

std::optional<ScalePlaces> block_places(std::span<const int64_t> shape,
                                        std::span<const int64_t> scales, const ScaleBlock& block) {
  std::vector<int64_t> sizes(scales.begin(), scales.end());
  if (sizes.size() == 4 && shape.size() == 2 && sizes[1] == 1 && sizes[3] == 1)
    sizes = {sizes[0], sizes[2]};
  if (sizes != block_shape(shape, block)) return {};
  return places_with(shape, sizes, block);
}

}  // namespace ng::io
