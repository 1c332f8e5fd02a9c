#include "tools/reduce_file.h"

#include <cmath>
#include <limits>
#include <map>

#include "backend/backend_memory.h"
#include "backend/gradient_scale.h"
#include "base/error.h"
#include "comm/gradient_exchange.h"
#include "comm/gradient_sum.h"
#include "comm/launch.h"
#include "comm/thread_ranks.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "tools/reduce_input.h"
#include "tools/stored_values.h"
#include "tools/tensor_output.h"
#include "tools/wire_gradient.h"

namespace ng {
namespace {

constexpr const char* kReduceMark = "reduce";  // of the metadata of what is written here

using Bytes = std::vector<std::byte>;

RandomKey key_of(const ReduceFileSettings& settings) {
  return {.seed = settings.seed, .tensor = settings.tensor_id, .step = settings.step};
}

/// Everything that ranks agree on.
struct Job {
  const ReduceInput& input;
  const GradientRecipe& gradient;
  const ReduceFileSettings& settings;
  AutoScale scale;
};

/// What of one rank is written: its codes, one to an element, and its scales.
struct Sent {
  Bytes codes;
  std::vector<float> scales;  ///< of blocks; the second level last
  uint64_t saturated = 0;
};

/// What rank 0 knows in the end.
struct Outcome {
  bool is_skipped = false;
  float decode_scale = 1;  ///< fl(1/S)
  Bytes codes;             ///< of all ranks
  std::vector<float> scales;
  std::vector<float> sum, mean;
  std::vector<uint64_t> saturated;
  uint64_t saturated_sums = 0;
  int64_t mu_k = 0;
  BytesByTraffic sent{};
};

template <class Value>
Bytes bytes_of_all(const std::vector<Value>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Of a gradient that is encoded for the wire.
Sent sent_of(const Backend& backend, const Stored& wire) {
  const ElementFormat& element = *wire.cast.element;
  Sent sent;
  if (element.bits > 16) {
    sent.codes = bytes_of_all(download(backend, wire.view));
    return sent;
  }
  const std::vector<uint16_t> codes = codes_of(backend, wire.view);
  const std::vector<float> table = decode_table(element);
  const float largest = max_value(element);
  for (const uint16_t code : codes) sent.saturated += std::fabs(table[code]) == largest ? 1 : 0;
  sent.codes = code_bytes(codes, element);
  if (ranks_share_scale(wire.cast)) return sent;
  sent.scales = scales_of(backend, wire);
  if (wire.view.scales.tensor != nullptr)
    sent.scales.push_back(tensor_scale_of(backend, wire.view));
  return sent;
}

/// Appends `mine` of every rank, in their order, to `all` of rank 0. `sizes`: values of each.
template <class Value>
void collect(Comm& comm, const std::vector<Value>& mine, const std::vector<size_t>& sizes,
             std::vector<Value>& all) {
  if (comm.rank() != 0) return comm.send(Traffic::files, std::as_bytes(std::span(mine)), 0);
  all.insert(all.end(), mine.begin(), mine.end());
  for (int from = 1; from < comm.ranks(); ++from) {
    std::vector<Value> theirs(sizes[static_cast<size_t>(from)]);
    comm.receive(std::as_writable_bytes(std::span(theirs)), from);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
}

template <class Value>
void collect(Comm& comm, const std::vector<Value>& mine, std::vector<Value>& all) {
  collect(comm, mine, std::vector<size_t>(static_cast<size_t>(comm.ranks()), mine.size()), all);
}

/// k of the next step, none of those before having been good in a row. [errata-2, 31, 32]
int64_t next_k(const Job& job, int ranks, uint64_t saturated, uint64_t on_ring) {
  if (!job.gradient.auto_scale) return job.settings.mu_k;
  const bool is_ring = job.gradient.reduce == GradientRecipe::Reduce::wire;
  const int64_t size = job.input.rows() * job.input.cols();
  float good_steps = 0;
  return static_cast<int64_t>(moved_scale(job.gradient, job.scale, is_ring ? on_ring : saturated,
                                          is_ring ? size : ranks * size, good_steps)
                                  .k);
}

/// What all ranks have sent since `before`.
BytesByTraffic sent_since(Comm& comm, const BytesByTraffic& before) {
  BytesByTraffic sent = since(before, comm.sent());
  comm.sum(sent);
  return sent;
}

/// One rank's part of the reduction.
Outcome reduce(Comm& comm, const Job& job, Threads threads) {
  const Operand& cast = job.gradient.communicate;
  const std::unique_ptr<Backend> backend =
      make_backend(job.settings.backend, threads, job.settings.thread_order);
  const std::vector<float> gradient = job.input.gradient(comm.rank());
  const BytesByTraffic before = comm.sent();
  Outcome outcome;
  outcome.mu_k = job.settings.mu_k;
  float amax = amax_of(gradient);
  comm.max({&amax, 1});
  outcome.is_skipped = !std::isfinite(amax);
  if (outcome.is_skipped) return outcome;

  const TemporaryTensor wire(*backend, cast, job.input.rows(), job.input.cols());
  RandomKey key = key_of(job.settings);
  key.micro = static_cast<uint32_t>(comm.rank() * job.settings.accumulate);
  store_for_wire(*backend, gradient, key, job.scale, amax, wire.stored());
  const Sent sent = sent_of(*backend, wire.stored());
  const float encode_scale =
      ranks_share_scale(cast) ? shared_encode_scale(cast, amax, &job.scale) : 1.0f;
  const std::vector<Piece> pieces = even_pieces(cast, job.input.rows(), comm.ranks());
  const HostGradient mine(*backend, wire.view());
  const ReducedGradient reduced =
      reduce_gradient(comm, mine.view(), {cast, job.gradient.reduce, encode_scale}, pieces);
  std::vector<uint64_t> counts = {sent.saturated, reduced.largest};
  comm.sum(counts);
  outcome.sent = sent_since(comm, before);
  outcome.decode_scale = 1.0f / encode_scale;
  outcome.saturated_sums = counts[1];
  outcome.mu_k = next_k(job, comm.ranks(), counts[0], counts[1]);

  std::vector<size_t> sizes;
  for (const Piece& piece : pieces)
    sizes.push_back(static_cast<size_t>(piece.rows * job.input.cols()));
  collect(comm, reduced.sum, sizes, outcome.sum);
  collect(comm, reduced.mean, sizes, outcome.mean);
  collect(comm, sent.codes, outcome.codes);
  collect(comm, sent.scales, outcome.scales);
  collect(comm, std::vector<uint64_t>{sent.saturated}, outcome.saturated);
  return outcome;
}

/// 10·log10 of the power of the true mean over that of the error.
double snr_db(const std::vector<double>& truth, const std::vector<float>& mean) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double error = static_cast<double>(mean[i]) - truth[i];
    signal += truth[i] * truth[i];
    noise += error * error;
  }
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

/// What each rank's own scales are written as: of blocks, and the second level.
struct OwnScales {
  std::vector<float> blocks, levels;
};
OwnScales split(const std::vector<float>& scales, int64_t ranks, bool has_level) {
  OwnScales own;
  const auto each = std::ssize(scales) / ranks, blocks = each - (has_level ? 1 : 0);
  for (auto at = scales.begin(); at != scales.end(); at += each) {
    own.blocks.insert(own.blocks.end(), at, at + blocks);
    own.levels.insert(own.levels.end(), at + blocks, at + each);
  }
  return own;
}

void write(const std::string& path, const Job& job, const Outcome& outcome,
           const std::map<std::string, std::string>& metadata) {
  const Operand& cast = job.gradient.communicate;
  const auto [ranks, rows, cols] =
      std::tuple(job.input.ranks(), job.input.rows(), job.input.cols());
  const uint8_t skip = outcome.is_skipped ? 1 : 0;
  const OwnScales own = split(outcome.scales, ranks, cast.tensor_scale != ScaleKind::none);
  std::vector<io::SafetensorsTensor> tensors;
  if (!outcome.is_skipped) {
    const bool is_fp32 = cast.element->bits > 16;
    tensors.push_back({"codes",
                       is_fp32 ? "F32" : code_dtype(*cast.element),
                       {ranks, rows, cols},
                       outcome.codes.data()});
    if (own.blocks.empty()) {
      tensors.push_back({"scale", "F32", {1}, &outcome.decode_scale});
    } else {
      const ScaleShape shape = scale_shape(cast, rows, cols);
      tensors.push_back({"scale", "F32", {ranks, shape.rows, shape.cols}, own.blocks.data()});
    }
    if (!own.levels.empty()) tensors.push_back({"tensor_scale", "F32", {ranks}, own.levels.data()});
    tensors.push_back({"sum", "F32", {rows, cols}, outcome.sum.data()});
    tensors.push_back({"mean", "F32", {rows, cols}, outcome.mean.data()});
    tensors.push_back({"saturated", "I64", {ranks}, outcome.saturated.data()});
  }
  tensors.push_back({"mu_k", "I64", {1}, &outcome.mu_k});
  tensors.push_back({"skip", "U8", {1}, &skip});
  io::write_safetensors(path, tensors, metadata);
}

/// mu as settings ask for it. Throws Error where it cannot be so, or would do nothing.
AutoScale scale_of(const GradientRecipe& gradient, const ReduceFileSettings& settings) {
  const auto refuse = [&](const std::string& problem, const std::string& remedy) {
    throw Error({.place = "--mu-k",
                 .key = "",
                 .problem = fmt::format("{}: {}", settings.mu_k, problem),
                 .remedy = remedy});
  };
  if (settings.mu_k != 0 && !ranks_share_scale(gradient.communicate))
    refuse(fmt::format("{} has no scale that ranks share", describe(gradient.communicate)), "0");
  const int64_t most = 24 * gradient.growth_interval;
  if (settings.mu_k < -most || settings.mu_k > most)
    refuse("more than 24 growth_intervals from 0", fmt::format("from {} to {}", -most, most));
  return auto_scale_of(static_cast<double>(settings.mu_k), gradient.growth_interval);
}

void check_fits(const std::string& in, const ReduceInput& input, const ReduceFileSettings& settings,
                const Comm& world) {
  const bool is_simulated = world.ranks() == 1 && launch().starter.empty();
  if (!is_simulated && world.ranks() != input.ranks())
    throw Error(
        {.place = in,
         .key = "grad",
         .problem = fmt::format("holds gradients of {} ranks, but {} {} started", input.ranks(),
                                world.ranks(), world.ranks() == 1 ? "was" : "were"),
         .remedy = fmt::format("mpirun -n {}, or no mpirun", input.ranks())});
  if (settings.accumulate > (int64_t{1} << 24) / input.ranks())
    throw Error({.place = "--accumulate",
                 .key = "",
                 .problem = fmt::format("{} micro-batches of each of {} ranks", settings.accumulate,
                                        input.ranks()),
                 .remedy = "at most 16777216 together"});
}

}  // namespace

ReduceFileReport reduce_file(const std::string& in, const std::string& out, const Recipe& recipe,
                             const ReduceFileSettings& settings, Comm& world) {
  require_tensor_output(out, in, recipe, kReduceMark, "a reduction");
  const ReduceInput input(in, settings.tensors);
  check_fits(in, input, settings, world);
  const GradientRecipe& gradient = recipe.settings(0).gradient;
  const Job job{input, gradient, settings, scale_of(gradient, settings)};
  Outcome outcome;
  if (world.ranks() > 1) {
    outcome = reduce(world, job, settings.threads);
  } else {
    run_ranks(static_cast<int>(input.ranks()), [&](Comm& comm) {
      Outcome of_rank = reduce(comm, job, Threads{1});
      if (comm.rank() == 0) outcome = std::move(of_rank);
    });
  }
  ReduceFileReport report{.ranks = input.ranks(),
                          .rows = input.rows(),
                          .cols = input.cols(),
                          .wire = describe(gradient.communicate),
                          .is_ring = gradient.reduce == GradientRecipe::Reduce::wire,
                          .is_skipped = outcome.is_skipped,
                          .sent = outcome.sent,
                          .saturated = outcome.saturated,
                          .saturated_sums = outcome.saturated_sums,
                          .mu_k = outcome.mu_k,
                          .unread = input.unread()};
  if (world.rank() != 0) return report;
  if (!outcome.is_skipped) report.snr_db = snr_db(input.mean(), outcome.mean);
  std::map<std::string, std::string> metadata =
      tensor_metadata(kReduceMark, report.wire, recipe, key_of(settings));
  metadata["mu_k"] = std::to_string(settings.mu_k);
  metadata["accumulate"] = std::to_string(settings.accumulate);
  write(out, job, outcome, metadata);
  return report;
}

}  // namespace ng
