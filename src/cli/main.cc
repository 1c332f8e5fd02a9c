// The program: reads the command line, runs a command, turns failures into one line and an exit
// code. 0 done, 1 failed, 2 wrong command line, 3 another rank was lost, 128 + signal after SIGINT,
// SIGTERM, SIGHUP, SIGUSR1.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <thread>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/files.h"
#include "base/isa.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "comm/agreement.h"
#include "comm/launch.h"

namespace ng::cli {
namespace {

constexpr const char* kFooter =
    "Start with: narrowgauge train examples/quickstart.toml\n"
    "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 another rank was lost,\n"
    "128 + n stopped by signal n.";

class WrongCommandLine : public Error {
 public:
  explicit WrongCommandLine(const std::string& what)
      : Error({.place = "", .key = "", .problem = what, .remedy = ""}) {}
};

int exit_code_of(const std::exception& failure) {
  if (dynamic_cast<const WrongCommandLine*>(&failure) != nullptr) return kWrongCommandLine;
  if (dynamic_cast<const LostRank*>(&failure) != nullptr) return kLostRank;
  return kFailed;
}

void complain(std::string_view what) {
  write_error(fmt::format("narrowgauge: {}\n", on_one_line(what)));
}

/// Of ranks that have met, and one has failed where the others could not be asked. Where they fail
/// alike, of memory or a full disk, the first says it and ends the others before they do, for which
/// mpirun takes a second.
void complain_for_this_rank(std::string_view what) {
  const Launch started = launch();
  if (started.rank != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(2500 + 100 * std::min(started.rank, 40)));
  complain(started.ranks == 1 ? std::string(what) : fmt::format("rank {}: {}", started.rank, what));
}

/// Says a failure, one of all ranks once, and ends them. Returns the exit code.
int end_by(const std::exception& failure) {
  const int code = exit_code_of(failure);
  std::string problem = failure_text(failure);
  bool is_of_all = dynamic_cast<const SharedFailure*>(&failure) != nullptr;
  if (!is_of_all && !has_met()) {
    problem = failure_of_all(problem);
    is_of_all = true;
  }
  if (!is_of_all) {
    complain_for_this_rank(problem);
    abort_world(code);
    return code;
  }
  if (launch().rank == 0) complain(problem);
  try {
    leave_world();
  } catch (const LostRank&) {  // it is said
    abort_world(code);
  }
  return code;
}

/// Where nothing can catch a failure: before main(), or for want of memory to report one.
[[noreturn]] void end_in_one_line() {
  std::string_view what = kNoMemory;
  try {
    if (const std::exception_ptr failure = std::current_exception())
      std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
  } catch (...) {
    what = "a defect of the program, please report it: nothing caught a failure";
  }
  for (const std::string_view part :
       {std::string_view("narrowgauge: "), what, std::string_view("\n")})
    write_error(part);
  unlink_temporaries();
  ::_exit(kFailed);
}

/// Before anything is made: libraries, and the tables of all folders, may find no memory.
void end_in_one_line_from_now_on() { std::set_terminate(end_in_one_line); }
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const kBeforeAll)() = end_in_one_line_from_now_on;

/// Nothing that is opened later may be taken for a standard stream that is closed: notes would go
/// into it. Writing to one of these fails, as to a closed one.
void fill_closed_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (::fcntl(stream, F_GETFD) < 0)
      (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/// What all ranks would print, rank 0 prints.
void print_on_rank_0_only() {
  if (launch().rank == 0) return;
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
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
    program.actions.push_back(command.declare(*app));
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
    throw WrongCommandLine(fmt::format("{}: see {}", error.what(), help_of(program.app)));
  } catch (const CLI::ParseError& error) {
    throw WrongCommandLine(fmt::format("{}: see {}", error.what(), help_of(program.app)));
  }
  if (const std::string hole = list_with_a_hole(innermost(program.app), argc, argv); !hole.empty())
    throw WrongCommandLine(fmt::format("{}: see {}", hole, help_of(program.app)));
  if (program.app.get_subcommands().empty())
    throw WrongCommandLine("a command is missing: one of those that narrowgauge --help lists");
  return true;
}

int run(int argc, char** argv) {
  Program program;
  declare(program);
  if (!parse(program, argc, argv)) return 0;
  force_isa(program.isa);
  for (size_t i = 0; i < program.subcommands.size(); ++i) {
    if (!program.subcommands[i]->parsed()) continue;
    if (!commands()[i].is_across_ranks) refuse_ranks(commands()[i].name);
    return program.actions[i]();
  }
  return 0;
}

}  // namespace
}  // namespace ng::cli

int main(int argc, char** argv) {
  try {
    ng::cli::fill_closed_streams();
    ng::cli::print_on_rank_0_only();
    ng::cli::exit_at_signals();
    const int code = ng::cli::run(argc, argv);
    ng::cli::finish_output();
    ng::leave_world();
    return code;
  } catch (const std::exception& error) {
    return ng::cli::end_by(error);
  }
}
