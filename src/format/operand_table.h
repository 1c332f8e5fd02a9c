// THE TABLE of an operand's keys: one row each says what a key is called, what it may be, how it is
// read and printed, what it means and who has it. Recipes, describe(), the flags of `cast`, the
// installed library, Python and docs/keys.md follow from the rows.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/keys.h"
#include "format/operand.h"

namespace ng {

/// The operands that are an optimizer's states.
inline constexpr std::array<std::string_view, 2> kStateOperands = {"optimizer.moment1",
                                                                   "optimizer.moment2"};

/// What another key must say so that this one has an effect.
struct KeyNeed {
  std::string_view text;                     ///< scaling = "delayed"
  bool (*is_met)(const Operand&) = nullptr;  ///< null: it always has one
};

/// A flag of `cast`.
struct KeyFlag {
  int place = 0;               ///< in --help, from 1; 0: there is none
  std::string_view help = {};  ///< one line
  bool names_values = false;   ///< other values are refused at once, and --help lists them
};

struct OperandKeyUse {
  /// How words and TOML say a value: e8m0 and "e8m0", 8, 0.75, 1x32 and [1, 32], 6,4 and [6, 4].
  enum class Kind : uint8_t { name, integer, number, block, numbers, boolean };
  /// What of a cast it describes.
  enum class Part : uint8_t { element, scale, rounding };

  Kind kind = Kind::name;
  Part part = Part::element;
  std::vector<std::string_view> values = {};  ///< of a name; empty: they are not few
  std::string_view field = {};  ///< in the library and in Python; empty: these have none
  KeyFlag flag = {};
  KeyNeed need = {};
  std::vector<std::string_view> places = {};  ///< the operands that have it; empty: all
  bool is_told_by_value = false;  ///< describe() says "stochastic", not "rounding stochastic"
  std::function<void(Operand&)> forget = {};       ///< back to the default
  std::vector<std::string_view> list_places = {};  ///< where it may be a list; empty: everywhere
  KeyRow single = {};                              ///< the row of those where it may not
};

struct OperandKey : Key<Operand>, OperandKeyUse {
  [[nodiscard]] bool has_effect(const Operand& operand) const {
    return need.is_met == nullptr || need.is_met(operand);
  }
  /// Whether the operand at a path, which may begin with more, can say it.
  [[nodiscard]] bool is_of(std::string_view operand) const {
    return places.empty() || is_among(places, operand);
  }
  /// What it may be, and means, there.
  [[nodiscard]] const KeyRow& row_in(std::string_view operand) const {
    return list_places.empty() || is_among(list_places, operand) ? *this : single;
  }

 private:
  static bool is_among(const std::vector<std::string_view>& places, std::string_view operand) {
    return std::ranges::any_of(places,
                               [&](std::string_view place) { return operand.ends_with(place); });
  }
};

/// format, element, block, scale, ... in the order in which they are read, printed and hashed.
[[nodiscard]] const std::vector<OperandKey>& operand_keys();
/// Those that `cast` has a flag for, in the order of --help.
[[nodiscard]] std::vector<const OperandKey*> cast_flags();

/// The key's value as a command line has it: "e8m0", "1x32".
[[nodiscard]] std::string word_of(const OperandKey& key, const Operand& operand);
/// Such a word as TOML.
[[nodiscard]] std::string toml_of(const OperandKey& key, const std::string& word);

/// The keys with an effect in which two operands differ.
[[nodiscard]] std::vector<const OperandKey*> differences(const Operand& operand,
                                                         const Operand& from);

/// The format of recipes that an operand differs from in the fewest keys, where an element of
/// another kind (an integer in place of a float) counts twice; of equals one of its kind, then the
/// nearest in bits, then the first.
struct NearestFormat {
  std::string_view name;
  std::vector<const OperandKey*> differing;
};
[[nodiscard]] NearestFormat nearest_format(const Operand& operand);

/// Throws Error at the first number that its key would not read.
void check_numbers(const Operand& operand);

/// Keys without effect take their default, so that equal casts are equal operands.
void forget_unused(Operand& operand);

}  // namespace ng
