// Gradients between ranks whose messages torch.distributed carries.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "backend/gradient_scale.h"
#include "bind.h"
#include "comm/auto_scale.h"
#include "comm/gradient_exchange.h"
#include "comm/gradient_sum.h"
#include "recipe/recipe.h"
#include "run/backends.h"
#include "tools/wire_gradient.h"

namespace ng::python {
namespace {

using Gradient = nb::ndarray<nb::pytorch, float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Message = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Memory of the exchange, which lasts as long as it; messages that are sent are only read.
Message message_of(std::span<const std::byte> bytes) {
  auto* const data = const_cast<std::byte*>(bytes.data());  // NOLINT
  return Message(data, {bytes.size()}, nb::none());
}

/// Ranks of a process group: `exchange` takes [(rank, bytes)] to send and to receive.
class GroupComm final : public Comm {
 public:
  GroupComm(int rank, int ranks, nb::callable exchange)
      : Comm(rank, ranks), exchange_(std::move(exchange)) {}

  [[nodiscard]] std::unique_ptr<Comm> split(int /*color*/) override {
    NG_CHECK(false, rank());
    return nullptr;
  }

 private:
  void do_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    const Locked locked;
    nb::list sends, receives;
    for (const Outgoing& message : out)
      if (!message.bytes.empty())
        sends.append(nb::make_tuple(message.to, message_of(message.bytes)));
    for (const Incoming& message : in)
      if (!message.bytes.empty())
        receives.append(nb::make_tuple(message.from, message_of(message.bytes)));
    exchange_(sends, receives);
  }
  void do_all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     BytesByRank bytes) override {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    size_t at = 0;
    for (int other = 0; other < ranks(); ++other) {
      const auto theirs = all.subspan(at, bytes[static_cast<size_t>(other)]);
      at += theirs.size();
      if (other != rank()) {
        out.push_back({.to = other, .kind = {}, .bytes = mine});
        in.push_back({.from = other, .bytes = theirs});
      } else if (theirs.data() != mine.data()) {
        std::copy(mine.begin(), mine.end(), theirs.begin());
      }
    }
    do_exchange(out, in);
  }
  void do_broadcast(std::span<std::byte> bytes, int root) override {
    if (rank() != root) return do_receive(bytes, root);
    std::vector<Outgoing> out;
    for (int other = 0; other < ranks(); ++other)
      if (other != root) out.push_back({.to = other, .kind = {}, .bytes = bytes});
    do_exchange(out, {});
  }
  void do_send(std::span<const std::byte> bytes, int to) override {
    const Outgoing out{.to = to, .kind = {}, .bytes = bytes};
    do_exchange({&out, 1}, {});
  }
  void do_receive(std::span<std::byte> bytes, int from) override {
    const Incoming in{.from = from, .bytes = bytes};
    do_exchange({}, {&in, 1});
  }
  void do_barrier() override {
    std::byte mine{};
    std::vector<std::byte> all(static_cast<size_t>(ranks()));
    const std::vector<size_t> one(all.size(), 1);
    do_all_gather({&mine, 1}, all, one);
  }

  nb::callable exchange_;
};

/// Gradients of a model's parameters, one after the other, the same on every rank.
class GradientReducer {
 public:
  /// `narrow`: the tensors that go as gradient.communicate says.
  GradientReducer(const Recipe& recipe, uint64_t seed, int rank, int ranks,
                  const std::vector<uint32_t>& narrow, nb::callable exchange)
      : gradient_(recipe.settings(0).gradient),
        seed_(seed),
        comm_(rank, ranks, std::move(exchange)),
        backend_(make_backend("cpu", {1})) {
    if (!gradient_.auto_scale) return;
    for (const uint32_t tensor : narrow)
      moving_[tensor] = {.scale = first_auto_scale(gradient_, ranks)};
  }

  /// `gradient` (r, c) becomes the mean over ranks, NaN where one is not finite. `tensor`: one of
  /// those; none: it goes in FP32. `first_micro`: of this rank.
  void reduce(const Gradient& gradient, std::optional<uint32_t> tensor, uint32_t step,
              uint32_t first_micro) {
    const std::span<float> values(gradient.data(), gradient.size());
    const auto rows = static_cast<int64_t>(gradient.shape(0)),
               cols = static_cast<int64_t>(gradient.shape(1));
    const Unlocked unlocked;
    const Operand cast = tensor ? gradient_.communicate : operand_of("fp32");
    const auto moving = tensor ? moving_.find(*tensor) : moving_.end();
    const AutoScale scale = moving == moving_.end() ? AutoScale{} : moving->second.scale;
    float amax = amax_of(values);
    comm_.max({&amax, 1});
    if (!std::isfinite(amax)) {
      std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    const TemporaryTensor wire(*backend_, cast, rows, cols);
    store_for_wire(
        *backend_, values,
        {.seed = seed_, .tensor = tensor.value_or(0), .step = step, .micro = first_micro}, scale,
        amax, wire.stored());
    const HostGradient mine(*backend_, wire.view());
    const float encode_scale =
        ranks_share_scale(cast) ? shared_encode_scale(cast, amax, &scale) : 1.0f;
    const std::vector<Piece> pieces = even_pieces(cast, rows, comm_.ranks());
    const ReducedGradient reduced =
        reduce_gradient(comm_, mine.view(), {cast, gradient_.reduce, encode_scale}, pieces);
    if (moving != moving_.end()) move(moving->second, mine.view(), reduced.largest, rows * cols);
    std::vector<size_t> bytes;
    for (const Piece& piece : pieces)
      bytes.push_back(static_cast<size_t>(piece.rows * cols) * sizeof(float));
    comm_.all_gather(Traffic::weights, std::as_bytes(std::span(reduced.mean)),
                     std::as_writable_bytes(values), bytes);
  }

  [[nodiscard]] bool counts_good_steps() const { return gradient_.counts_good_steps(); }
  /// The auto scales by tensor: (mu, k, good steps), the last 0 where those are not counted.
  [[nodiscard]] std::map<uint32_t, std::tuple<float, float, float>> scales() const {
    std::map<uint32_t, std::tuple<float, float, float>> scales;
    for (const auto& [tensor, moving] : moving_)
      scales[tensor] = {moving.scale.mu, moving.scale.k, moving.good_steps};
    return scales;
  }
  /// (k, good steps) of all of them.
  void set_scales(const std::map<uint32_t, std::pair<float, float>>& scales) {
    const auto tensor_of = [](const auto& row) { return row.first; };
    if (!std::ranges::equal(scales, moving_, {}, tensor_of, tensor_of))
      throw Error({.place = "",
                   .key = "scales",
                   .problem = fmt::format("of {} tensors where {} have one, or of others",
                                          scales.size(), moving_.size()),
                   .remedy = "the state of a hook of the same recipe and model"});
    for (const auto& [tensor, of] : scales) {
      const auto [k, good_steps] = of;
      moving_[tensor] = {.scale = auto_scale_of(k, gradient_.growth_interval),
                         .good_steps = good_steps};
    }
  }

 private:
  struct Moving {
    AutoScale scale;
    float good_steps = 0;
  };

  void move(Moving& moving, const ConstView& mine, uint64_t on_ring, int64_t size) {
    std::vector<uint64_t> counts = {count_largest(mine), on_ring};
    comm_.sum(counts);
    const bool is_ring = gradient_.reduce == GradientRecipe::Reduce::wire;
    moving.scale = moved_scale(gradient_, moving.scale, counts[is_ring ? 1 : 0],
                               is_ring ? size : comm_.ranks() * size, moving.good_steps);
  }

  GradientRecipe gradient_;
  uint64_t seed_;
  GroupComm comm_;
  std::unique_ptr<Backend> backend_;
  std::map<uint32_t, Moving> moving_;  ///< of all that is narrow where gradient.auto_scale is
};

}  // namespace

void add_gradients(nb::module_& module) {
  nb::class_<GradientReducer>(module, "GradientReducer")
      .def(
          nb::init<const Recipe&, uint64_t, int, int, const std::vector<uint32_t>&, nb::callable>(),
          "recipe"_a, "seed"_a, "rank"_a, "ranks"_a, "narrow"_a, "exchange"_a)
      .def("reduce", &GradientReducer::reduce, "gradient"_a, "tensor"_a.none(), "step"_a,
           "first_micro"_a)
      .def_prop_ro("counts_good_steps", &GradientReducer::counts_good_steps)
      .def_prop_ro("scales", &GradientReducer::scales)
      .def("set_scales", &GradientReducer::set_scales, "scales"_a);
}

}  // namespace ng::python
