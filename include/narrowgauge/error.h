// What a call refuses.
#pragma once

#include <stdexcept>
#include <string>

#include "narrowgauge/export.h"

namespace narrowgauge {

/// An argument that makes no sense: an unknown format, sizes that disagree. what() is one line,
/// "<problem>: <remedy>". Every function of the library may throw it, std::bad_alloc where memory
/// runs out, and std::logic_error for a defect of the library. Nothing prints or exits.
class NARROWGAUGE_API Error : public std::runtime_error {
 public:
  Error(std::string problem, std::string remedy);
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;

  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  [[nodiscard]] const std::string& remedy() const noexcept { return remedy_; }  ///< may be empty

 private:
  std::string problem_;
  std::string remedy_;
};

}  // namespace narrowgauge
