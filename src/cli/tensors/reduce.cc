// narrowgauge reduce IN OUT --recipe R: what the wire between ranks does to gradients of a file.
#include "tools/reduce_file.h"

#include <fmt/format.h>

#include <numeric>

#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/tensors/file_flags.h"
#include "comm/agreement.h"
#include "comm/launch.h"
#include "train/metrics.h"

namespace ng::cli {
namespace {

struct ReduceArgs {
  FileFlags files;
  ReduceFileSettings settings;
};

std::string sent_text(const BytesByTraffic& sent) {
  std::vector<std::string> parts;
  for (size_t kind = 0; kind < sent.size(); ++kind)
    if (sent[kind] > 0)
      parts.push_back(fmt::format("{} of {}", sent[kind], name_of(static_cast<Traffic>(kind))));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string text_of(const ReduceFileReport& r) {
  const std::string text =
      fmt::format("grad ({}, {}, {}), {}, {}\n", r.ranks, r.rows, r.cols, r.wire,
                  r.is_ring ? "summed on the wire" : "summed by owners");
  if (r.is_skipped) return text + "  skipped     a gradient is not finite\n";
  const uint64_t saturated = std::accumulate(r.saturated.begin(), r.saturated.end(), uint64_t{0});
  return text +
         fmt::format(
             "  SNR         {:.2f} dB, of the mean against that in FP64\n"
             "  saturated   {} of {} codes{}\n"
             "  bytes sent  {}\n"
             "  mu_k        {} in the next step\n",
             r.snr_db, saturated, r.ranks * r.rows * r.cols,
             r.is_ring ? fmt::format(", {} of {} sums", r.saturated_sums, r.rows * r.cols) : "",
             sent_text(r.sent), r.mu_k);
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

void reduce(const ReduceArgs& args) {
  const FileFlags& files = args.files;
  const Recipe recipe = files.read_recipe();
  Comm& ranks = world();
  require_same(ranks, "the recipe", recipe.hash());
  const ReduceFileReport report =
      reduce_file(files.in, files.out, recipe, files.here(args.settings), ranks);
  for (const std::string& name : report.unread)
    note(fmt::format("{}: {} is not read", files.in, on_one_line(name)));
  print_either(files.json, json_of(report), text_of(report));
}

constexpr const char* kReduceFooter =
    R"(IN holds grad (ranks, r, c), floats. Under mpirun -n N, N its ranks, rank i takes grad[i];
without, one process does what all would, to the same bits. The wire is the recipe's
gradient.communicate, the sum its gradient.reduce. --grad names tensors (r, c) of what capture or
trace writes in its place, one for each rank.
OUT gets codes (ranks, r, c), one to an element, scale (1), by which ranks decode, or that of each
rank's blocks, sum in units of codes, mean, saturated (ranks), mu_k of the next step, and skip,
which is 1 where a gradient is not finite: then nothing is reduced and mu_k stays.
--json adds snr_db, of the mean against that in FP64, saturated_sums of the ring (null: owners add),
and sent, bytes by kind of all ranks.)";

void declare_reduce(Flags flags, ReduceArgs& args) {
  ReduceFileSettings& s = args.settings;
  args.files.declare(flags, "grad");
  args.files.declare_grad(flags, "ranks");
  add_seed(flags, s.seed, "of stochastic rounding");
  add_step_and_tensor(flags, s.step, "of training", s.tensor_id);
  flags.setting("--mu-k K", s.mu_k, "mu is 2^(K/growth_interval)");
  flags.setting("--accumulate", s.accumulate, "micro-batches of a rank, for random draws")
      .range(1, int64_t{1} << 24);
  args.files.declare_machine(flags, "the figures, as JSON");
  flags.footer(kReduceFooter);
}

}  // namespace

const Command kReduce{"reduce", "what the wire between ranks makes of gradients",
                      with_flags<ReduceArgs, declare_reduce, reduce>, true};

}  // namespace ng::cli
