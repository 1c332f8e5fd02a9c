// narrowgauge study [NAME]: a figure or table of the specification, made again, or one of a run; or
// a picture as studies have them.
#include "study/study.h"

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "chart/chart_json.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"

namespace ng::cli {
namespace {

struct StudyArgs {
  std::string name;
  std::string picture;  ///< a file that describes one, to draw instead
  std::string out;
  uint64_t seed = 1;
  int64_t threads = 0;
  study::RunSubject run = {};
  study::TensorSubject tensor = {};
  bool of_run = false;     ///< something of `run` was given
  bool of_tensor = false;  ///< something of `tensor` was given
  bool tables = false;
  bool json = false;

  [[nodiscard]] std::string folder() const { return out.empty() ? "studies/" + name : out; }
  [[nodiscard]] std::string command() const {
    std::string words = fmt::format("narrowgauge study {}", shell_quoted(name));
    if (of_run) words += run_words();
    if (!tensor.file.empty()) words += tensor_words();
    if (!out.empty()) words += " --out " + shell_quoted(out);
    return words + fmt::format(" --seed {}", seed);
  }
  [[nodiscard]] std::string run_words() const {
    std::string words = run.folder.empty() ? "" : " " + shell_quoted(run.folder);
    if (!run.steps.empty()) words += fmt::format(" --steps {}", fmt::join(run.steps, ","));
    words += " --recipes " + shell_quoted(fmt::format("{}", fmt::join(run.recipes, ",")));
    for (const std::string& key : run.keys) words += " --set " + shell_quoted(key);
    if (!run.phase.empty()) words += " --phase " + shell_quoted(run.phase);
    return words + fmt::format(" --draws {}", run.draws);
  }
  [[nodiscard]] std::string tensor_words() const {
    const std::string words =
        fmt::format(" --file {} --tensor {}", shell_quoted(tensor.file), shell_quoted(tensor.name));
    return tensor.direction.empty() ? words
                                    : words + " --direction " + shell_quoted(tensor.direction);
  }
};

void list_studies(bool json) {
  constexpr Column kColumns[] = {{"study", "name"}, {"what it shows", "summary"}};
  Json all = Json::array();
  for (const study::Study& study : study::studies())
    all.push_back({{"name", study.name}, {"summary", study.summary}});
  print_either(json, all, table_of(all, kColumns, 2));
}

std::string table_text(const study::Grid& grid) {
  std::vector<std::string> heading = {grid.corner};
  heading.insert(heading.end(), grid.columns.begin(), grid.columns.end());
  Table table(heading);
  for (const study::ShownRow& row : shown_rows(grid)) table.row(row.cells);
  return fmt::format("\n{}\n{}", grid.caption, table.text());
}

constexpr std::ptrdiff_t kMostTableLines = 100;

/// Without `all`, tables that together would run over several screens are left to the page.
void print_report(const study::Report& report, bool all) {
  std::vector<std::string> tables;  // by section
  std::ptrdiff_t lines = 0, count = 0;
  for (const study::Section& section : report.sections) {
    tables.emplace_back();
    for (const study::Grid& grid : section.grids)
      if (grid.shown) {
        tables.back() += table_text(grid);
        ++count;
      }
    lines += std::count(tables.back().begin(), tables.back().end(), '\n');
  }
  const bool shows_tables = all || lines <= kMostTableLines;
  print("{}\n", report.title);
  for (size_t s = 0; s < report.sections.size(); ++s) {
    print("\n{}", in_lines(report.sections[s].heading));
    for (const std::string& paragraph : report.sections[s].paragraphs)
      print("{}", in_lines(paragraph));
    if (shows_tables) print("{}", tables[s]);
  }
  if (!shows_tables)
    print("\n{} tables of {} lines are left to the page: --tables prints them\n", count, lines);
}

// What was given fits the study.
void check_subject(const StudyArgs& args, const study::Study& chosen) {
  const auto refuse = [&](const char* problem, const char* remedy) {
    cli::refuse("study " + args.name, problem, remedy);
  };
  if (!chosen.of_run && args.of_run)
    refuse("looks at no run",
           "no RUN, --steps, --recipes, --set or --draws: those are for studies gradients and "
           "stability");
  if (!args.run.phase.empty() && chosen.name != "gradients")
    refuse("trains through all phases", "no --phase: that is for study gradients");
  if (!chosen.of_tensor && args.of_tensor)
    refuse("looks at no tensor", "no --file, --tensor or --direction: those are for study update");
  if (args.of_tensor && (args.tensor.file.empty() || args.tensor.name.empty()))
    refuse("names half a tensor", "--file FILE.safetensors --tensor NAME, both of them");
}

// What the study takes where nothing was said.
void fill_in(study::RunSubject& run, const study::Study& chosen) {
  if (run.recipes.empty() && !chosen.recipes.empty()) run.recipes = split_at_commas(chosen.recipes);
  if (run.draws == 0) run.draws = chosen.draws;
}

constexpr size_t kMostPictureBytes = size_t{1} << 26;

void draw(const StudyArgs& args) {
  const bool is_of_study = args.of_run || args.of_tensor;
  if (!args.name.empty() || args.json || !args.out.empty() || is_of_study)
    throw Error({.place = "study",
                 .key = "--draw",
                 .problem = "is no study",
                 .remedy = "--draw FILE.json alone: it prints SVG"});
  const Json picture = read_json_file(args.picture, kMostPictureBytes);
  print("{}", svg_of(chart::chart_of(picture, args.picture)));
}

void study(StudyArgs args) {
  if (!args.picture.empty()) return draw(args);
  if (args.name.empty()) return list_studies(args.json);
  const study::Study& chosen = study::study_of(args.name);
  check_subject(args, chosen);
  fill_in(args.run, chosen);
  const NewFolders folders(args.folder());  // one that cannot be is known before the work
  study::require_own_report(args.folder(), chosen.name);
  study::Report report;
  {
    ProgressLine line{std::string(chosen.counts)};
    report = chosen.run({.seed = args.seed,
                         .threads = threads_of(args.threads),
                         .progress = [&](int64_t done, int64_t total) { line.show(done, total); },
                         .run = args.run,
                         .tensor = args.tensor});
  }
  if (!args.run.keys.empty())
    report.sections.front().paragraphs.push_back(
        fmt::format("Over each recipe: {}.", fmt::join(args.run.keys, ", ")));
  const study::Origin origin{.command = args.command(), .seed = args.seed};
  write_report(args.folder(), report, origin);
  if (args.json) return print("{}", json_of(report, origin));
  print_report(report, args.tables);
  print("\nwritten     {}\n", join_path(args.folder(), "index.html"));
}

/// "gradients: A,B; stability: C,D"
std::string standard_recipes() {
  std::vector<std::string> texts;
  for (const study::Study& study : study::studies())
    if (study.of_run) texts.push_back(fmt::format("{}: {}", study.name, study.recipes));
  return fmt::format("{}", fmt::join(texts, "; "));
}

void declare_run(Flags flags, StudyArgs& args) {
  flags.option("RUN", args.run.folder,
               "gradients: the folder of a run, with its checkpoints; stability: a run's folder or "
               "file, whose model and text to take");
  flags
      .option("--steps N,N,N", args.run.steps,
              "gradients: of which checkpoints; all, eight at most; stability: of each run; 200, "
              "or as many as RUN has")
      .list();
  flags
      .option("--recipes A,B,C", args.run.recipes,
              "the recipes to look at; else of " + standard_recipes())
      .list();
  flags.option("--set recipe.KEY=VALUE", args.run.keys, "a key over each of these recipes")
      .repeats();
  flags
      .option("--draws N", args.run.draws,
              "gradients: how many of each recipe; 16; stability: seeds of each run; 1")
      .range(1, 100000);
  add_phase(flags, args.run.phase);
}

void declare_tensor(Flags flags, study::TensorSubject& tensor) {
  flags.option("--file FILE", tensor.file, "update: a safetensors file with weights");
  flags.option("--tensor NAME", tensor.name, "update: the weights, instead of random ones");
  flags.option("--direction NAME", tensor.direction,
               "update: another tensor of the file, where updates point; random");
}

void declare_study(Flags flags, StudyArgs& args) {
  flags.option("NAME", args.name, "the study; without it they are listed");
  declare_run(flags, args);
  declare_tensor(flags, args.tensor);
  flags.option("--out DIR", args.out, "folder for the results; studies/NAME");
  flags.option("--draw FILE", args.picture,
               "print the picture that a JSON file describes as SVG, instead of a study: kind "
               "(bars, points, lines), caption, x_label, y_label, categories or x, series");
  add_seed(flags, args.seed, "of the data and of stochastic rounding");
  add_threads(flags, args.threads);
  flags.flag("--tables", args.tables, "print all tables, also where they fill several screens");
  flags.flag("--json", args.json, "print JSON");
  flags.footer(
      "DIR gets NAME.csv, NAME.json and index.html, a page with pictures and what is seen.\n"
      "Study gradients takes one batch of the run's text at each checkpoint and compares the\n"
      "gradient in every recipe with the one in FP32:\n"
      "  narrowgauge study gradients runs/nano --steps 50,800 --recipes mxfp4-nr,mxfp4-sr\n"
      "Study stability trains a Llama and a GPT-2 of 0.1 M parameters in every recipe at ten peak\n"
      "learning rates, 120 runs of 200 steps: some five minutes on two cores. It is a proxy for\n"
      "what happens to large models late in training, and says so:\n"
      "  narrowgauge study stability --recipes bf16,gaussws-all,diffq\n"
      "Study update moves random weights, or those of a file, by every rule without a wider copy:\n"
      "  narrowgauge study update --file model.safetensors --tensor h.0.mlp.c_fc.weight");
  flags.check([&args, flags] {
    for (const char* name : {"RUN", "--steps", "--recipes", "--set", "--draws", "--phase"})
      args.of_run = args.of_run || flags.is_given(name);
    for (const char* name : {"--file", "--tensor", "--direction"})
      args.of_tensor = args.of_tensor || flags.is_given(name);
  });
}

}  // namespace

const Command kStudy{"study", "make a figure or table of the specification again",
                     with_flags<StudyArgs, declare_study, study>};

}  // namespace ng::cli
