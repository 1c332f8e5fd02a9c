// narrowgauge supervise RUN.toml: starts train by mpirun, and again where ranks or hosts are lost.
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>

#include "base/exit_codes.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/runs/child.h"
#include "cli/shared_flags.h"
#include "comm/hosts.h"
#include "io/checkpoint_files.h"
#include "train/global_batch.h"
#include "train/run_files.h"
#include "train/supervision.h"

namespace ng::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLook{100};
// A rank that fails says so and ends the others at once. mpirun waits for hosts that are out of
// reach for ever: it has so long to end, then so long after SIGTERM.
constexpr seconds kToEnd{10}, kToEndAtSigterm{5};
constexpr seconds kToAnswer{20};  // a host, by starting a program there
constexpr int kMostRanks = 1 << 16;
constexpr size_t kMaxHostfileBytes = 1 << 24;

struct SuperviseArgs {
  TrainFlags train;
  int ranks = 0, min_ranks = 1, max_restarts = 4;
  std::string hostfile, mpirun = "mpirun";
  std::vector<std::string> isa;  ///< {"--isa", NAME} where it is given
};

void say(const std::string& sentence) {
  write_error(fmt::format("narrowgauge: supervise: {}\n", on_one_line(sentence)));
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

class Supervisor {
 public:
  explicit Supervisor(const SuperviseArgs& args);
  /// Runs jobs until one ends the run. The exit code.
  int run();

 private:
  [[nodiscard]] bool is_to_stop() const { return signals_.flag(); }
  [[nodiscard]] std::string metrics() const { return join_path(out_, kMetricsFile); }
  [[nodiscard]] int64_t saved_step() const;
  [[nodiscard]] std::vector<std::string> starter() const;
  [[nodiscard]] std::vector<std::string> job_of(int ranks, bool resume) const;
  [[nodiscard]] std::string command_to_go_on() const;
  [[nodiscard]] JobEnd run_job(const std::vector<std::string>& command);
  [[nodiscard]] int slots() const;
  void look_for_hosts();
  [[nodiscard]] std::string hosts_text() const;
  [[nodiscard]] int ranks_after(const JobEnd& end, int ranks);
  [[nodiscard]] int stopped(int code) const;

  SuperviseArgs args_;
  RunConfig config_;
  std::string out_;
  std::vector<Host> hosts_, answering_;  // none without a file of hosts
  int64_t micros_ = 0;
  std::optional<RanksLeft> left_;
  FailuresInARow failures_;
  bool has_trained_ = false;
  StopAtSignals signals_;
};

Supervisor::Supervisor(const SuperviseArgs& args)
    : args_(args),
      config_(args.train.run.load()),
      out_(args.train.folder()),
      failures_(args.max_restarts) {
  if (!args.hostfile.empty())
    hosts_ = parse_hosts(read_file(args.hostfile, kMaxHostfileBytes), args.hostfile);
  answering_ = hosts_;
  const int slots = slots_of(hosts_);
  if (args_.ranks == 0) args_.ranks = slots;
  if (!hosts_.empty() && args_.ranks > slots)
    refuse("--ranks",
           fmt::format("{}, but {} has {}", args_.ranks, args.hostfile, counted(slots, "slot")),
           "no more than those");
  if (args_.min_ranks > args_.ranks)
    refuse("--min-ranks", std::to_string(args_.min_ranks),
           fmt::format("at most the {} to start with", args_.ranks));
  micros_ = args_.ranks * config_.train.accumulate;
  if (args.train.resume)
    micros_ = saved_micros(join_path(out_, kCheckpointsFolder)).value_or(micros_);
  left_.emplace(micros_, args_.ranks, args_.min_ranks, "--min-ranks");
}

int Supervisor::slots() const { return hosts_.empty() ? args_.ranks : slots_of(answering_); }

// 0 where there is none yet.
int64_t Supervisor::saved_step() const {
  const auto saved = io::list_checkpoints(join_path(out_, kCheckpointsFolder));
  return saved.empty() ? 0 : saved.front().step;
}

std::vector<std::string> Supervisor::starter() const { return words_of(args_.mpirun); }

std::vector<std::string> Supervisor::job_of(int ranks, bool resume) const {
  std::vector<std::string> words = starter();
  const auto add = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (!hosts_.empty()) add({"--host", host_list(answering_, ranks)});
  add({"-n", std::to_string(ranks), fs::read_symlink("/proc/self/exe").string(), "train"});
  add(args_.isa);
  add(args_.train.run.words());
  if (const int64_t mine = micros_ / ranks; mine != config_.train.accumulate)
    add({"--set", fmt::format("train.accumulate={}", mine)});
  add({"--out", out_});
  if (resume) add({"--resume"});
  if (args_.train.verbose) add({"--verbose"});
  return words;
}

std::string Supervisor::command_to_go_on() const {
  std::vector<std::string> words = {"supervise"};
  const auto add = [&](const std::string& flag, const std::string& value, bool given) {
    if (given) words.insert(words.end(), {flag, value});
  };
  add("--ranks", std::to_string(args_.ranks), true);
  add("--hostfile", args_.hostfile, !args_.hostfile.empty());
  add("--min-ranks", std::to_string(args_.min_ranks), args_.min_ranks != 1);
  add("--max-restarts", std::to_string(args_.max_restarts),
      args_.max_restarts != SuperviseArgs{}.max_restarts);
  add("--mpirun", args_.mpirun, args_.mpirun != SuperviseArgs{}.mpirun);
  words.insert(words.end(), args_.isa.begin(), args_.isa.end());
  const std::vector<std::string> run = args_.train.run.words();
  words.insert(words.end(), run.begin(), run.end());
  words.insert(words.end(), {"--out", out_, "--resume"});
  return shell_command(words);
}

// Whether a job in which a rank failed takes too long to end; then it is ended.
bool hurry(const Child& job) {
  if (!job.said()) return false;
  const auto since = std::chrono::steady_clock::now() - *job.said();
  if (since < kToEnd) return false;
  job.send(since < kToEnd + kToEndAtSigterm ? SIGTERM : SIGKILL);
  return true;
}

// A wish to stop goes on to the ranks by the signal that mpirun hands to them without ending them.
JobEnd Supervisor::run_job(const std::vector<std::string>& command) {
  std::error_code missing;
  const auto before = fs::last_write_time(metrics(), missing);
  Child job(command, Child::Output::shown);
  bool has_heard = false, hangs = false;
  std::optional<Child::End> end;
  while (!(end = job.wait(kLook))) {
    if (is_to_stop() && !std::exchange(has_heard, true)) job.send(SIGUSR1);
    hangs = hurry(job) || hangs;
  }
  end_children();
  has_trained_ = has_trained_ || fs::last_write_time(metrics(), missing) != before;
  return {.code = hangs ? kLostRank : end->code,
          .was_killed = end->was_killed && !hangs,
          .said = job.said().has_value(),
          .has_trained = has_trained_};
}

// A host answers where mpirun can start a program there.
void Supervisor::look_for_hosts() {
  std::vector<std::unique_ptr<Child>> trials;
  for (const Host& host : hosts_) {
    std::vector<std::string> words = starter();
    words.insert(words.end(), {"--host", host.name + ":1", "-n", "1", "true"});
    trials.push_back(std::make_unique<Child>(words, Child::Output::dropped));
  }
  answering_.clear();
  const auto until = std::chrono::steady_clock::now() + kToAnswer;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    std::optional<Child::End> end;
    do end = trials[i]->wait(kLook);
    while (!end && !is_to_stop() && std::chrono::steady_clock::now() < until);
    if (end && end->code == 0) answering_.push_back(hosts_[i]);
  }
  trials.clear();
  end_children();
}

// "ngn3 does not answer; ", or nothing where all do.
std::string Supervisor::hosts_text() const {
  std::vector<std::string> silent;
  for (const Host& host : hosts_)
    if (std::find(answering_.begin(), answering_.end(), host) == answering_.end())
      silent.push_back(host.name);
  if (silent.empty()) return "";
  return fmt::format("{} {} not answer; ", fmt::join(silent, ", "),
                     silent.size() == 1 ? "does" : "do");
}

// How many to go on with after a job of `ranks` was lost, if nobody asks us to stop meanwhile.
// Throws Error where the run ends here.
int Supervisor::ranks_after(const JobEnd& end, int ranks) {
  const int64_t step = saved_step();
  const auto give_up = [&](const std::string& why) {
    refuse("supervise", text_of(end) + "; " + why,
           "to go on from step " + std::to_string(step) + ": " + command_to_go_on());
  };
  if (failures_.are_too_many(step))
    give_up(
        fmt::format("that is failure {} in a row without a newer checkpoint", failures_.count()));
  look_for_hosts();
  if (is_to_stop()) return ranks;
  left_->lose(ranks, slots());
  const std::optional<int> next = left_->next(slots());
  if (!next)
    give_up(fmt::format("{}the others have {}, too few for --min-ranks {}", hosts_text(),
                        counted(slots(), "slot"), args_.min_ranks));
  say(fmt::format("{}; {}going on from step {} with {}, each with {} of a step", text_of(end),
                  hosts_text(), step, counted(*next, "rank"),
                  counted(micros_ / *next, "micro-batch")));
  return *next;
}

// The exit code of a run that somebody asked to stop: us, or the ranks, which ended with `code`.
int Supervisor::stopped(int code) const {
  write_error(
      fmt::format("narrowgauge: supervise: stopped; to go on:\n  {}\n", command_to_go_on()));
  return is_to_stop() ? signals_.exit_code() : code;
}

int Supervisor::run() {
  int ranks = *left_->next(slots());
  if (ranks != args_.ranks)
    say(fmt::format("starting {}: {} cannot share the {} of a step equally", counted(ranks, "rank"),
                    args_.ranks, counted(micros_, "micro-batch")));
  for (bool resume = args_.train.resume;; resume = true) {
    const JobEnd end = run_job(job_of(ranks, resume));
    const Verdict verdict = verdict_on(end);
    if (verdict == Verdict::done) return 0;
    if (is_to_stop() || verdict == Verdict::stopped) return stopped(end.code);
    if (verdict == Verdict::failed) {
      say("not started again: it would fail as before");
      return end.code;
    }
    ranks = ranks_after(end, ranks);
    if (is_to_stop()) return stopped(end.code);
  }
}

// Whether it can be started as jobs will be.
bool is_there(const std::string& program) {
  Child trial({program, "--version"}, Child::Output::dropped);
  std::optional<Child::End> end;
  while (!end) end = trial.wait(milliseconds(10));
  return end->code != kNotStarted;
}

void require_starter(const std::string& mpirun) {
  const std::vector<std::string> words = words_of(mpirun);
  if (!words.empty() && is_there(words.front())) return;
  refuse("--mpirun", "\"" + mpirun + "\": no such program",
         "Open MPI's, Debian's package openmpi-bin");
}

int supervise(const SuperviseArgs& args) {
  require_starter(args.mpirun);
  adopt_orphans();
  ::setenv(kSupervised, "1", 1);
  return Supervisor(args).run();
}

constexpr const char* kHelp =
    "Starts mpirun -n N narrowgauge train RUN ... and waits. Where a rank or a host is lost it\n"
    "says so and starts train again with --resume, at the same global batch:\n"
    "  on one machine with one rank fewer, but with --min-ranks at least (so --ranks 4\n"
    "    --min-ranks 4 always starts four);\n"
    "  with --hostfile on the hosts that answer; one rank fewer where all do;\n"
    "  of those with the most that can share the micro-batches of a step equally.\n"
    "What the program itself refuses is not started again: its exit code stays. Ctrl-C goes on\n"
    "to the ranks, which finish the step and write a checkpoint; a second one ends all at once.\n"
    "Parameters of Open MPI may stand in the environment (OMPI_MCA_plm_rsh_agent=...).";

void declare_supervise(Flags flags, SuperviseArgs& args) {
  const auto add_count = [&](const char* names, int& count, int least, const char* what) {
    return flags.option(names, count, what).range(least, kMostRanks);
  };
  add_count("-n,--ranks N", args.ranks, 1, "ranks to start; else all slots of --hostfile");
  flags.option("--hostfile FILE", args.hostfile,
               "hosts, one to a line: NAME slots=N; N is 1 where it is not given");
  add_count("--min-ranks N", args.min_ranks, 1, "fewest ranks to go on with (1)");
  add_count("--max-restarts N", args.max_restarts, 0,
            "restarts in a row without a newer checkpoint before it gives up (4)");
  flags.option("--mpirun COMMAND", args.mpirun,
               "what starts ranks, with flags of its own (mpirun)");
  args.train.declare(flags);
  flags.footer(kHelp);
  flags.check([&args, flags] {
    if (!flags.is_given("--ranks") && !flags.is_given("--hostfile"))
      throw WrongFlags::missing("--ranks or --hostfile");
    // Given before or behind the command's name; it is the ranks' as well.
    if (const std::string isa = flags.text_of("--isa"); !isa.empty()) args.isa = {"--isa", isa};
  });
}

}  // namespace

const Command kSupervise{"supervise",
                         "train on several ranks, and go on without those that are lost",
                         with_flags<SuperviseArgs, declare_supervise, supervise>};

}  // namespace ng::cli
