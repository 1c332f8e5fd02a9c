// study noise: the theory of noise on weights, measured. [source 002; recipes.md §1]
#include <iterator>

#include "study/noise_sections.h"

namespace ng::study {
namespace {

/// The parts of the page; each takes one step of `progress`.
constexpr Section (*kParts[])(const Settings& settings, Progress& progress) = {
    noise_draws_section,  noise_cast_section,   noise_survival_section, noise_precision_section,
    noise_blocks_section, noise_rivals_section, noise_decay_section,    noise_speed_section};

Report noise(const Settings& settings) {
  Progress progress(settings, std::ssize(kParts));
  Report report{.name = "noise",
                .title = "What noise on weights is, and what a narrow number keeps of it",
                .sections = {}};
  for (const auto section : kParts) report.sections.push_back(section(settings, progress));
  return report;
}

}  // namespace

extern const Study kNoise;
const Study kNoise{
    "noise", "noise on weights: its draws, what casts keep of it, formats it needs, rivals", noise};

}  // namespace ng::study
