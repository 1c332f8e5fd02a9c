// A model on its way to another program, as a user asks for it. [interop.md 1, 2]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "io/model_weights.h"

namespace ng {

struct ExportRequest {
  std::string model, out;  ///< a folder, also of a run, or a GGUF file; a file or folder
  std::string base{};      ///< of a PEFT folder, in place of the one it names; empty: that
  std::string to;          ///< "gguf" or "hf"
  std::string type;        ///< one of gguf_export_types() or hf_export_types()
  std::vector<std::pair<std::string, std::string>> keep;  ///< gguf: patterns and their types
  bool trained = false;  ///< codes and scales are those of fprop's weight operand
  std::string recipe;    ///< of `trained`; empty: that of the run that the model lies in
  std::string phase{};   ///< of that recipe, as --phase says; empty: the last
  std::optional<std::pair<int, int>> block;  ///< hf: rows and columns that share a scale
  bool share_scales = false;                 ///< hf: one scale of q, k, v and one of gate, up
  Threads threads;
};

struct ExportedModel {
  std::vector<std::string> notes;         ///< what the user should know of it
  std::optional<TrainedNumbers> trained;  ///< whose codes it holds, where that was asked for
};

/// Writes it. Throws Error as export_gguf and export_hf do, and
/// where OUT is a file that is read or anything but what an export writes. Then nothing is written.
ExportedModel export_model(ExportRequest request);

}  // namespace ng
