#include "tokenizer/rewritten_text.h"

#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace ng {
namespace {

const icu::Normalizer2* icu_normalizer(UnicodeForm form, UErrorCode& failure) {
  switch (form) {
    case UnicodeForm::nfc:
      return icu::Normalizer2::getNFCInstance(failure);
    case UnicodeForm::nfd:
      return icu::Normalizer2::getNFDInstance(failure);
    case UnicodeForm::nfkc:
      return icu::Normalizer2::getNFKCInstance(failure);
    default:
      return icu::Normalizer2::getNFKDInstance(failure);
  }
}

/// By the tables of Unicode 9, as in tokenizers: characters that came later stay and part others.
const icu::Normalizer2& normalizer_of(UnicodeForm form) {
  static const auto kNormalizers = [] {
    UErrorCode failure = U_ZERO_ERROR;
    static const icu::UnicodeSet kKnown(u"[:age=9.0:]", failure);
    std::array<std::unique_ptr<icu::FilteredNormalizer2>, 4> made;
    for (size_t i = 0; i < made.size(); ++i)
      made[i] = std::make_unique<icu::FilteredNormalizer2>(
          *icu_normalizer(static_cast<UnicodeForm>(i), failure), kKnown);
    NG_CHECK(U_SUCCESS(failure), int(failure));
    return made;
  }();
  return *kNormalizers[static_cast<size_t>(form)];
}

}  // namespace

/// Writes a new version from the newest, from left to right.
class RewrittenText::Writer {
 public:
  explicit Writer(const RewrittenText& of) : old_(of.text_), with_places_(of.with_places_) {
    version_.text.reserve(old_.size() + old_.size() / 8);
  }

  void copy(size_t bytes) {
    if (bytes == 0) return;
    begin_run(true);
    version_.text += old_.substr(done_, bytes);
    done_ += bytes;
  }
  void replace(size_t bytes, std::string_view by) {
    begin_run(false);
    version_.text += by;
    done_ += bytes;
  }
  /// Copies what is left.
  [[nodiscard]] Version finish() {
    copy(old_.size() - done_);
    begin_run(true);
    return std::move(version_);
  }

 private:
  void begin_run(bool is_copied) {
    if (!with_places_) return;
    version_.runs.push_back(
        {static_cast<int64_t>(version_.text.size()), static_cast<int64_t>(done_), is_copied});
  }

  std::string_view old_;
  bool with_places_;
  size_t done_ = 0;
  Version version_;
};

void RewrittenText::take(Version version) {
  text_ = versions_.emplace_back(std::move(version)).text;
}

int64_t RewrittenText::place_of(int64_t at) const {
  for (auto version = versions_.rbegin(); version != versions_.rend(); ++version) {
    const auto behind =
        std::upper_bound(version->runs.begin(), version->runs.end(), at,
                         [](int64_t place, const Run& run) { return place < run.at; });
    const Run& run = *(behind - 1);
    at = run.from + (run.is_copied ? at - run.at : 0);
  }
  return at;
}

void RewrittenText::make_valid() {
  std::string_view rest = text_.substr(ascii_prefix(text_));
  if (rest.empty()) return;
  Writer writer(*this);  // copies nothing before there is a reason
  size_t valid = text_.size() - rest.size();
  bool is_changed = false;
  while (!rest.empty()) {
    const Utf8Character character = next_character(rest);
    if (character.valid) {
      valid += character.bytes;
    } else {
      writer.copy(valid);
      writer.replace(character.bytes, kReplacementCharacter);
      valid = 0;
      is_changed = true;
    }
    rest.remove_prefix(character.bytes);
    const size_t ascii = ascii_prefix(rest);
    rest.remove_prefix(ascii);
    valid += ascii;
  }
  if (is_changed) take(writer.finish());
}

void RewrittenText::normalize(UnicodeForm form) {
  if (ascii_prefix(text_) == text_.size()) return;
  UErrorCode failure = U_ZERO_ERROR;
  const icu::Normalizer2& normalizer = normalizer_of(form);
  if (text_.size() > size_t(std::numeric_limits<int32_t>::max()))
    throw Error({.key = "text to normalize",
                 .problem = fmt::format("{} bytes in one piece", text_.size()),
                 .remedy = "at most 2 GiB, or several documents"});
  const icu::StringPiece old(text_.data(), static_cast<int32_t>(text_.size()));
  if (normalizer.isNormalizedUTF8(old, failure)) return;
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized, old.length());
  icu::Edits edits;
  normalizer.normalizeUTF8(0, old, sink, &edits, failure);
  NG_CHECK(U_SUCCESS(failure), int(failure));
  Writer writer(*this);
  for (icu::Edits::Iterator edit = edits.getFineIterator(); edit.next(failure);) {
    const auto old_bytes = static_cast<size_t>(edit.oldLength());
    const std::string_view by = std::string_view(normalized)
                                    .substr(static_cast<size_t>(edit.destinationIndex()),
                                            static_cast<size_t>(edit.newLength()));
    if (edit.hasChange())
      writer.replace(old_bytes, by);
    else
      writer.copy(old_bytes);
  }
  take(writer.finish());
}

void RewrittenText::prepend(std::string_view words) {
  if (text_.empty()) return;
  Writer writer(*this);
  writer.replace(0, words);
  take(writer.finish());
}

void RewrittenText::replace(std::string_view from, std::string_view to) {
  size_t found = text_.find(from);
  if (found == std::string_view::npos) return;
  Writer writer(*this);
  for (size_t done = 0; found != std::string_view::npos; found = text_.find(from, done)) {
    writer.copy(found - done);
    writer.replace(from.size(), to);
    done = found + from.size();
  }
  take(writer.finish());
}

}  // namespace ng
