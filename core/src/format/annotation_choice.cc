// See format/annotation_choice.h.
#include "format/annotation_choice.h"

namespace tailrace {

bool parse_annotations(string_view text, uint32_t &out) {
  out = text == "all" ? (1U << kAnnotationCount) - 1 : 0;
  if (text.empty() || text == "all" || text == "none") return true;
  uint32_t chosen;
  const bool known = read_names(text, kAnnotationNames, chosen);
  if (known) out = chosen;
  return known;
}

}  // namespace tailrace
