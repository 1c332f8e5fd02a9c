// Elements that a user makes up by naming them: any sign, X exponent and Y mantissa bits.
#pragma once

#include <string_view>

#include "format/table.h"

namespace ng {

/// What a made-up name looks like, for error messages and help.
inline constexpr std::string_view kExmyNames =
    "eXmY, eXmYfn or eXmYfnuz with X in 1 ... 8 and 1 + X + Y <= 16";

/// The format that `name` spells, of static storage; null where it does not spell one. Throws Error
/// where it does, but there is no such format, or none whose values FP32 holds. Names of the table
/// go before: callers want find_element_format.
///
/// Spellings: "e3m3", "e5m4fn", "e4m2fnuz", "e3m2_ieee", and as in ml_dtypes with the number of
/// bits in front: "float7_e3m3". [formats.md §1.1]
///   no ending, _ieee  bias 2^(X-1) - 1; exponent all ones: Inf (mantissa 0, also where Y = 0),
///                     else NaN
///   fn                the same bias, no infinities; all ones is NaN, but of at most 6 bits every
///                     code is a number
///   fnuz              bias 2^(X-1), no infinities, no -0: its code is NaN
/// With Y = 0 the numbers are powers of two, and nearest-even ties go up: n = 1 is odd. [§2.1]
/// A format that is a row of the table is that row. Short names mean what they mean in the table
/// (e4m3 has no infinities), so the IEEE-like one of those bits is called eXmY_ieee.
[[nodiscard]] const ElementFormat* exmy_format(std::string_view name);

}  // namespace ng
