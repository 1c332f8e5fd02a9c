// narrowgauge inspect FILES: what formats would make of the tensors of files.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/models/open_model.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "cli/tensors/inspect.h"
#include "cli/tensors/tensor_text.h"
#include "io/gguf/gguf.h"
#include "io/hf/peft_folder.h"
#include "io/model_files.h"
#include "io/model_of_run.h"
#include "io/tensor_files.h"
#include "model/weights.h"
#include "recipe/cast_words.h"
#include "recipe/matches.h"
#include "recipe/phase_choice.h"
#include "report/inspection_page.h"
#include "tools/inspection.h"
#include "train/run_files.h"

namespace ng::cli {
namespace {

struct InspectArgs {
  std::vector<std::string> files;
  std::string formats{kInspectedFormats};
  std::string tensors = "*";
  std::string out, recipe, phase;
  int64_t threads = 0;
  bool json = false;
};

/// Progress over all tensors, each read once for its facts and once for each format.
class Progress {
 public:
  Progress(uint64_t bytes, size_t formats) : total_(bytes), parts_(1.0 + double(formats)) {}
  TensorProgress of(size_t part, uint64_t bytes) {
    return [this, part, bytes](double share) {
      const double done = static_cast<double>(done_) +
                          static_cast<double>(bytes) * (static_cast<double>(part) + share) / parts_;
      line_.show(static_cast<int64_t>(done / 0x1p20), static_cast<int64_t>(total_ >> 20));
    };
  }
  void finish(uint64_t bytes) { done_ += bytes; }
  void clear() { line_.clear(); }

 private:
  ProgressLine line_{"MiB"};
  uint64_t total_, done_ = 0;
  double parts_;
};

/// The layers of the model that is inspected; none where that is tensors without a configuration.
/// Of one that is not understood the user hears why, for its tensors can be looked at all the same.
std::optional<ModelLayers> layers_of_model(const std::vector<std::string>& files) {
  const std::string& name = files.front();
  if (files.size() != 1 || (!is_folder(name) && !io::is_gguf(name))) return {};
  try {
    const std::string model = io::model_path(name);
    const bool is_bare = is_folder(model) && !is_file(join_path(model, "config.json"));
    if (is_bare && !io::is_peft_folder(model)) return {};
    return layers_of(io::read_model_config({model, ""}));
  } catch (const Error& error) {
    note(fmt::format("the recipe's overrides are not held against the model's layers: {}",
                     error.what()));
    return {};
  }
}

std::vector<std::string> without_repeats(const std::vector<std::string>& words) {
  std::vector<std::string> once;
  for (const std::string& word : words)
    if (std::find(once.begin(), once.end(), word) == once.end()) once.push_back(word);
  return once;
}

/// Of the tensors that are inspected.
struct Wanted {
  int64_t tensors = 0, values = 0;
  uint64_t bytes = 0;
};

Wanted wanted_of(const InspectArgs& args, const std::vector<std::string>& paths) {
  Wanted wanted;
  for (const std::string& path : paths) {
    const io::TensorFile file(path);
    for (const io::SafetensorsEntry& entry : file.entries()) {
      if (!io::is_wanted(entry, args.tensors)) continue;
      (void)io::FloatReader(entry);  // refuses a dtype at once
      ++wanted.tensors;
      wanted.values += entry.elements();
      wanted.bytes += entry.bytes;
    }
  }
  if (wanted.tensors > 0) return wanted;
  io::refuse_without_floats(io::TensorFile(paths.front()), args.tensors);
}

/// What all tensors are tried with.
class Inspector {
 public:
  explicit Inspector(const InspectArgs& args)
      : formats_(without_repeats(split_at_commas(args.formats))),
        threads_(threads_of(args.threads)) {
    for (const std::string& name : formats_) casts_.push_back(cast_named(name));
    if (args.recipe.empty()) {
      if (!args.phase.empty()) refuse("--phase", "beside no --recipe", "the recipe that has it");
      return;
    }
    recipe_.emplace(Recipe::load(args.recipe));
    if (const auto layers = layers_of_model(args.files))
      require_matches(*recipe_, *layers);
    else
      require_known_patterns(*recipe_);
    phase_ = measured_phase(*recipe_, {.word = args.phase, .steps = [&] {
                                         return steps_of_model(args.files.front());
                                       }});
    note_phase(*recipe_, phase_);
  }

  /// Passes over a tensor, the facts' left out.
  [[nodiscard]] size_t passes() const { return formats_.size() + (recipe_ ? 1 : 0); }
  [[nodiscard]] std::string recipe_text() const {
    if (!recipe_) return "";
    const std::string phase = phase_.text();
    return fmt::format("{} (hash {}){}", recipe_->name(), recipe_->hash(),
                       phase.empty() ? "" : ", " + phase);
  }

  /// With the recipe, its phase and its phases as "numbers", where there is one.
  [[nodiscard]] Json with_numbers(Json json) const {
    if (recipe_)
      json["numbers"] = {{"recipe", recipe_->name()},
                         {"phase", phase_.index},
                         {"phases", recipe_->phase_starts()}};
    return json;
  }

  report::InspectedTensor inspect(const io::SafetensorsEntry& entry, Progress& progress) {
    report::InspectedTensor tensor;
    tensor.name = on_one_line(entry.name);
    tensor.dtype = entry.dtype;
    tensor.shape = entry.shape;
    tensor.parameter = names_.of(entry).name;
    tensor.facts = facts_of(entry, threads_, progress.of(0, entry.bytes));
    for (size_t i = 0; i < formats_.size(); ++i)
      tensor.trials.push_back(try_format(entry, {.name = formats_[i], .cast = casts_[i]}, threads_,
                                         progress.of(i + 1, entry.bytes)));
    if (recipe_)
      tensor.uses = try_recipe(entry, names_, *recipe_, phase_.index, threads_,
                               progress.of(formats_.size() + 1, entry.bytes));
    progress.finish(entry.bytes);
    progress.clear();
    return tensor;
  }

 private:
  std::vector<std::string> formats_;
  std::vector<Operand> casts_;
  std::optional<Recipe> recipe_;
  MeasuredPhase phase_;
  Threads threads_;
  ParameterNames names_;
};

void require_page(const InspectArgs& args, const std::vector<std::string>& paths) {
  if (args.out.empty()) return;
  for (const std::string& path : paths) refuse_input(args.out, path, "--out");
  require_own_file(args.out, report::html_begin(), "a page");
}

Json json_of(const io::SafetensorsEntry& entry, const report::InspectedTensor& tensor,
             bool has_recipe) {
  Json json = inspection_json(entry, tensor.facts, tensor.trials);
  if (has_recipe) json["recipe"] = recipe_uses_json(tensor.uses);
  return json;
}

std::string line_text(std::string_view name, std::string_view value) {
  return fmt::format("{:<11} {}\n", name, value);
}

std::string summary_text(const report::Inspection& page) {
  std::string text;
  for (const auto& [name, value] : lines_of(page.summary)) text += line_text(name, value);
  if (!page.chosen.empty()) text += line_text("inspected", page.chosen);
  return text;
}

/// "3 of 20 tensors, 24,576 values: those that match mlp*"; empty: all are.
std::string chosen_text(const InspectArgs& args, const Wanted& wanted, int64_t tensors) {
  if (args.tensors == InspectArgs().tensors) return "";
  return fmt::format("{} of {}, {} values: those that match {}", count_text(wanted.tensors),
                     counted(tensors, "tensor"), count_text(wanted.values),
                     on_one_line(args.tensors));
}

void inspect(const InspectArgs& args) {
  Inspector inspector(args);
  const std::vector<std::string> paths = io::tensor_files(args.files);
  require_page(args, paths);
  const Wanted wanted = wanted_of(args, paths);
  Progress progress(wanted.bytes, inspector.passes());
  report::Inspection page{.name = on_one_line(args.files.front()),
                          .summary = report::summary_of(paths),
                          .recipe = inspector.recipe_text(),
                          .tensors = {}};
  page.chosen = chosen_text(args, wanted, page.summary.tensors);
  const bool prints = !args.json && args.out.empty();
  const bool has_summary = !args.out.empty() || !page.summary.architecture.empty();
  if (!args.json && (has_summary || !page.recipe.empty()))
    print("{}{}\n", has_summary ? summary_text(page) : "",
          page.recipe.empty() ? "" : line_text("recipe", page.recipe));
  Json files = Json::array();
  for (const std::string& path : paths) {
    const io::TensorFile file(path);
    Json tensors = Json::array();
    for (const io::SafetensorsEntry& entry : file.entries()) {
      if (!io::is_wanted(entry, args.tensors)) continue;
      report::InspectedTensor tensor = inspector.inspect(entry, progress);
      if (args.json) tensors.push_back(json_of(entry, tensor, !args.recipe.empty()));
      if (prints)
        print("{}{}", inspect_text(entry, tensor.facts, tensor.trials),
              recipe_uses_text(tensor.uses));
      flush_output();
      if (!args.out.empty()) page.tensors.push_back(std::move(tensor));
    }
    LearnedOfFile learned;
    if (!io::is_gguf(path)) learned = learned_of(io::Safetensors(path), args.tensors);
    if (prints) print("{}", learned_text(learned));
    note_skipped(path, io::skipped_tensors(file, args.tensors));
    if (!args.json) continue;
    files.push_back({{"file", path}, {"tensors", tensors}});
    if (!learned.layers.empty()) files.back()["bit_widths"] = learned_json(learned);
  }
  if (!args.out.empty()) write_file_atomically(args.out, html_of(report::inspection_page(page)));
  if (args.json)
    print_json(inspector.with_numbers({{"model", json_of(page.summary)}, {"files", files}}));
  else if (!args.out.empty())
    print("{}: {}, a page to open in a browser\n", args.out,
          counted(std::ssize(page.tensors), "tensor"));
}

constexpr const char* kInspectFooter =
    R"(For each float tensor: its range, a histogram of log2|x| beside what each format does to
those binades, and for each format, by the scale rule that cast and recipes take and by the best,
the SQNR, what becomes zero, what saturates and the largest error; --json has every rule. The
recommendation is the format of fewest bits per value that reaches 40, 30 and 20 dB as cast does
it: an error of 1, 3.2 and 10 % of the rms value.
--out writes one page with pictures instead: error by format and rule, by layer, values over grids.
--recipe says for each tensor what the recipe, in its last phase or --phase, would make of it.
A checkpoint (RUN/checkpoints/step-NNNNNNNN) of a run with noise on its weights has learned b_i
too: a table of b_t of the layers' blocks, by the recipe in RUN/run.toml, else of b_i. --json has
b_t of each block. --tensor 'weight.*.b_i' shows these alone.)";

void declare_inspect(Flags flags, InspectArgs& args) {
  flags.option("FILES", args.files, "models, runs, safetensors or GGUF files, folders or patterns")
      .required();
  flags.setting("--format F,G,...", args.formats, "formats to try: as for cast");
  flags.option("--tensor GLOB", args.tensors, "only tensors whose names match");
  flags.option("--out FILE.html", args.out, "write a page with pictures, which needs nothing else");
  flags.option("--recipe NAME", args.recipe,
               "what a recipe, a name or a file, does to each tensor");
  add_phase(flags, args.phase);
  add_threads(flags, args.threads);
  flags.flag("--json", args.json, "as JSON");
  flags.footer(kInspectFooter);
}

}  // namespace

const Command kInspect{"inspect", "what formats make of the tensors of files",
                       with_flags<InspectArgs, declare_inspect, inspect>};

}  // namespace ng::cli
