// Tensors that persist, as the host sees them: their codes and scales, and values put into them so
// that they mean what they meant where they were read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/run.h"

namespace ng {

/// Codes of a tensor whose elements have at most 16 bits, one each, row by row without gaps.
[[nodiscard]] std::vector<uint16_t> codes_of(const Backend& backend, const ConstView& tensor);

/// "U8" or "U16": as what codes are written, one each; and their bytes.
[[nodiscard]] std::string code_dtype(const ElementFormat& element);
[[nodiscard]] std::vector<std::byte> code_bytes(const std::vector<uint16_t>& codes,
                                                const ElementFormat& element);

/// Bytes of a tensor's scales in the order of View::scale_index; none where it has none.
[[nodiscard]] std::vector<std::byte> scale_bytes_of(const Backend& backend, const Stored& tensor);

/// The powers or centers of a tensor's blocks, in the same order. [tensor/view.h]
[[nodiscard]] std::vector<float> block_numbers_of(const Backend& backend, const Stored& tensor,
                                                  const float* numbers);

/// What elements are multiplied by on the way out, in the same order.
[[nodiscard]] std::vector<float> scales_of(const Backend& backend, const Stored& tensor);

/// The second level of a tensor's scales; 1 where it has none.
[[nodiscard]] float tensor_scale_of(const Backend& backend, const ConstView& tensor);

/// Puts values, row by row, rounded to nearest under these scales. `scales`: as many as the tensor
/// has, each a number that its scales can hold; not of tensors with scales on two levels. Returns
/// how many were larger than the largest element, which they became, by more than a rounding.
size_t put_under_scales(Backend& backend, const Stored& tensor, std::span<const float> values,
                        std::span<const float> scales);

/// Stores values by the tensor's cast, rounded to nearest. FP32 scales are taken an ulp or more
/// beside those of the cast where only so the values stay what they are: a state that was read from
/// such a tensor is that state again; not so under a map or an expansion, which are found anew.
void put_state(Run& run, const Stored& tensor, std::span<const float> values);

/// w + c of a weight with a residual: c in units of the ulp of w's code over 2^bits.
/// [errata-2, 21]
[[nodiscard]] std::vector<float> with_residual(const Backend& backend, const UpdatedWeight& weight);

/// Puts c = x - w, in its unit to nearest. Returns the first place whose c is not within half an
/// ulp of w, as the residual holds it; nothing has been put then.
[[nodiscard]] std::optional<size_t> put_residual(Backend& backend, const UpdatedWeight& weight,
                                                 std::span<const float> x);

}  // namespace ng
