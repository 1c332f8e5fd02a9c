// The table of formats as text, as Markdown and as JSON; the facts of one format.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "format/operand.h"

namespace ng::cli {

/// Everything that follows from one row of the table of elements.
[[nodiscard]] Json element_json(const ElementFormat& format);
/// An element and its scales: its parts, and those of one that has a name.
[[nodiscard]] Json operand_json(const Operand& operand);
[[nodiscard]] Json named_operand_json(std::string_view name);
[[nodiscard]] Json all_formats_json();

/// Both tables, aligned for a terminal.
[[nodiscard]] std::string all_formats_text();
/// Both tables as docs/formats.md has them.
[[nodiscard]] std::string all_formats_markdown();

/// What one element format is, in lines.
[[nodiscard]] std::string element_text(const ElementFormat& format);
/// What an element with scales is, in lines; its element follows.
[[nodiscard]] std::string operand_text(std::string_view name);

/// Every code: its value, the values below and above, the distance to the latter, what it is.
/// At most 16 bits. Negative codes stand beside the positive ones.
[[nodiscard]] std::string codes_text(const ElementFormat& format);
/// "codes": the values in order of the codes; "code_facts": an object for each.
void add_codes(const ElementFormat& format, Json& facts);

}  // namespace ng::cli
