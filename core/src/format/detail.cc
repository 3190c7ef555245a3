// See format/detail.h.
#include "format/detail.h"

namespace tailrace {

bool parse_detail(string_view text, Detail &out) {
  out = {};
  if (text == "full") return true;
  out.kind = DetailKind::kTotals;
  if (text == "totals") return true;
  constexpr string_view kAuto = "auto";
  if (!starts_with(text, kAuto)) return false;
  out = {DetailKind::kAuto, kDefaultBudgetBytes};
  text = slice(text, kAuto.size(), text.size() - kAuto.size());
  if (text.empty()) return true;
  if (text[0] != ':') return false;
  text = slice(text, 1, text.size() - 1);
  if (!take_decimal(text, out.budget_bytes)) return false;
  int shift = text == "K" ? 10 : text == "M" ? 20 : text == "G" ? 30 : 0;
  if (!shift && !text.empty()) return false;
  if (out.budget_bytes > UINT64_MAX >> shift) return false;
  out.budget_bytes <<= shift;
  return true;
}

}  // namespace tailrace
