#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "base/isa.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/output.h"
#include "cli/shared_flags.h"

namespace ng::cli {
namespace {

constexpr const char* kFooter =
    "Start with: narrowgauge train examples/quickstart.toml\n"
    "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 another rank was lost,\n"
    "4 compare or recipes search has runs left when --hours are over,\n"
    "128 + n stopped by signal n.";

/// What is wrong with a list "A,B,C" of the command line: nothing between two commas or at an end,
/// which CLI11 would leave out without a word. Empty: all lists are whole.
std::string list_with_a_hole(const CLI::App& app, int argc, char** argv) {
  const auto has_hole = [](std::string_view list) {
    const std::vector<std::string> entries = split_at_commas(list);
    return std::any_of(entries.begin(), entries.end(), [](const auto& e) { return e.empty(); });
  };
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_delimiter() != ',') continue;
    const std::string flag = option->get_name();
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const bool joined = word.starts_with(flag + "=");
      if (!joined && (word != flag || i + 1 == argc)) continue;
      const std::string_view list = joined ? word.substr(flag.size() + 1) : argv[i + 1];
      if (has_hole(list)) return fmt::format("{}: \"{}\" has an empty entry", flag, list);
    }
  }
  return "";
}

/// The command line's vocabulary and what was found of it.
struct Program {
  CLI::App app{"NarrowGauge trains language models whose matrix products run on narrow numbers.",
               "narrowgauge"};
  std::string isa = "auto";
  std::vector<std::function<int()>> actions;
  std::vector<CLI::App*> subcommands;
};

/// An empty argument names nothing: a shell makes one of a variable that is not set.
void refuse_empty(CLI::App& app) {
  const CLI::Validator refuses([](std::string& text) { return not_empty(text); }, "");
  for (CLI::Option* option : app.get_options())
    if (option->get_name() != "FILES" && option->get_name() != "--prompt")  // say so themselves
      option->transform(refuses);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    refuse_empty(*command);
}

void declare(Program& program) {
  const auto add_isa = [&](CLI::App& app) {
    app.add_option("--isa", program.isa, "instruction set: " + isa_names() + " or auto")
        ->type_name("NAME");
  };
  program.app.set_version_flag("--version", fmt::format("narrowgauge {}", version()));
  program.app.footer(kFooter);
  program.app.require_subcommand(0, 1);
  add_isa(program.app);
  for (const Command& command : commands()) {
    CLI::App* app =
        program.app.add_subcommand(std::string(command.name), std::string(command.summary));
    program.actions.push_back(command.declare(Flags(*app)));
    add_isa(*app);
    program.subcommands.push_back(app);
  }
  refuse_empty(program.app);
}

/// Long names of an app's flags.
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// The command, or command of a command, that the command line named last.
const CLI::App& innermost(const CLI::App& app) {
  const auto used = app.get_subcommands();
  return used.empty() ? app : innermost(*used.front());
}

/// Names of the commands that an app has.
std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// "narrowgauge bench step --help"
std::string help_of(const CLI::App& app) {
  std::string words = app.get_name();
  for (auto used = app.get_subcommands(); !used.empty(); used = used.front()->get_subcommands())
    words += ' ' + used.front()->get_name();
  return words + " --help";
}

/// What is wrong with the first argument that no command or flag takes.
std::string about_unexpected(const Program& program, const std::string& argument) {
  const CLI::App& app = innermost(program.app);
  const std::string help = help_of(program.app);
  if (argument.starts_with("-")) {
    const std::vector<std::string> flags = flags_of(app);
    const std::string name = argument.substr(0, argument.find('='));
    return fmt::format("{}: unknown flag: {}see {}", name, did_you_mean(name, flags), help);
  }
  const std::vector<std::string> names = commands_of(app);
  if (names.empty()) return fmt::format("\"{}\": one argument too many: see {}", argument, help);
  return fmt::format("\"{}\": unknown command: {}see {}", argument, did_you_mean(argument, names),
                     help);
}

/// Reads the command line. Returns whether there is something left to do. Throws WrongCommandLine.
bool parse(Program& program, int argc, char** argv) {
  const auto wrong = [&](const std::string& what) {
    return WrongCommandLine(fmt::format("{}: see {}", what, help_of(program.app)));
  };
  try {
    program.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print("{}", program.app.help());
    return false;
  } catch (const CLI::CallForVersion& version) {
    print("{}\n", version.what());
    return false;
  } catch (const CLI::ExtrasError& error) {
    const std::vector<std::string> rest = program.app.remaining(true);
    throw WrongCommandLine(rest.empty() ? error.what() : about_unexpected(program, rest.front()));
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> rest = program.app.remaining(true);
    if (!rest.empty() && !commands_of(innermost(program.app)).empty())
      throw WrongCommandLine(about_unexpected(program, rest.front()));
    throw wrong(error.what());
  } catch (const CLI::ParseError& error) {
    throw wrong(error.what());
  } catch (const WrongFlags& error) {
    throw wrong(error.what());
  }
  if (const std::string hole = list_with_a_hole(innermost(program.app), argc, argv); !hole.empty())
    throw wrong(hole);
  if (program.app.get_subcommands().empty())
    throw WrongCommandLine("a command is missing: one of those that narrowgauge --help lists");
  return true;
}

}  // namespace

std::optional<Invocation> parse_command_line(int argc, char** argv) {
  const auto program = std::make_shared<Program>();  // lives as long as what its commands do
  declare(*program);
  if (!parse(*program, argc, argv)) return {};
  size_t named = 0;
  while (!program->subcommands[named]->parsed()) ++named;
  const CLI::Option* const set = innermost(program->app).get_option_no_throw("--set");
  return Invocation{.command = &commands()[named],
                    .action = [program, named] { return program->actions[named](); },
                    .isa = program->isa,
                    .settings = set == nullptr ? std::vector<std::string>() : set->results()};
}

}  // namespace ng::cli
