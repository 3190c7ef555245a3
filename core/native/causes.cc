// See causes.h.
#include "causes.h"

#include <cstdint>
#include <cstring>

#include "json_text.h"

namespace tailrace::native {

const std::vector<CauseRow> &cause_rows() {
  static const std::vector<CauseRow> rows = {
#define CAUSE(key, words, advice) {#key, words, advice},
#include "format/causes.def"
#undef CAUSE
  };
  return rows;
}

const CauseRow *find_cause(std::string_view key) {
  for (const CauseRow &row : cause_rows()) {
    if (row.key == key) return &row;
  }
  return nullptr;
}

std::string cause_words(std::string_view key) {
  const CauseRow *row = find_cause(key);
  return std::string(row != nullptr ? row->words : key);
}

std::string journal_reason(std::string_view fact) {
  constexpr int64_t kMostErrno = 4096;
  std::string place = "its directory";
  int64_t error = 0;
  each_member_of(fact, [&](std::string_view key, const Value &value) {
    if (key == "errno") error = whole(value).value_or(0);
    if (key != "dir" || value.kind != Value::Kind::kString) return;
    std::string scratch;
    place = text_of(value, &scratch);
    // Below the place are the user's directory and the run's.
    for (int i = 0; i < 2; ++i) {
      const size_t slash = place.rfind('/');
      place = slash == std::string::npos ? "." : place.substr(0, slash > 1 ? slash : 1);
    }
  });
  const bool known = error > 0 && error < kMostErrno;
  return cause_words("no_journal") + ": " + place + ": " +
         (known ? std::strerror(static_cast<int>(error)) : "unknown error");
}

}  // namespace tailrace::native
