#include "recipe/output_keys.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "recipe/operand_keys.h"

namespace ng {
namespace {

/// The words among the values of an output.
constexpr std::pair<std::string_view, OutputKind> kOutputWords[] = {
    {"compute", OutputKind::compute}, {"bf16", OutputKind::bf16}, {"fp32", OutputKind::fp32}};

}  // namespace

void read_output(OutputNumbers& output, const TomlItem& item) {
  const std::optional<std::string_view> word = item.value->value<std::string_view>();
  const auto* const at = std::ranges::find(kOutputWords, word.value_or(""),
                                           &std::pair<std::string_view, OutputKind>::first);
  if (at != std::end(kOutputWords)) {
    output = {.kind = at->second};
    return;
  }
  change_operand(output.narrow, item);
  output.kind = OutputKind::narrow;
  for (const auto& [name, kind] : kOutputWords)  // a table that says no more than a word
    if (kind != OutputKind::compute && output.narrow == operand_of(name)) output = {.kind = kind};
}

std::string print_output(const OutputNumbers& output) {
  if (output.kind == OutputKind::narrow) return print_operand(output.narrow);
  return toml_quote(
      std::ranges::find(kOutputWords, output.kind, &std::pair<std::string_view, OutputKind>::second)
          ->first);
}

}  // namespace ng
