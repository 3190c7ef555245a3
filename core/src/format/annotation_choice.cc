// See format/annotation_choice.h.
#include "format/annotation_choice.h"

namespace tailrace {

bool parse_annotations(string_view text, uint32_t &out) {
  out = text == "all" ? (1U << kAnnotationCount) - 1 : 0;
  if (text.empty() || text == "all" || text == "none") return true;
  uint32_t chosen = 0;
  const bool known = each_part(text, ',', [&](string_view name) {
    for (size_t i = 0; i < kAnnotationCount; ++i) {
      if (kAnnotationNames[i] != name) continue;
      chosen |= 1U << i;
      return true;
    }
    return false;
  });
  if (known) out = chosen;
  return known;
}

}  // namespace tailrace
