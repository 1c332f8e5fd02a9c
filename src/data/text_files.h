// From what a run file names (a prepared text, files, globs, folders) to a list of files.
#pragma once

#include <string>
#include <vector>

namespace ng {

/// Where a list of texts was written down, for error messages.
struct TextsPlace {
  std::string place;  ///< the run file or the flag
  std::string key;    ///< "data.train"
};

/// Files in the order in which they are read: a prepared text's name; a file; a folder: all its
/// *.txt, also in folders below, sorted by path; a glob: what it matches, sorted. Throws Error for
/// what isn't there or matches nothing.
[[nodiscard]] std::vector<std::string> find_texts(const std::vector<std::string>& names,
                                                  const TextsPlace& where);

}  // namespace ng
