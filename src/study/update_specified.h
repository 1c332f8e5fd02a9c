// The specification's figures of one step. [recipes.md §5; errata-2, 24, 25]
#pragma once

#include <cstddef>
#include <string_view>

namespace ng::study {

/// Of measure "rho", "pi" or "eps" of a format (weight_formats()), a way ("stochastic mean": in
/// expectation over the random bits) and a learning rate 10^-(rate + 1), independent u. NaN: none.
[[nodiscard]] double specified_figure(std::string_view measure, std::string_view format,
                                      std::string_view way, size_t rate);

}  // namespace ng::study
