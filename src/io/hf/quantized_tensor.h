// A weight that lies in files as codes and scales, by whatever method: found by the names, dtypes
// and shapes of its tensors, and read. [interop.md 2]
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/hf/quantized_layout.h"
#include "io/hf/scale_places.h"
#include "io/safetensors.h"

namespace ng::io {

/// The tensor of a folder by its full name; null: there is none.
using FindEntry = std::function<const SafetensorsEntry*(const std::string& name)>;

/// Whether a tensor has a dtype of floats of at most 8 bits that are no scales: F8_E4M3, F4, ...
[[nodiscard]] bool is_narrow(const SafetensorsEntry& entry);

/// Whether it has one of floats of 16 bits and more.
[[nodiscard]] bool is_wide_float(const SafetensorsEntry& entry);

/// Values of E8M0 codes, of dtype U8 or F8_E8M0. Throws Error for 255.
[[nodiscard]] std::vector<float> e8m0_scales(const SafetensorsEntry& entry);

/// A weight, not yet read: fl32(fl32(element · scale) · factor).
struct QuantizedTensor {
  std::string name;  ///< "P.weight"
  /// Elements as floats of their own, in the shape of the weight; two codes a byte are F4.
  SafetensorsEntry elements;
  SafetensorsEntry scales;
  ScalePlaces places;
  bool has_e8m0 = false;                   ///< scales are codes
  std::optional<SafetensorsEntry> factor;  ///< of the tensor, or one of each of its matrices
  ScalePlaces factor_places;
  bool divides = false;                        ///< the factor is the inverse of what is stored
  std::optional<SafetensorsEntry> zero_point;  ///< which has to be 0

  /// Names of the tensors beside the codes that it takes.
  [[nodiscard]] std::vector<std::string> parts() const;
  /// The weight as an entry of its own, whose values FloatReader makes.
  [[nodiscard]] SafetensorsEntry entry() const;
};

/// The weight whose codes a tensor holds: floats of at most 8 bits, or bytes of two E2M1 codes;
/// none where no scale lies beside it by a name of scale_names.h, or where those that do are not of
/// what such bytes hold. Throws Error naming file and tensor where a part of it is missing, has
/// another dtype or shape, or where nothing says how large its blocks are.
[[nodiscard]] std::optional<QuantizedTensor> find_quantized(const SafetensorsEntry& codes,
                                                            const QuantizedLayout& layout,
                                                            const FindEntry& find);

}  // namespace ng::io
