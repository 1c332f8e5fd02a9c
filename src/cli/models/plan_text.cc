#include "cli/models/plan_text.h"

#include "base/json.h"
#include "cli/output.h"

namespace ng::cli {
namespace {

/// "13.95 GiB": volumes are compared with published ones.
std::string volume_text(double bytes) {
  return bytes < 0x1p30 ? size_text(bytes) : fmt::format("{:.2f} GiB", bytes * 0x1p-30);
}

/// "80 GB", "195 kB": devices and buckets come in powers of 1,000.
std::string decimal_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string percent(const Json& change) {
  if (change == 0.0) return "as many";
  return fmt::format("{:+.1f} %", 100 * change.get<double>());
}

int64_t stages_of(const Json& plan) {
  return plan.contains("pipeline") ? std::ssize(plan["pipeline"]["stages"]) : 1;
}

std::string ranks_text(int64_t data, int64_t tensor, int64_t stages) {
  if (stages > 1)
    return fmt::format("{} that divide batch and states x {} that divide every layer x {} stages",
                       data, tensor, stages);
  if (data * tensor == 1) return "1 process, which has everything";
  std::string text = data > 1 ? fmt::format("{} that divide batch and states", data) : "";
  if (tensor > 1)
    text += fmt::format("{}{} that divide every layer", data > 1 ? " x " : "", tensor);
  return text;
}

std::string heading_text(const Json& plan) {
  return fmt::format(
      "model    {}, {} parameters on a rank\nrecipe   {}\nranks    {}\n"
      "batch    {} x {} tokens in a micro-batch; {} of each rank in a step\n",
      plan["model"].get<std::string>(), count_text(plan["parameters_of_rank"]),
      plan["recipe"].get<std::string>(), ranks_text(plan["data"], plan["tensor"], stages_of(plan)),
      plan["batch"].get<int64_t>(), plan["length"].get<int64_t>(),
      counted(plan["accumulate"], "micro-batch"));
}

/// Bytes by kind in each column; a row without any is left out, what a column lacks is blank.
std::string columns_text(std::vector<std::string> heading, std::span<const std::string> kinds,
                         std::span<const Json* const> columns) {
  Table table(std::move(heading));
  for (const std::string& kind : kinds) {
    std::vector<std::string> cells = {kind};
    bool is_empty = true;
    for (const Json* column : columns) {
      const double bytes = column->value(kind, 0.0);
      cells.push_back(bytes > 0 ? volume_text(bytes) : "");
      is_empty = is_empty && bytes == 0;
    }
    if (!is_empty) table.row(std::move(cells));
  }
  return table.text();
}

std::string rank_heading(const Json& of, const char* what) {
  return fmt::format("rank {}, {}", of["rank"].get<int>(), what);
}

/// "1 x 4096 tokens", "not even 1 x 4096 tokens".
std::string largest_text(int64_t batch, int64_t length) {
  return batch > 0 ? fmt::format("{} x {} tokens", batch, length)
                   : fmt::format("not even 1 x {} tokens", length);
}

std::string gb_text(double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); }

/// What its authors compared, as planned here and as they published it.
std::string fits_text(const Json& plan) {
  const Json& published = plan["published"];
  Table table({fmt::format("in {}", decimal_text(plan["device_bytes"])), "rank with most",
               "largest micro-batch"},
              3);
  for (const Json& fit : published["fits"])
    table.row({fit["recipe"].get<std::string>(), gb_text(fit["bytes"]),
               largest_text(fit["largest_batch"], plan["length"])});
  if (!published.contains("published_gb")) return table.text();
  const Json &bf16 = published["published_gb"]["bf16"], &fp8 = published["published_gb"]["fp8-lm"];
  const double before = bf16["1"], after = fp8["1"], of_four = fp8["4"];
  const int64_t length = published["length"];
  return table.text() +
         fmt::format(
             "FP8-LM's paper, laid out as below, 1 x {} tokens: BF16 {:.1f} GB, FP8-LM {:.1f} GB,"
             " {:+.0f} %;\n4 x {} tokens: FP8-LM {:.1f} GB. \"{:.1f} to {:.1f}\" ({:+.0f} %) is of"
             " unlike micro-batches\n",
             length, before, after, 100 * (after / before - 1), length, of_four, before, of_four,
             100 * (of_four / before - 1));
}

std::string preference_text(const Json& preference) {
  std::string text;
  for (const auto& [key, what] : {std::pair("weights", "weights of policy and reference"),
                                  {"weights_and_masters", "with masters"},
                                  {"moments", "moments"},
                                  {"states", "gradients, masters and moments"}}) {
    const Json& of = preference[key];
    text += fmt::format("{}: {}, {} in BF16, {}; in RLHF of FP8-LM's paper {:+.0f} %\n", what,
                        volume_text(of["bytes"]), volume_text(of["bytes_in_bf16"]),
                        percent(of["change"]), 100 * of["published_change"].get<double>());
  }
  return text;
}

/// A row for each stage, and how long it waits.
std::string pipeline_text(const Json& plan) {
  const Json& pipeline = plan["pipeline"];
  Table table({"stage", "blocks", "parameters", "in flight", "rank with most", "sent on",
               "sent back", "gradients and weights"});
  for (size_t i = 0; i < pipeline["stages"].size(); ++i) {
    const Json& stage = pipeline["stages"][i];
    const int64_t first = stage["first_block"], blocks = stage["blocks"];
    const auto sent = [&](const char* key) {
      return stage[key] == 0.0 ? "" : volume_text(stage[key]);
    };
    table.row({fmt::format("{}", i), fmt::format("{} to {}", first, first + blocks - 1),
               count_text(stage["parameters_of_rank"]), counted(stage["in_flight"], "micro-batch"),
               volume_text(stage["memory"]["total"]), sent("sent_forward"), sent("sent_backward"),
               volume_text(stage["payload"])});
  }
  return fmt::format(
      "{}bubble: each stage waits {:.1f} % of a step, (P - 1) / (A + P - 1) with A micro-batches,\n"
      "were all as fast; more --accumulate, less of it. All below is of stage {}, which has most:\n"
      "every kind counts with its most, activations by the blocks in flight and one block more\n\n",
      table.text(), 100 * pipeline["bubble_share"].get<double>(), pipeline["stage"].get<int>());
}

std::string memory_text(const Json& plan) {
  const Json& memory = plan["memory"];
  std::vector<std::string> kinds;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    kinds.emplace_back(name_of(static_cast<MemoryKind>(kind)));
  kinds.insert(kinds.end(), {"gaps", "total"});
  const Json *least = &memory["least"], *most = &memory["most"], *one = &memory["one_process"];
  const Json* const columns[] = {least, most, one, &(*most)["at_any_time"], &(*one)["at_any_time"]};
  std::string text =
      columns_text({"memory at the peak", rank_heading(*least, "least"),
                    rank_heading(*most, "most"), "one process",
                    fmt::format("any time, rank {}", (*most)["rank"].get<int>()), "any time, one"},
                   kinds, columns) +
      "at the peak: at the moment of a step when all kinds together take most. Kinds that peak at\n"
      "another moment, as activations and gradients do, have less then: their most is \"any "
      "time\".\n";
  const int64_t batch = plan["largest_batch"];
  const std::string device = decimal_text(plan["device_bytes"]);
  const int64_t length = plan["length"], micros = plan["accumulate"];
  text += batch > 0
              ? fmt::format("largest micro-batch in {}: {}", device, largest_text(batch, length))
              : fmt::format("{} fit in {}", largest_text(batch, length), device);
  text += micros > 1 ? fmt::format(", {} a step\n", micros) : "\n";
  if (plan["tensor"].get<int64_t>() > 1)
    text +=
        "estimated by division: gradients, activations, operands, logits and a reference between "
        "the ranks of a layer\n";
  if (plan.contains("preference")) text += preference_text(plan["preference"]);
  return plan.contains("published") ? text + fits_text(plan) : text;
}

/// Lines of what gradients and weights would be in other numbers: "  as fp32+bf16 37.20 GiB: -62.5
/// % here".
std::string against_text(const Json& payload) {
  std::string text;
  for (const Baseline& baseline : kBaselines) {
    const Json& other = payload["baselines"][std::string(baseline.name)];
    text += fmt::format("  as {} {}: {} here", baseline.name, volume_text(other["bytes"]),
                        percent(other["change"]));
    const Json& of_narrow = other["change_of_narrow"];  // 0: nothing is narrow
    if (of_narrow != 0.0 && of_narrow != other["change"])
      text += fmt::format(", {} if what this recipe leaves wide went as there", percent(of_narrow));
    text += '\n';
  }
  return text;
}

std::string traffic_text(const Json& plan) {
  const Json& traffic = plan["traffic"];
  const Json *least = &traffic["least"], *most = &traffic["most"];
  const Json* const ranks[] = {least, most};
  const std::string kinds[] = {"gradients", "weights", "activations", "scales", "control", "total"};
  std::string text = columns_text(
      {"sent in a step", rank_heading(*least, "least"), rank_heading(*most, "most")}, kinds, ranks);
  text += fmt::format(
      "gradients and weights, mean of ranks: {}; gradients in FP32 and new weights in BF16 are"
      " \"fp32+bf16\"\n{}",
      volume_text(traffic["mean_payload"]["total"]), against_text(traffic["mean_payload"]));
  if (traffic.contains("activations")) {
    const Json &five = traffic["activations"]["five_collectives"],
               &three = traffic["activations"]["three_collectives"];
    text += fmt::format(
        "activations: {} against {} in BF16, {}; of the three collectives of layers'"
        " inputs {}\n",
        volume_text(five["bytes"]), volume_text(five["bytes_in_bf16"]), percent(five["change"]),
        percent(three["change"]));
  }
  if (!plan.contains("published")) return text;
  const Json& published = plan["published"];
  const Json& payload = published["payload"];
  return text + fmt::format(
                    "laid out as published (tensor {}, pipeline {}, data {}; first stage): {}\n{}"
                    "  MS-AMP's documentation has {} GiB for fp32+bf16 and {} GiB for FP8-LM\n",
                    published["tensor"].get<int>(), published["pipeline"].get<int>(),
                    published["data"].get<int>(), volume_text(payload["total"]),
                    against_text(payload), published["published_gib"]["fp32+bf16"].get<double>(),
                    published["published_gib"]["fp8-lm"].get<double>());
}

std::string balance_text(const Json& balance) {
  return fmt::format("{:.3f} by row blocks, {:.3f} by whole tensors", balance["flat"].get<double>(),
                     balance["tensor"].get<double>());
}

/// "exact in FP32 up to 73 ranks, in FP64 up to 39,268,272,420"; empty: in neither.
std::string exact_text(const Json& exact) {
  const int64_t fp32 = exact["fp32"], fp64 = exact["fp64"];
  if (fp64 == 0) return "";
  if (fp32 == 0) return fmt::format("not exact in FP32, in FP64 up to {} ranks", count_text(fp64));
  return fmt::format("exact in FP32 up to {} ranks, in FP64 up to {}", count_text(fp32),
                     count_text(fp64));
}

/// How owners add, and how far that is exact.
std::string sums_text(const Json& many) {
  const Json& sums = many["sums"];
  const std::string kind = sums["kind"], wire = many["wire"];
  if (kind == "tree") return "of FP32 values by a tree of ranks, every sum rounded";
  if (kind == "ring")
    return fmt::format("of {}, rounded at each of {} hops", wire,
                       count_text(many["data"].get<int64_t>() - 1));
  if (kind == "codes") return fmt::format("of {}, {}", wire, exact_text(sums["exact_ranks"]));
  return fmt::format("of {} in FP64, exact of exponents at most {} apart", wire,
                     sums["exact_exponents"].get<int>());
}

std::string change_of_sums(const Json& many) {
  const Json& sums = many["sums"];
  if (sums["kind"] == "ring") {
    const std::string exact = exact_text(sums["exact_ranks"]);
    return fmt::format("gradient.reduce = \"fp32\": {}", exact.empty() ? "rounded once" : exact);
  }
  if (sums["kind"] == "codes")
    return many["data"] <= sums["exact_ranks"]["fp32"] ? "nothing: added in FP32"
                                                       : "nothing: added in FP64, rounded once";
  return many["nodes"] == many["data"] ? "nothing: ranks have one order"
                                       : "one order of nodes, too, where they sum first";
}

std::string messages_text(const Json& many) {
  if (many["nodes"] == many["data"]) return "nothing: each node has one rank of a group";
  return fmt::format("nodes sum first: {} to each node",
                     decimal_text(many["bucket_bytes_to_each_node"]));
}

std::string seconds_text(const Json& seconds) {
  return fmt::format("{:.2g} ms", 1e3 * seconds.get<double>());
}

// The items of distributed.md §8 that have numbers.
std::string many_table(const Json& many) {
  Table table({"what", "numbers", "what must change"}, 3);
  table.row({"messages",
             fmt::format("{} of a {} bucket to each rank",
                         decimal_text(many["bucket_bytes_to_each_rank"]),
                         decimal_text(many["bucket_bytes"])),
             messages_text(many)});
  table.row({"balance", balance_text(many["balance"]), "row blocks, whose scales are their own"});
  const int64_t reduces = many["amax_reduces"];
  table.row({"scales",
             reduces == 0 ? "none is of a whole tensor"
                          : fmt::format("{} small all-reduces of an amax: {}", reduces,
                                        seconds_text(many["amax_seconds"])),
             reduces == 0 ? "nothing"
                          : fmt::format("one for all tensors of a step: {}",
                                        seconds_text(many["amax_seconds_in_one"]))});
  table.row({"sums", sums_text(many), change_of_sums(many)});
  table.row({"failure",
             fmt::format("{} of states are lost with a rank", size_text(many["owned_bytes"])),
             fmt::format("copies in neighbours' memory; all ranks write checkpoints ({})",
                         size_text(many["checkpoint_bytes"]))});
  return table.text();
}

std::string many_text(const Json& plan) {
  const Json& many = plan["many_ranks"];
  return fmt::format(
      "at {} ranks ({} divide batch and states, on {} nodes of {}) each sends {}\n{}{}"
      "and pipelines beside tensor-parallel groups, with a communicator each; heartbeats and "
      "spare\n"
      "nodes; hashes of sums against silent corruption; a service that hands out data. No plan\n"
      "knows overlap, congestion and stragglers.\n",
      count_text(many["ranks"]), count_text(many["data"]), many["nodes"].get<int64_t>(),
      kRanksOfNode, volume_text(many["payload"]["total"]), against_text(many["payload"]),
      many_table(many));
}

}  // namespace

std::string plan_text(const Json& plan) {
  return fmt::format("{}\n{}{}\n{}balance of owned values, mean / largest: {}; this recipe: {}\n{}",
                     heading_text(plan), plan.contains("pipeline") ? pipeline_text(plan) : "",
                     memory_text(plan), traffic_text(plan), balance_text(plan["balance"]),
                     plan["shard"] == "flat" ? "row blocks" : "whole tensors",
                     plan.contains("many_ranks") ? "\n" + many_text(plan) : "");
}

}  // namespace ng::cli
