// The setting TAILRACE_DETAIL: whether each call becomes a line, or totals do (format/totals.h).
#pragma once

#include "base/text.h"

namespace tailrace {

enum class DetailKind : uint32_t { kFull, kTotals, kAuto };
struct Detail {
  DetailKind kind = DetailKind::kFull;
  uint64_t budget_bytes = 0;  // kAuto: full until the trace files of the node have so many
};
constexpr uint64_t kDefaultBudgetBytes = 64 << 20;

// "full", "totals", "auto" or "auto:<bytes>", the bytes with K, M, G for the powers of 1024. False: none of these.
bool parse_detail(string_view text, Detail &out);

}  // namespace tailrace
