// narrowgauge train RUN.toml: from a run file to a model folder.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/exit_codes.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/runs/train_screen.h"
#include "cli/shared_flags.h"
#include "comm/agreement.h"
#include "comm/launch.h"
#include "comm/watchdog.h"
#include "report/reporter.h"
#include "train/run_plan.h"

namespace ng::cli {
namespace {

// The same command line with --resume and --out, as a shell takes it. Empty under a supervisor,
// which says its own.
std::string resume_command(const TrainFlags& args, const std::string& out, int ranks) {
  if (std::getenv(kSupervised) != nullptr) return "";
  std::vector<std::string> words = args.run.words();
  words.insert(words.begin(), "train");
  words.insert(words.end(), {"--out", out, "--resume"});
  return (ranks > 1 ? fmt::format("{} -n {} ", launch().starter, ranks) : "") +
         shell_command(words);
}

// The folder where none is named is what rank 0 finds: the others may come too late.
std::string folder_of(const TrainFlags& args, Comm& comm) {
  require_same(comm, "--out", args.out);
  require_same(comm, "--resume", args.resume ? "given" : "left out");
  return text_of(comm, 0, comm.rank() == 0 ? args.folder() : "");
}

// A rank that waits too long says where, leaves the others the time to do so, and ends them all.
std::unique_ptr<Watchdog> watch(const Comm& comm, const RunConfig& config) {
  const std::chrono::seconds limit(config.train.watchdog);
  if (comm.ranks() == 1 || limit.count() == 0) return nullptr;
  return std::make_unique<Watchdog>(comm, limit, [](const std::string& where) {
    write_error(
        fmt::format("narrowgauge: {}: a rank that says nothing is stopped, or out of reach: "
                    "--resume once it is back, or with fewer\n",
                    where));
    std::this_thread::sleep_for(std::chrono::seconds(2));
    abort_world(kLostRank);
  });
}

/// What train takes beside what starts it for several ranks.
struct TrainArgs : TrainFlags {
  bool plans = false;
};

int print_plan(const TrainArgs& args, const RunConfig& config, Comm& comm) {
  const Json plan = run_plan(config, &comm, args.resume ? folder_of(args, comm) : "");
  if (comm.rank() == 0) print_json(plan);
  return 0;
}

int train(const TrainArgs& args) {
  const RunConfig config = args.run.load();
  Comm& comm = world();
  if (args.plans) return print_plan(args, config, comm);
  const std::string out = folder_of(args, comm);
  ::signal(SIGPIPE, SIG_IGN);  // a closed pipe is no reason to lose the run
  const std::unique_ptr<Watchdog> watchdog = watch(comm, config);
  const SessionOptions options{.out = out,
                               .resume = args.resume,
                               .takes_other_recipe = !args.run.recipe.empty(),
                               .stop = &StopAtSignals::flag(),
                               .comm = &comm};
  if (comm.rank() != 0) {  // rank 0 speaks for all
    SessionObserver silent;
    Session session(config, options, silent);
    const StopAtSignals signals;
    (void)session.train();
    return 0;
  }
  TrainScreen screen(args.verbose);
  report::RunReporter reporter(screen);
  Session session(config, options, reporter);
  const StopAtSignals signals;  // texts may take long to open, and nothing was written meanwhile
  session.take_folder();
  screen.begin(session, out);
  const SessionResult result = session.train();
  if (result.interrupted) {
    screen.interrupted(result, resume_command(args, out, comm.ranks()));
    return signals.exit_code();
  }
  screen.end(session, result, out);
  screen.require_written();
  return 0;
}

constexpr const char* kTrainFooter =
    "Writes run.toml, metrics.jsonl, report.html (a page with pictures, rewritten while the run\n"
    "goes on), events for TensorBoard, checkpoints/ and model/ (Hugging Face layout).\n"
    "A line's loss is the mean over its step's targets before the update, in nats per token, its\n"
    "tokens/s are a moving average over some 20 steps.\n"
    "Ctrl-C finishes the step and writes a checkpoint; a second one ends at once.\n"
    "--resume with --recipe NAME goes on in the numbers of another recipe.\n\n"
    "mpirun -n N narrowgauge train ... trains on N ranks: each takes train.accumulate\n"
    "micro-batches of a step, with --threads threads of its own, and rank 0 writes. More or\n"
    "fewer ranks share the same micro-batches with --resume. Ctrl-C leaves ranks a second until\n"
    "mpirun kills them; kill -USR1 to mpirun lets them finish the step and write a checkpoint.\n"
    "narrowgauge supervise starts mpirun, and goes on where a rank is lost.\n\n"
    "narrowgauge keys lists what a run file may say, keys KEY what a key means.";

void declare_train(Flags flags, TrainArgs& args) {
  args.declare(flags);
  flags.flag("--json-plan", args.plans,
             "print what the run would read and match, and do, as JSON; train and write nothing");
  flags.footer(kTrainFooter);
}

}  // namespace

const Command kTrain{"train", "train a model as a run file says",
                     with_flags<TrainArgs, declare_train, train>, true};

}  // namespace ng::cli
