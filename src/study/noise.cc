// study noise: the theory of noise on weights, measured. [source 002; recipes.md §1]
#include "study/noise_sections.h"

namespace ng::study {
namespace {

/// A part of the page, and the steps of progress that it takes. Another, such as the speed of
/// drawing noise (source 002's Fig. 6), is a row here.
struct Part {
  Section (*section)(const Settings& settings, Progress& progress);
  int64_t steps = 1;
};
constexpr Part kParts[] = {{noise_draws_section},    {noise_cast_section},
                           {noise_survival_section}, {noise_precision_section},
                           {noise_blocks_section},   {noise_rivals_section},
                           {noise_decay_section}};

Report noise(const Settings& settings) {
  int64_t steps = 0;
  for (const Part& part : kParts) steps += part.steps;
  Progress progress(settings, steps);
  Report report{.name = "noise",
                .title = "What noise on weights is, and what a narrow number keeps of it",
                .sections = {}};
  for (const Part& part : kParts) report.sections.push_back(part.section(settings, progress));
  return report;
}

}  // namespace

extern const Study kNoise;
const Study kNoise{
    "noise", "noise on weights: its draws, what casts keep of it, formats it needs, rivals", noise};

}  // namespace ng::study
