#include "speed/step_limit.h"

#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "speed/operation_bytes.h"
#include "speed/planned_step.h"

namespace ng {
namespace {

/// Attention's rate beside that of BF16 products: 450 of 788 TFLOP/s.  [gpu.md, §6, a guess]
constexpr double kAttentionShare = 450.0 / 788;

/// Sum over the queries of the keys that each sees; from some key of its own on it sees fewer.
double pairs_of(const AttentionShape& shape) {
  double pairs = 0;
  for (int64_t i = 0; i < shape.length; ++i)
    pairs += static_cast<double>(shape.first + i + 1 - shape.first_key(i));
  return pairs * static_cast<double>(shape.sequences);
}

/// q·k and p·v; backward the gradients of these four.
double flops_of(const AttentionShape& shape, int products) {
  return 2.0 * products * pairs_of(shape) * shape.heads * shape.head_dim;
}

struct AddWork {
  const cuda::Card& card;
  StepWork& work;

  void operator()(const Gemm& op) const {
    const OperandSpec &a = op.a->spec, &b = op.b->spec;
    const cuda::Route route = cuda::choose_route(card, {.a = a, .b = b, .sum = op.sum}).route;
    work.product_flops[static_cast<size_t>(route)] +=
        2.0 * static_cast<double>(a.rows) * static_cast<double>(b.rows) * static_cast<double>(a.k);
  }
  void operator()(const Attention& op) const { work.attention_flops += flops_of(op.shape, 2); }
  void operator()(const AttentionBackward& op) const {
    work.attention_flops += flops_of(op.shape, 4);
  }
  template <class Op>
  void operator()(const Op& op) const {
    work.bytes += streamed_bytes(op);
  }
};

/// Of a row of the probe's products: "folded mxfp4, FP32 out" is of the route `folded`.
bool is_of(std::string_view mode, std::string_view route) {
  return mode.starts_with(route) && mode.substr(route.size()).find_first_of(", ") == 0;
}

constexpr auto kRouteOf = [](size_t i) { return static_cast<cuda::Route>(i); };

}  // namespace

StepWork work_of_step(const Backend& backend, const cuda::Card& card, const ModelConfig& config,
                      const Recipe& recipe, const BenchShape& shape) {
  StepWork work{.tokens = shape.batch * shape.length};
  plan_step(backend, config, recipe, shape, [&](const Operation& operation) {
    std::visit(AddWork{card, work}, operation);
  });
  return work;
}

CardRates rates_of_probe(const Json& probe, const std::string& place) {
  constexpr double kMost = 1e9;
  const JsonObject of(probe, place);
  CardRates rates{.name = of.at("card").get<std::string>(),
                  .sm = static_cast<int>(of.integer("sm", 80, 999)),
                  .copy = 1e9 * of.number("copy_gb_per_s", 1e-9, kMost)};
  if (!of.has("products")) return rates;
  for (const Json& row : of.at("products")) {
    const JsonObject product(row, place, "products: ");
    const auto mode = product.at("mode").get<std::string>();
    for (size_t i = 0; i < cuda::kRoutes; ++i)
      if (is_of(mode + ",", cuda::name_of(kRouteOf(i))))
        rates.products[i] =
            std::max(rates.products[i], 1e12 * product.number_or("tflops", 0, kMost, 0));
  }
  rates.attention = kAttentionShare * rates.products[static_cast<size_t>(cuda::Route::bf16)];
  return rates;
}

double StepLimit::seconds() const {
  return std::accumulate(products.begin(), products.end(), attention + streams);
}

std::optional<StepLimit> limit_of(const StepWork& work, const CardRates& rates) {
  StepLimit limit;
  bool is_known = true;
  const auto seconds = [&](double amount, double rate) {
    if (amount == 0) return 0.0;
    is_known = is_known && rate > 0;
    return rate > 0 ? amount / rate : 0.0;
  };
  for (size_t i = 0; i < cuda::kRoutes; ++i)
    limit.products[i] = seconds(work.product_flops[i], rates.products[i]);
  limit.attention = seconds(work.attention_flops, rates.attention);
  limit.streams = seconds(work.bytes, rates.copy);
  return is_known ? std::optional(limit) : std::nullopt;
}

Json limit_json(const StepWork& work, const CardRates& rates) {
  const std::optional<StepLimit> limit = limit_of(work, rates);
  if (!limit) return {};
  Json seconds = {{"attention", limit->attention}, {"streams", limit->streams}};
  Json amounts = {{"attention", work.attention_flops}, {"streams", work.bytes}};
  Json per_second = {{"attention", rates.attention}, {"streams", rates.copy}};
  for (size_t i = 0; i < cuda::kRoutes; ++i) {
    if (work.product_flops[i] == 0) continue;
    const std::string route(cuda::name_of(kRouteOf(i)));
    seconds[route] = limit->products[i];
    amounts[route] = work.product_flops[i];
    per_second[route] = rates.products[i];
  }
  return {{"card", rates.name},
          {"tokens_per_second", static_cast<double>(work.tokens) / limit->seconds()},
          {"seconds", seconds},
          {"work", amounts},
          {"rates", per_second},
          {"assumed", {"attention"}}};
}

}  // namespace ng
