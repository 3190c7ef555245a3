// See format/layer_choice.h.
#include "format/layer_choice.h"

namespace tailrace {

bool parse_layers(string_view text, uint32_t &out) {
  out = text == "none" ? 0 : kLayersOfAll;
  if (text.empty() || text == "all" || text == "none") return true;
  uint32_t chosen;
  const bool known = read_names(text, kLayerNames, chosen);
  if (known) out = chosen;
  return known;
}

}  // namespace tailrace
