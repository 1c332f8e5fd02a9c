// What noise on weights has learned by now, block by block: a map of the blocks of each layer, and
// how b_t lies in the layers side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "learned/bits.h"
#include "report/page.h"

namespace ng::report {

/// [source 002, Fig. 5]: b_t over the blocks of each layer after `step` steps, in its order of
/// layers: qkv or q, k, v, then out, up and down, or with a gate out, gate, down and up. The note
/// has the shares of weights that fit into formats. No items where no b_t is known.
[[nodiscard]] RangeChart bit_ranges(std::span<const LearnedBits> layers, int64_t step);

/// Cells that the maps of a page have in all, about: a report stays small.
inline constexpr int64_t kMapCells = int64_t{1} << 18;

/// Longest side in cells of a map where there are so many layers: 64, or a half, a quarter, ... of
/// it.
[[nodiscard]] int64_t most_cells(size_t layers);

/// A map of each layer's blocks, for each block of the model, all in one scale of colours. A layer
/// of more than `side` blocks on a side has cells of several, their means. Nothing where no layer
/// has more than one block.
[[nodiscard]] std::vector<ChartChoice> bit_maps(std::span<const LearnedBits> layers, int64_t side);

/// What these maps are.
inline constexpr const char* kMapNote =
    "b_t of the blocks of each weight as the newest checkpoint has it, rows of blocks downwards "
    "(outputs) and columns to the right (inputs). A large weight has cells of several blocks, "
    "which show their mean.";

}  // namespace ng::report
