// narrowgauge inspect FILES: what formats would make of the tensors of files.
#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "cli/tensors/inspect.h"
#include "cli/tensors/tensor_text.h"
#include "io/gguf/gguf.h"
#include "io/tensor_files.h"
#include "recipe/cast_words.h"
#include "tools/inspection.h"

namespace ng::cli {
namespace {

struct InspectArgs {
  std::vector<std::string> files;
  std::string formats{kInspectedFormats};
  std::string tensors = "*";
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

std::vector<std::string> without_repeats(const std::vector<std::string>& words) {
  std::vector<std::string> once;
  for (const std::string& word : words)
    if (std::find(once.begin(), once.end(), word) == once.end()) once.push_back(word);
  return once;
}

uint64_t wanted_bytes(const InspectArgs& args, const std::vector<std::string>& paths) {
  uint64_t bytes = 0;
  size_t tensors = 0;
  for (const std::string& path : paths) {
    const io::TensorFile file(path);
    for (const io::SafetensorsEntry& entry : file.entries()) {
      if (!io::is_wanted(entry, args.tensors)) continue;
      (void)io::FloatReader(entry);  // refuses a dtype at once
      bytes += entry.bytes;
      ++tensors;
    }
  }
  if (tensors > 0) return bytes;
  io::refuse_without_floats(io::TensorFile(paths.front()), args.tensors);
}

void inspect(const InspectArgs& args) {
  const std::vector<std::string> formats = without_repeats(split_at_commas(args.formats));
  std::vector<Operand> casts;
  for (const std::string& name : formats) casts.push_back(cast_named(name));
  const Threads threads = threads_of(args.threads);
  const std::vector<std::string> paths = io::tensor_files(args.files);
  Progress progress(wanted_bytes(args, paths), formats.size());
  Json files = Json::array();
  for (const std::string& path : paths) {
    const io::TensorFile file(path);
    Json tensors = Json::array();
    for (const io::SafetensorsEntry& entry : file.entries()) {
      if (!io::is_wanted(entry, args.tensors)) continue;
      const TensorFacts facts = facts_of(entry, threads, progress.of(0, entry.bytes));
      std::vector<FormatTrial> trials;
      for (size_t i = 0; i < formats.size(); ++i)
        trials.push_back(
            try_format(entry, formats[i], casts[i], threads, progress.of(i + 1, entry.bytes)));
      progress.finish(entry.bytes);
      progress.clear();
      if (args.json)
        tensors.push_back(inspection_json(entry, facts, trials));
      else
        print("{}", inspect_text(entry, facts, trials));
      flush_output();
    }
    LearnedOfFile learned;
    if (!io::is_gguf(path)) learned = learned_of(io::Safetensors(path), args.tensors);
    if (!args.json) print("{}", learned_text(learned));
    note_skipped(path, io::skipped_tensors(file, args.tensors));
    files.push_back({{"file", path}, {"tensors", tensors}});
    if (!learned.layers.empty()) files.back()["bit_widths"] = learned_json(learned);
  }
  if (args.json) print_json({{"files", files}});
}

constexpr const char* kInspectFooter =
    R"(For each float tensor: its range, a histogram of log2|x| beside what each format does to
those binades, and for each format, with the best of its scale rules, the SQNR, what becomes
zero, what saturates and the largest error. The recommendation is the format of fewest bits
per value that reaches 40, 30 and 20 dB: an error of 1, 3.2 and 10 % of the rms value.
A checkpoint (RUN/checkpoints/step-NNNNNNNN) of a run with noise on its weights has learned b_i
too: a table of b_t of the layers' blocks, by the recipe in RUN/run.toml, else of b_i. --json has
b_t of each block. --tensor 'weight.*.b_i' shows these alone.)";

void declare_inspect(Flags flags, InspectArgs& args) {
  flags.option("FILES", args.files, "safetensors or GGUF files, folders or patterns").required();
  flags.setting("--format F,G,...", args.formats, "formats to try: as for cast");
  flags.option("--tensor GLOB", args.tensors, "only tensors whose names match");
  add_threads(flags, args.threads);
  flags.flag("--json", args.json, "as JSON");
  flags.footer(kInspectFooter);
}

}  // namespace

const Command kInspect{"inspect", "what formats make of the tensors of files",
                       with_flags<InspectArgs, declare_inspect, inspect>};

}  // namespace ng::cli
