// How the rows of operand_keys() are written down.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/operand_table.h"

namespace ng {

template <class Enum>
Choices<Enum> named_choices(std::span<const Enum> values) {
  Choices<Enum> choices;
  for (const Enum value : values) choices.items.emplace_back(name_of(value), value);
  return choices;
}

template <class Member>
auto member_of(Member Operand::*member) {
  return [member](auto& o) -> auto& { return o.*member; };
}

/// The rows in the making; each has a member of Operand.
struct OperandRows {
  std::vector<OperandKey> keys;

  template <class Member>
  void add(Member Operand::*member, Key<Operand> key, OperandKeyUse use) {
    use.forget = [member](Operand& o) { o.*member = Operand{}.*member; };
    keys.push_back({std::move(key), std::move(use)});
  }

  template <class Enum>
  void choice(const char* path, Enum Operand::*member, const Choices<Enum>& choices,
              const char* doc, OperandKeyUse use) {
    use.values = choices.names();
    add(member, choice_key<Operand>(path, member_of(member), choices, doc), std::move(use));
  }
  void integer(const char* path, int Operand::*member, IntegerRange range, const char* doc,
               OperandKeyUse use) {
    use.kind = OperandKeyUse::Kind::integer;
    add(member, integer_key<Operand>(path, member_of(member), range, doc), std::move(use));
  }
  void number(const char* path, float Operand::*member, NumberRange range, const char* doc,
              OperandKeyUse use) {
    use.kind = OperandKeyUse::Kind::number;
    add(member, number_key<Operand>(path, member_of(member), range, doc), std::move(use));
  }
  /// Of the newest row.
  void equation(const char* text) { keys.back().equation = text; }
  void beside(const char* keys_beside) { keys.back().beside = keys_beside; }
  /// read(item) is a Member, print(member) its text.
  template <class Member, class Read, class Print>
  void own(KeyRow row, Member Operand::*member, const Read& read, const Print& print,
           OperandKeyUse use) {
    add(member,
        {std::move(row), [=](Operand& o, const TomlItem& item) { o.*member = read(item); },
         [=](const Operand& o) { return print(o.*member); }},
        std::move(use));
  }
};

/// The rows of optimizers' states. [linear.md 9]
void add_state_keys(OperandRows& rows);

}  // namespace ng
