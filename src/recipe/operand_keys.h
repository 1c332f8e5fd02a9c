// Operands of a recipe as TOML: read, checked and printed by the table of their keys. [recipes.md
// §7]
#pragma once

#include "format/operand_table.h"
#include "format/operand_values.h"

namespace ng {

/// Reads an operand: a format name or a table with `format` replaces what was there, a table
/// without it changes only the keys it names. Throws Error where the result makes no sense.
void read_operand(Operand& operand, const TomlItem& item);

/// The same, but a table without `format`, whose sense depends on what was there, is not checked.
void change_operand(Operand& operand, const TomlItem& item);

/// The shortest TOML that reads back as this operand: the nearest format and what differs from it.
[[nodiscard]] std::string print_operand(const Operand& operand);

/// All that differs from FP32, no format's name in it: the same text whatever formats have names.
[[nodiscard]] std::string print_without_format(const Operand& operand);

/// What a key means by its row in an operand, and what it needs to have an effect.
[[nodiscard]] std::string meaning_of(const OperandKey& key, const KeyRow& row);

/// A row whose value is an operand, read by change_operand().
template <class T, class Get>
Key<T> operand_key(std::string path, Get get, std::string doc) {
  return {{.path = std::move(path),
           .expected = "a format name or a table of operand keys",
           .doc = std::move(doc),
           .takes_table = true,
           .type = kOperandType,
           .example = "\"mxfp4\""},
          [=](T& t, const TomlItem& item) { change_operand(get(t), item); },
          [=](const T& t) { return print_operand(get(t)); }};
}

}  // namespace ng
