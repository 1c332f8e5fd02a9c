// The program: runs the command that the command line names, turns failures into one line and an
// exit code. 0 done, 1 failed, 2 wrong command line, 3 another rank was lost, 4 the time that it
// was given is over, 128 + signal after SIGINT, SIGTERM, SIGHUP, SIGUSR1.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "backend/backend.h"
#include "base/exit_codes.h"
#include "base/files.h"
#include "base/isa.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "comm/agreement.h"
#include "comm/launch.h"
#include "recipe/said_recipe.h"

namespace ng::cli {
namespace {

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

/// What a backend lacks is no defect: another has it.
std::string problem_of(const std::exception& failure) {
  if (dynamic_cast<const Unsupported*>(&failure) == nullptr) return failure_text(failure);
  return fmt::format("--backend: {}: another backend, or other numbers", failure.what());
}

/// Says a failure, one of all ranks once, and ends them. Returns the exit code.
int end_by(const std::exception& failure) {
  const int code = exit_code_of(failure);
  std::string problem = problem_of(failure);
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

/// Errors in what --set makes of a recipe, whose text nobody sees, name the setting.
int act(const Invocation& asked) {
  try {
    return asked.action();
  } catch (const SharedFailure& failure) {
    throw SharedFailure(at_setting(failure.parts(), asked.settings));
  } catch (const Error& error) {
    const Error::Parts parts = at_setting(error.parts(), asked.settings);
    if (parts.place == error.parts().place) throw;  // as the kind of error that it is
    throw Error(parts);
  }
}

int run(int argc, char** argv) {
  const std::optional<Invocation> invocation = parse_command_line(argc, argv);
  if (!invocation) return 0;
  force_isa(invocation->isa);
  if (!invocation->command->is_across_ranks) refuse_ranks(invocation->command->name);
  return act(*invocation);
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
