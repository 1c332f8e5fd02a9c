// Runs the program by mpirun, and as one process.
#pragma once

#include <fmt/format.h>

#include "e2e/program.h"

namespace ng::e2e {

class ProgramOfRanks : public Program {
 protected:
  void SetUp() override {
    if (std::getenv("NG_MPIRUN") == nullptr) GTEST_SKIP() << "no MPI here";
  }
  /// As many ranks as are asked for on however few cores; all are killed after a minute.
  [[nodiscard]] Result mpirun(int ranks, const std::string& words) const {
    return mpirun_command(ranks, fmt::format("'{}' {}", std::getenv("NG_PROGRAM"), words));
  }
  /// The same of any command, as a shell reads it.
  [[nodiscard]] Result mpirun_command(int ranks, const std::string& command) const {
    const std::string line =
        fmt::format("cd '{}' && timeout -k 1 60 {} -n {} {} >mpi.out 2>mpi.err", folder_.string(),
                    std::getenv("NG_MPIRUN"), ranks, command);
    const int status = std::system(line.c_str());
    return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            .out = text_of(path("mpi.out")),
            .err = text_of(path("mpi.err"))};
  }
  /// The program's lines of standard error; mpirun adds its own.
  [[nodiscard]] static std::vector<std::string> lines_of_program(const std::string& err) {
    std::vector<std::string> lines;
    std::istringstream text(err);
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("narrowgauge: ")) lines.push_back(line);
    return lines;
  }
};

}  // namespace ng::e2e
