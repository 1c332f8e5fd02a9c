// Work goes on where it can and ends in one line where it cannot: streams that are closed, full or
// unread, limits on memory, permissions that are missing.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

using Limits = Program;
using Prepare = std::function<void()>;

void close_errors() { ::close(STDERR_FILENO); }
void fill_errors() { ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO); }
void leave_errors_unread() {
  int pipe[2];
  if (::pipe(pipe) != 0) ::_exit(122);
  ::dup2(pipe[1], STDERR_FILENO);
  ::close(pipe[0]);
}

// Root without the rights by which it may read everything.
void keep_permissions() {
  ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
  ::prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
}

TEST_F(Limits, NotesThatCannotBeWrittenEndNothing) {
  const float values[] = {1, 0.0f / 0.0f};
  fs::create_directory(path("in"));
  for (const char* name : {"in/a.safetensors", "in/b.safetensors"})
    io::write_safetensors(path(name), {{"x", "F32", {2}, values}});
  for (const Prepare& prepare :
       {Prepare(close_errors), Prepare(fill_errors), Prepare(leave_errors_unread)}) {
    const Result result =
        Process({"cast", "in", "out", "--format", "mxfp4"}, folder_, "", "/dev/null", prepare)
            .wait();
    EXPECT_EQ(result.code, 0);
    for (const char* name : {"out/a.safetensors", "out/b.safetensors"})
      EXPECT_EQ(io::Safetensors(path(name)).entries().size(), 3u) << name;
    fs::remove_all(path("out"));
  }
}

TEST_F(Limits, ARunWhoseLogIsFullGoesOn) {
  const std::vector<std::string> args = {"train", "tiny.toml",     "--recipe", "nvfp4-sr-forward",
                                         "--set", "train.steps=2", "--out",    "run"};
  EXPECT_EQ(Process(args, folder_, "", "/dev/null", fill_errors).wait().code, 0);
  const std::string wanted = weights("run");
  fs::remove_all(path("run"));
  EXPECT_EQ(Process(args, folder_, "/dev/full", "/dev/null", fill_errors).wait().code, 1);
  EXPECT_EQ(weights("run"), wanted);
}

TEST_F(Limits, AComparisonWhoseLogIsFullGoesOn) {
  const Result result = Process({"compare", "tiny.toml", "--recipes", "fp32,bf16", "--seeds", "1",
                                 "--set", "train.steps=2", "--out", "both"},
                                folder_, "/dev/full")
                            .wait();
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("standard output: cannot be written"), std::string::npos);
  EXPECT_TRUE(fs::exists(path("both/compare.json")));
}

TEST_F(Limits, ClosedStreamsGetNothingOfOthers) {
  const auto close_all = [] {
    for (const int stream : {0, 1, 2}) ::close(stream);
  };
  const Result result = Process({"train", "tiny.toml", "--recipe", "nvfp4-sr-forward", "--set",
                                 "train.steps=2", "--out", "run"},
                                folder_, "", "/dev/null", close_all)
                            .wait();
  EXPECT_EQ(result.code, 1) << "standard output cannot be written";
  const std::string metrics = text_of(path("run/metrics.jsonl"));
  EXPECT_EQ(metrics.front(), '{');
  EXPECT_EQ(metrics.find("narrowgauge"), std::string::npos);
  EXPECT_EQ(metrics.find("tokens/s"), std::string::npos);
}

// Down from what suffices, until the program cannot even be loaded.
TEST_F(Limits, OfMemoryEndInOneLine) {
  const auto formats_within = [&](rlim_t kib) {
    return Process({"formats", "--json"}, folder_, "/dev/null", "/dev/null",
                   [kib] {
                     const rlimit limit{kib << 10, kib << 10};
                     ::setrlimit(RLIMIT_AS, &limit);
                   })
        .wait();
  };
  rlim_t little = 1 << 10, enough = 64 << 10;
  if (formats_within(enough).code != 0) GTEST_SKIP() << "sanitizers need more than any limit";
  while (enough - little > 16) {
    const rlim_t middle = (little + enough) / 2;
    (formats_within(middle).code == 0 ? enough : little) = middle;
  }
  for (rlim_t kib = little;; kib -= 16) {
    const Result result = formats_within(kib);
    if (result.code == 127 || result.code == 128 + SIGSEGV) break;  // of the loader
    if (result.code == 0) continue;
    EXPECT_EQ(result.code, 1);
    EXPECT_TRUE(result.err.starts_with("narrowgauge: memory: there is not enough")) << result.err;
  }
}

TEST_F(Limits, MissingPermissionsAreCalledSo) {
  fs::create_directories(path("secret/model"));
  write_text(path("secret/text.txt"), "text");
  write_text(path("secret/recipe.toml"), "inherit = 'bf16'");
  write_text(path("child.toml"), "inherit = 'secret/recipe.toml'");
  fs::permissions(path("secret"), fs::perms::none);
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"train", "tiny.toml", "--set", "data.train=secret/text.txt"},
        {"train", "tiny.toml", "--set", "data.train=secret/*.txt"},
        {"train", "tiny.toml", "--recipe", "secret/recipe.toml"},
        {"train", "tiny.toml", "--set", "data.tokenizer=secret/model"},
        {"recipes", "child.toml"},
        {"generate", "secret/model", "--prompt", "a"},
        {"cast", "secret/in.safetensors", "out", "--format", "mxfp4"},
        {"inspect", "secret/*.safetensors"},
        {"study", "gradients", "secret/run"}}) {
    const Result result = Process(args, folder_, "", "/dev/null", keep_permissions).wait();
    EXPECT_EQ(result.code, 1) << args.back();
    EXPECT_NE(result.err.find("Permission denied"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("secret"), std::string::npos) << result.err;
  }
  fs::permissions(path("secret"), fs::perms::owner_all);
}

}  // namespace
}  // namespace ng::e2e
