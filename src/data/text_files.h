// From what a run file names (a prepared text, files, patterns, folders) to a list of files, and to
// what was left out of folders and patterns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_identity.h"
#include "base/json_fwd.h"

namespace ng {

/// Where a list of texts was written down, for error messages.
struct TextsPlace {
  std::string place;        ///< the run file or the flag
  std::string key;          ///< "data.train"
  std::string folder = {};  ///< where names were looked for before, without them; empty: nowhere
};

/// What in a file makes it no text. Files of tokens and of documents are never looked into.
enum class BinaryMeans : uint8_t {
  nothing,  ///< any file is taken
  nul,      ///< a zero byte
  no_utf8   ///< that, or bytes that are no UTF-8
};

enum class LeftOut : uint8_t {
  pattern,  ///< its name is none of those that were asked for
  binary
};
[[nodiscard]] std::string_view name_of(LeftOut reason);

struct TextFile {
  std::string path;
  int64_t bytes = 0;
  FileIdentity identity = {};
};
struct LeftOutFile {
  TextFile file;
  LeftOut reason = LeftOut::pattern;
};

struct FoundTexts {
  std::vector<TextFile> read;         ///< in the order in which they are read
  std::vector<LeftOutFile> left_out;  ///< of the folders that were looked into; none is read
  bool by_pattern = false;            ///< some name was a folder or a pattern

  [[nodiscard]] std::vector<std::string> paths() const;
};

/// A prepared text's name; a file, read whatever it holds; a pattern: `*`, `?` and `[...]` stand
/// for characters of one part of a path and for a dot at its beginning only where the part has one,
/// `**` for any folders, none too; a folder: its `**/*.txt`. What one name means is sorted by path.
/// Throws Error for what isn't there or means no text.
[[nodiscard]] FoundTexts find_texts(const std::vector<std::string>& names, const TextsPlace& where,
                                    BinaryMeans binary);

/// Whether a name means a file or, as a pattern, some: what find_texts would not refuse.
[[nodiscard]] bool is_there(const std::string& name);

/// "5 files (1.9 MiB); left out 637 (15.1 MiB): 601 .pm, 20 .pod, 15 others by pattern, 1 binary"
[[nodiscard]] std::string text_of(const FoundTexts& found);
/// {"files", "bytes", "left_out": {"pattern": {"files", "bytes", "endings": [{"ending", "files"}]},
/// "binary": {"files", "bytes", "first"}}}: the most frequent endings, the path of one file.
[[nodiscard]] Json summary_of(const FoundTexts& found);
/// text_of() what a summary is of. Throws Json::exception for what is none.
[[nodiscard]] std::string files_text(const Json& summary);
/// Those of `texts` that `others` have too, by any name or link, each once: "texts/a.txt",
/// "texts/link.txt (texts/a.txt)".
[[nodiscard]] std::vector<std::string> shared_files(const FoundTexts& texts,
                                                    const FoundTexts& others);
/// Those that are read more than once, each once, in the same words.
[[nodiscard]] std::vector<std::string> repeated_files(const FoundTexts& texts);
/// {"files", "bytes", "read": [{"path", "bytes"}], "left_out": [{"path", "bytes", "reason"}]}
[[nodiscard]] Json list_of(const FoundTexts& found);

}  // namespace ng
