// Where a file-system call fails or the process is killed in its place, nothing half-written is
// seen and a resumed run ends in the same bits: at every call of a run.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/file_calls.h"
#include "io/checkpoint_files.h"
#include "support/session_runs.h"

namespace ng {
namespace {

class SessionFaults : public SessionRuns {
 protected:
  /// Nothing but whole things has its final name.
  void expect_nothing_half_written(const std::map<std::string, std::string>& want) const {
    for (const auto& [path, content] : contents(in("out"))) {
      if (path.find(kTemporaryMark) != std::string::npos || path == "metrics.jsonl") continue;
      if (path == "run.toml" || path.starts_with("model/")) {
        EXPECT_TRUE(content == want.at(path)) << path;
      } else {
        EXPECT_TRUE(path.starts_with("checkpoints/step-")) << path;
      }
    }
    if (is_folder(in("out/model"))) {
      EXPECT_TRUE(is_file(in("out/model/config.json")));
      EXPECT_TRUE(is_file(in("out/model/model.safetensors")));
    }
    for (const io::CheckpointEntry& entry : io::list_checkpoints(in("out/checkpoints")))
      EXPECT_NO_THROW(io::verify_checkpoint(entry));
  }

  /// One run with the fault, then one without that resumes.
  void fail_and_resume(int64_t call, int error, FaultKind kind,
                       const std::map<std::string, std::string>& want) const {
    SCOPED_TRACE(fmt::format("call {}", call));
    remove_all(in("out"));
    try {
      const FileFaults faults(call, error, kind);
      Listener listener;
      train(config(), listener);
    } catch (const Error& failure) {
      EXPECT_NE(failure.parts().problem.find(std::strerror(error)), std::string::npos)
          << failure.what();
      EXPECT_FALSE(failure.parts().place.empty());
    }
    expect_nothing_half_written(want);
    resume(config());
    expect_same_end(want, 6);
    expect_whole_metrics(6, 3);
  }

  /// A full disk and a bad block in turns: the two differ in what the message says alone.
  void fail_at_every_call(FaultKind kind) const {
    int64_t calls = 0;
    {
      const FileFaults counter(0);
      (void)unbroken(config());
      calls = counter.calls();
    }
    ASSERT_GE(calls, 100);
    const std::map<std::string, std::string> want = contents(in("unbroken"));
    for (int64_t call = 1; call <= calls && !HasFailure(); ++call)
      fail_and_resume(call, call % 2 == 0 ? ENOSPC : EIO, kind, want);
  }
};

TEST_F(SessionFaults, SurvivesADiskThatFailsOnceAtAnyCall) {
  fail_at_every_call(FaultKind::fail_once);
}
TEST_F(SessionFaults, SurvivesADiskThatFailsFromAnyCallOn) {
  fail_at_every_call(FaultKind::fail_from_then_on);
}

TEST_F(SessionFaults, SurvivesAKillAtAnyCall) {
  const std::map<std::string, std::string> want = unbroken(config());
  bool killed = true;
  for (int64_t call = 1; killed && !HasFailure(); ++call) {
    SCOPED_TRACE(fmt::format("call {}", call));
    remove_all(in("out"));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {  // one thread: no pool of the parent's is needed
      const FileFaults faults(call, 0, FaultKind::kill);
      Listener listener;
      train(config(), listener);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!killed) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      EXPECT_GT(call, 100);
    }
    expect_nothing_half_written(want);
    resume(config());
    expect_same_end(want, 6);
    expect_whole_metrics(6, 3);
  }
}

}  // namespace
}  // namespace ng
