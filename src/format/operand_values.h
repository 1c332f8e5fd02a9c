// How values of an operand's keys are read from TOML and printed.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/keys.h"
#include "format/operand.h"

namespace ng {

/// Blocks are powers of two, so that the padded length (lcm of blocks and Hadamard) stays small.
inline constexpr int kMaxBlock = 128;
/// Those of optimizers' states, which are never padded, may be as long. [linear.md 9]
inline constexpr int kMaxStateBlock = 256;
inline constexpr std::string_view kBlockExpected =
    "\"tensor\", \"row\" or [r, c] with r in 1, 2, 4 ... 128 and c in 16, 32, 64, 128";
inline constexpr std::string_view kOperandBlockExpected =
    "\"tensor\", \"row\" or [r, c] with r in 1, 2, 4 ... 128 and c in 16, 32, 64, 128, of moments "
    "256, too";
inline constexpr std::string_view kTensorBlockExpected =
    "\"tensor\", \"row\" or [r, c] of whole blocks, r and c up to 65536";
inline constexpr std::string_view kElementListExpected = "[\"e2m1\", \"int4\"]";
inline constexpr std::string_view kFitsExpected =
    "a number from 2^-16 to 2^16, or a list of 1 to 8 of them";

/// Text must be one of many names: says which is near.
[[nodiscard]] const std::string& read_name(const TomlItem& item,
                                           std::span<const std::string_view> names);

/// The name of a format. An element's is refused with how a table names elements.
[[nodiscard]] const std::string& read_format_name(const TomlItem& item);

/// Short names of the elements that operands can be written in: signed, not only powers of two.
[[nodiscard]] std::vector<std::string_view> operand_element_names();
/// One of them, a full name, or bits that the user names.
[[nodiscard]] const ElementFormat& read_element(const TomlItem& item);

/// An element, or the two of which each block takes the better one.
struct Elements {
  const ElementFormat* first = nullptr;
  const ElementFormat* other = nullptr;  ///< null: it is one
};
/// As read_element(), or the list that there is, kElementListExpected.
[[nodiscard]] Elements read_elements(const TomlItem& item);
[[nodiscard]] std::string print_elements(const Operand& operand);

/// A number or a list of them, each from 2^-16 to 2^16.
[[nodiscard]] Fits read_fits(const TomlItem& item);
/// One as a number; nothing of none.
[[nodiscard]] std::string print_fits(const Fits& fits);

/// "tensor", "row" or [r, c].
[[nodiscard]] Block read_block(const TomlItem& item);
/// The same, or c as only moments may have it.
[[nodiscard]] Block read_operand_block(const TomlItem& item);
/// The same of whole blocks, however many.
[[nodiscard]] Block read_tensor_block(const TomlItem& item);
[[nodiscard]] std::string print_block(const Block& block);

/// Of a stochastic rounding.
[[nodiscard]] int read_random_bits(const TomlItem& item);

}  // namespace ng
