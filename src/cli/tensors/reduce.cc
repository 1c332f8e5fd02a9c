// narrowgauge reduce IN OUT --recipe R: what the wire between ranks does to gradients of a file.
#include "tools/reduce_file.h"

#include <numeric>

#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/shared_flags.h"
#include "cli/tensors/draw_flags.h"
#include "comm/agreement.h"
#include "comm/launch.h"
#include "train/metrics.h"

namespace ng::cli {
namespace {

struct Args {
  std::string in, out, recipe;
  ReduceFileSettings settings;
  MachineFlags machine;
  bool json = false;
};

std::string sent_text(const BytesByTraffic& sent) {
  std::string text;
  for (size_t kind = 0; kind < sent.size(); ++kind)
    if (sent[kind] > 0)
      text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", sent[kind],
                          name_of(static_cast<Traffic>(kind)));
  return text.empty() ? "none" : text;
}

void print_text(const ReduceFileReport& r) {
  print("grad ({}, {}, {}), {}, {}\n", r.ranks, r.rows, r.cols, r.wire,
        r.is_ring ? "summed on the wire" : "summed by owners");
  if (r.is_skipped) {
    print("  skipped     a gradient is not finite\n");
    return;
  }
  const uint64_t saturated = std::accumulate(r.saturated.begin(), r.saturated.end(), uint64_t{0});
  print("  SNR         {:.2f} dB, of the mean against that in FP64\n", r.snr_db);
  print("  saturated   {} of {} codes", saturated, r.ranks * r.rows * r.cols);
  if (r.is_ring) print(", {} of {} sums", r.saturated_sums, r.rows * r.cols);
  print("\n");
  print("  bytes sent  {}\n", sent_text(r.sent));
  print("  mu_k        {} in the next step\n", r.mu_k);
}

Json json_of(const ReduceFileReport& r) {
  return {{"ranks", r.ranks},
          {"rows", r.rows},
          {"cols", r.cols},
          {"wire", r.wire},
          {"reduce", r.is_ring ? "wire" : "fp32"},
          {"skip", r.is_skipped ? 1 : 0},
          {"snr_db", r.is_skipped ? Json() : json_number(r.snr_db)},
          {"saturated", r.saturated},
          {"saturated_sums", r.is_ring ? Json(r.saturated_sums) : Json()},
          {"mu_k", r.mu_k},
          {"sent", sent_json(r.sent)}};
}

int reduce(const Args& args) {
  ReduceFileSettings settings = args.settings;
  settings.backend = args.machine.backend;
  settings.threads = args.machine.use();
  const Recipe recipe = Recipe::load(args.recipe);
  Comm& ranks = world();
  require_same(ranks, "the recipe", recipe.hash());
  const ReduceFileReport report = reduce_file(args.in, args.out, recipe, settings, ranks);
  for (const std::string& name : report.unread)
    note(fmt::format("{}: {} is not read", args.in, on_one_line(name)));
  if (args.json)
    print_json(json_of(report));
  else
    print_text(report);
  return 0;
}

constexpr const char* kFooter =
    R"(IN holds grad (ranks, r, c), floats. Under mpirun -n N, N its ranks, rank i takes grad[i];
without, one process does what all would, to the same bits. The wire is the recipe's
gradient.communicate, the sum its gradient.reduce.
OUT gets codes (ranks, r, c), one to an element, scale (1), by which ranks decode, or that of each
rank's blocks, sum in units of codes, mean, saturated (ranks), mu_k of the next step, and skip,
which is 1 where a gradient is not finite: then nothing is reduced and mu_k stays.
--json adds snr_db, of the mean against that in FP64, saturated_sums of the ring (null: owners add),
and sent, bytes by kind of all ranks.)";

std::function<int()> declare(Flags flags) {
  auto args = std::make_shared<Args>();
  Args& a = *args;
  ReduceFileSettings& s = a.settings;
  flags.option("IN", a.in, "safetensors file with grad").required();
  flags.option("OUT", a.out, "safetensors file to write").required();
  flags.option("--recipe", a.recipe, "recipe, a name or a file").required();
  add_seed(flags, s.seed, "of stochastic rounding");
  add_step(flags, s.step, "of training");
  add_tensor_id(flags, s.tensor_id);
  flags.option("--mu-k", s.mu_k, "mu is 2^(K/growth_interval)").shows_default().type_name("K");
  flags.option("--accumulate", s.accumulate, "micro-batches of a rank, for random draws")
      .shows_default()
      .range(1, int64_t{1} << 24);
  a.machine.declare(flags);
  flags.flag("--json", a.json, "the figures, as JSON");
  flags.footer(kFooter);
  return [args] { return reduce(*args); };
}

}  // namespace

extern const Command kReduce;
const Command kReduce{"reduce", "what the wire between ranks makes of gradients", declare, true};

}  // namespace ng::cli
