// narrowgauge study [NAME]: a figure or table of the specification, made again.
#include "study/study.h"

#include "base/files.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/progress_line.h"

namespace ng::cli {
namespace {

struct Args {
  std::string name;
  std::string out;
  uint64_t seed = 1;
  bool json = false;

  [[nodiscard]] std::string folder() const { return out.empty() ? "studies/" + name : out; }
  [[nodiscard]] std::string command() const {
    std::string words = fmt::format("narrowgauge study {}", shell_quoted(name));
    if (!out.empty()) words += " --out " + shell_quoted(out);
    return words + fmt::format(" --seed {}", seed);
  }
};

int list(bool json) {
  Json all = Json::array();
  Table table({"study", "what it shows"}, 2);
  for (const study::Study& study : study::studies()) {
    all.push_back({{"name", study.name}, {"summary", study.summary}});
    table.row({std::string(study.name), std::string(study.summary)});
  }
  if (json)
    print_json(all);
  else
    print("{}", table.text());
  return 0;
}

void print_report(const study::Report& report) {
  print("{}\n", report.title);
  for (const study::Section& section : report.sections) {
    print("\n{}\n", section.heading);
    for (const std::string& paragraph : section.paragraphs) print("{}\n", paragraph);
    for (const study::Grid& grid : section.grids) {
      if (!grid.shown) continue;
      std::vector<std::string> heading = {grid.corner};
      heading.insert(heading.end(), grid.columns.begin(), grid.columns.end());
      Table table(heading);
      for (const study::ShownRow& row : shown_rows(grid)) table.row(row.cells);
      print("\n{}\n{}", grid.caption, table.text());
    }
  }
}

int study(const Args& args) {
  if (args.name.empty()) return list(args.json);
  const study::Study& chosen = study::study_of(args.name);
  make_folders(args.folder());  // a folder that cannot be is known before the work
  study::Report report;
  {
    ProgressLine line("steps");
    report = chosen.run({.seed = args.seed,
                         .threads = {available_cores()},
                         .progress = [&](int64_t done, int64_t total) { line.show(done, total); }});
  }
  const study::Origin origin{.command = args.command(), .seed = args.seed};
  write_report(args.folder(), report, origin);
  if (args.json)
    print("{}", json_of(report, origin));
  else
    print_report(report);
  if (!args.json) print("\nwritten     {}\n", join_path(args.folder(), "index.html"));
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("NAME", args->name, "the study; without it they are listed");
  app.add_option("--out", args->out, "folder for the results; studies/NAME")->type_name("DIR");
  add_seed(app, args->seed, "of the data and of stochastic rounding");
  app.add_flag("--json", args->json, "print JSON");
  app.footer("DIR gets NAME.csv, NAME.json and index.html, a page with pictures and what is seen.");
  return [args] { return study(*args); };
}

}  // namespace

extern const Command kStudy;
const Command kStudy{"study", "make a figure or table of the specification again", declare};

}  // namespace ng::cli
