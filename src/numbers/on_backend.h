// Narrow numbers and products by any backend, through the seam: what numbers/narrow_matrix.h and
// numbers/product.h take from the cpu backend's kernels, to compare another one with it. A whole
// matrix lies in the backend's memory.
#pragma once

#include <vector>

#include "numbers/measured_product.h"
#include "numbers/narrow_matrix.h"

namespace ng {

/// The bits of quantize(). Throws Unsupported where the backend's GEMMs take no such operand.
[[nodiscard]] NarrowMatrix quantize_on(Backend& backend, Rows<const float> source,
                                       const Operand& cast, const QuantizeOptions& options);

/// The bits of product(), where the backend promises those of the definition.
[[nodiscard]] std::vector<float> product_on(Backend& backend, const ProductJob& job);

}  // namespace ng
