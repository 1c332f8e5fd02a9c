#include "study/update_specified.h"

#include "study/grid.h"

namespace ng::study {
namespace {

/// By learning rate from 1e-1 on. Left out: single draws of stochastic rounding below 1e-4, and
/// what fewer than about a thousand of the 2^20 weights decide.
struct Row {
  std::string_view format, way, measure;
  double figures[8];
};
constexpr double kNo = kNone;
constexpr Row kRows[] = {
    {"E4M3", "nearest", "rho", {1.03, .68, .23, 0, 0, 0, 0, 0}},
    {"E4M3", "nearest", "pi", {.995, .351, .036, 0, 0, 0, 0, 0}},
    {"E4M3", "nearest", "eps", {.22, .84, .99, 1, 1, 1, 1, 1}},
    {"E4M3", "stochastic mean", "rho", {1.07, 2.4, 7.7, 24, kNo, kNo, kNo, kNo}},
    {"E4M3", "stochastic mean", "pi", {1, 1, 1, 1, 1, 1, kNo, kNo}},
    {"E4M3", "stochastic mean", "eps", {.30, 1.36, 1.9, 2.0, 2.0, kNo, kNo, kNo}},
    {"E4M3", "precision_aware", "rho", {1, 1, 1.01, .99, kNo, kNo, 0, 0}},
    {"E4M3", "precision_aware", "pi", {.963, .583, .275, .104, kNo, kNo, 0, 0}},
    {"E4M3", "precision_aware", "eps", {.23, .88, 1.1, 1.05, 1, 1, 1, 1}},
    {"E4M3, pow2 scale", "nearest", "rho", {kNo, kNo, kNo, .070, kNo, kNo, kNo, kNo}},
    {"FP16", "nearest", "rho", {kNo, kNo, 1.02, .75, .25, .079, kNo, kNo}},
    {"FP16", "stochastic mean", "rho", {kNo, kNo, 1.04, 2.1, 6.7, 21, kNo, kNo}},
    {"FP16", "stochastic mean", "pi", {1, 1, 1, 1, 1, 1, 1, .36}},
    {"FP16", "precision_aware", "rho", {1, 1, 1, 1, 1, 1, 1, 1}},
    {"FP16", "precision_aware", "pi", {kNo, kNo, .98, .62, .30, .14, .064, .030}},
    {"BF16", "nearest", "rho", {1, 1.01, .82, .28, .089, kNo, kNo, kNo}},
    {"BF16", "nearest", "pi", {1, 1, .521, .057, .006, kNo, kNo, kNo}},
    {"BF16", "nearest", "eps", {.014, .14, .76, .98, 1, 1, 1, 1}},
    {"BF16", "stochastic mean", "rho", {1, 1.03, 1.92, 6.0, kNo, kNo, kNo, kNo}},
    {"BF16", "stochastic mean", "pi", {1, 1, 1, 1, 1, 1, 1, .36}},
    {"BF16", "stochastic mean", "eps", {.019, .19, 1.15, 1.8, kNo, kNo, kNo, kNo}},
    {"BF16", "precision_aware", "rho", {1, 1, 1, 1.01, 1.01, 1.01, .99, 1}},
    {"BF16", "precision_aware", "pi", {1, .984, .672, .321, .150, .070, .032, .015}},
    {"BF16", "precision_aware", "eps", {.014, .14, .77, 1.1, 1.1, 1.05, 1, 1}},
};

}  // namespace

double specified_figure(std::string_view measure, std::string_view format, std::string_view way,
                        size_t rate) {
  for (const Row& row : kRows)
    if (row.measure == measure && row.format == format && row.way == way)
      return rate < std::size(row.figures) ? row.figures[rate] : kNone;
  return kNone;
}

}  // namespace ng::study
