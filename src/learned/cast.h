// Weights with learned bit-widths in the formats that those ask for: as a recipe that stores layers
// in them, or block by block.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/learned_formats.h"
#include "learned/run.h"

namespace ng {

/// Of each layer, by its largest b_t: every block is covered.
[[nodiscard]] std::vector<const LearnedFormat*> formats_by_layer(
    const std::vector<LearnedLayer>& layers, int least_bits);
/// Of each block of a layer, by its own b_t.
[[nodiscard]] std::vector<const LearnedFormat*> formats_by_block(const LearnedLayer& layer,
                                                                 int least_bits);

/// One cast for all layers alike.
struct UniformCast {
  std::string_view name;
  Operand cast;
};
/// That with the most bits of an element among MXFP4, MXFP6, MXFP8, BF16 and FP32 that takes no
/// more than `most_bytes` for these layers; the first of them where none does.
[[nodiscard]] UniformCast uniform_cast(const std::vector<LearnedLayer>& layers, double most_bytes);

/// Bytes of a layer's weight: elements and the scales that decode them.
[[nodiscard]] double stored_bytes(const LearnedLayer& layer, const Operand& cast);
/// The same block by block, as such a layout would take it: each block's elements in whole bytes,
/// a byte for its scale and one that names its format.
[[nodiscard]] double stored_bytes_by_block(const LearnedLayer& layer, int least_bits);

/// A recipe that stores the weight of layer i by casts[i] with an FP32 master beside it, computes
/// as the last phase of the run's recipe does, and has its optimizer; everything else is FP32,
/// there is no noise. TOML that inherits from "bf16" or "fp32".
[[nodiscard]] std::string recipe_text(const LearnedRun& run, const std::string& name,
                                      const std::vector<Operand>& casts);
/// The recipe that it inherits from: in whose numbers the run's last phase computes.
[[nodiscard]] std::string plain_numbers(const LearnedRun& run);
/// recipe_text() that stores every weight in FP32.
[[nodiscard]] std::string plain_recipe_text(const LearnedRun& run);

/// The layer's weight with each block rounded to nearest in its own format: formats of fewer than
/// eight bits of exponent have one scale for the block, the least power of two under which its
/// largest magnitude does not saturate. What was rounded so stays what it is.
[[nodiscard]] std::vector<float> cast_by_block(const LearnedLayer& layer,
                                               const std::vector<float>& weight, int least_bits);

}  // namespace ng
