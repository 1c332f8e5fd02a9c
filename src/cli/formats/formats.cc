// narrowgauge formats [NAME]: the table of formats, the codes of one, and how numbers become them.
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/formats/block.h"
#include "cli/formats/rounding.h"
#include "cli/formats/table.h"
#include "format/cast_names.h"

namespace ng::cli {
namespace {

constexpr int kListedBits = 8;  // codes of such formats are listed without being asked for

struct FormatsArgs {
  std::string name;
  std::vector<std::string> values;
  std::string amax;
  bool is_named = false;
  bool element = false;
  bool codes = false;
  bool markdown = false;
  bool json = false;
};

void print_table(const FormatsArgs& args) {
  print_either(args.json, all_formats_json(),
               args.markdown ? all_formats_markdown() : all_formats_text());
}

void print_facts(const FormatsArgs& args, const ElementFormat& element, bool operand) {
  if (args.json) {
    Json facts = operand ? named_operand_json(args.name) : element_json(element);
    if (operand) facts["element_format"] = element_json(element);
    if (args.codes || element.bits <= kListedBits) add_codes(element, facts);
    print_json(facts);
    return;
  }
  std::string text = operand ? operand_text(args.name) : "";
  text += element_text(element);
  if (args.codes || element.bits <= kListedBits) text += '\n' + codes_text(element);
  write_output(text);
}

void print_roundings(const FormatsArgs& args, const ElementFormat& element) {
  Json json = {{"name", element.name}, {"values", Json::array()}};
  std::string text;
  for (const std::string& typed : args.values) {
    const RoundingSteps steps = rounding_steps(element, parse_value(typed));
    json["values"].push_back(cli::json_of(typed, steps));
    text += (text.empty() ? "" : "\n") + cli::text_of(typed, steps);
  }
  print_either(args.json, json, text);
}

void print_block(const FormatsArgs& args) {
  const BlockSteps steps = block_steps(args.name, args.values, args.amax);
  print_either(args.json, json_of(steps), text_of(steps));
}

std::vector<std::string> values_in(const std::vector<std::string>& lists) {
  std::vector<std::string> values;
  for (const std::string& list : lists)
    for (std::string& value : split_at_commas(list)) values.push_back(std::move(value));
  return values;
}

void formats(FormatsArgs args) {
  args.values = values_in(args.values);
  if (!args.is_named) return print_table(args);
  const bool named = is_operand_name(args.name);
  const bool operand = named && !args.element;
  const ElementFormat& element = named ? *operand_of(args.name).element : known_element(args.name);
  if (args.values.empty()) return print_facts(args, element, operand);
  const bool affine = is_affine_element(element) && !args.element;
  if (affine || (operand && !operand_of(args.name).is_unscaled())) return print_block(args);
  if (!args.amax.empty())
    refuse("--amax", fmt::format("{} has no scale", args.name),
           "leave it out, or name a format with scales");
  print_roundings(args, element);
}

void declare_formats(Flags flags, FormatsArgs& args) {
  const Flag name =
      flags.option("NAME", args.name, "one format: mxfp4, fp8_e4m3, e2m1, float8_e5m2, ...");
  flags
      .option("--value X", args.values,
              "show how this number is rounded (needs NAME): 0.78, 0x1.8p-3, inf, nan; several "
              "with commas or --value again: one block of a format with scales")
      .repeats();
  flags.option("--amax A", args.amax,
               "largest magnitude of the tensor the values are taken from (nvfp4, fp8, int)");
  flags.flag("--element", args.element, "of a format with scales the element alone (needs NAME)");
  flags.flag("--codes", args.codes, "every code (needs NAME; shown anyway up to 8 bits)");
  const Flag markdown = flags.flag("--markdown", args.markdown, "the table as Markdown");
  flags.flag("--json", args.json, "print one JSON object").excludes(markdown);
  flags.check([&args, name] {
    args.is_named = name.is_given();
    if (args.is_named && args.markdown)
      throw WrongFlags("--markdown prints the table of all formats: without NAME");
    if (args.is_named) return;
    if (args.element) throw WrongFlags::missing("NAME with --element");
    if (args.codes) throw WrongFlags::missing("NAME with --codes");
    if (!args.values.empty()) throw WrongFlags::missing("NAME with --value");
    if (!args.amax.empty()) throw WrongFlags::missing("NAME with --amax");
  });
}

}  // namespace

const Command kFormats{"formats", "the number formats; one format's codes; how it rounds a number",
                       with_flags<FormatsArgs, declare_formats, formats>};

}  // namespace ng::cli
