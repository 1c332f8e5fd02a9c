// study communication: what the wire between ranks leaves of a mean of gradients. [recipes.md §4.2;
// errata-2, 27-34; FP8-LM, 3.1]
#include "study/communication_sections.h"

namespace ng::study {
namespace {

Section scope() {
  return {.heading = "What this is",
          .paragraphs =
              {"Ranks are simulated in one process: each has a gradient of 64 × 64 drawn numbers. "
               "They are encoded, added and averaged by the functions that training and reduce "
               "use, in the order of the ring or of the ranks, so the bits are those that as many "
               "processes would get. SNR is that of the mean of all ranks against their mean in "
               "FP64.",
               "What this cannot show is time: how fast a network carries the bytes, what of it "
               "hides behind the backward pass, stragglers and congestion need a network. Nor does "
               "it say what an SNR does to a loss. Gradients of a run are not drawn like these: "
               "narrowgauge reduce does the same to yours."},
          .grids = {},
          .charts = {}};
}

Report communication(const Settings& settings) {
  Progress progress(settings, communication_sum_steps(settings) +
                                  communication_scale_steps(settings) +
                                  communication_format_steps(settings));
  Report report{.name = "communication",
                .title = "What narrow numbers on the wire leave of a mean of gradients",
                .sections = {scope()}};
  for (Section& section : communication_sum_sections(settings, progress))
    report.sections.push_back(std::move(section));
  report.sections.push_back(communication_scale_section(settings, progress));
  report.sections.push_back(communication_format_section(settings, progress));
  return report;
}

}  // namespace

extern const Study kCommunication;
const Study kCommunication{
    "communication",
    "sums of gradients over 2 to 128 ranks: pre-, post-, auto-scaling, exact; formats on the wire",
    communication};

}  // namespace ng::study
