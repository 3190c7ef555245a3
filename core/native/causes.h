// The table of causes (format/causes.def).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tailrace::native {

struct CauseRow {
  std::string_view key, words, advice;
};
const std::vector<CauseRow> &cause_rows();
// Null: a word of a later version.
const CauseRow *find_cause(std::string_view key);
// Its words; the key itself where there is no such row.
std::string cause_words(std::string_view key);

// Why a process could make no journal, by the fact `no_journal` of its start event, an object of JSON; empty where it
// is none.
std::string journal_reason(std::string_view fact);

}  // namespace tailrace::native
