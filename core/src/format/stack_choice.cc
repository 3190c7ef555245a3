// See format/stack_choice.h.
#include "format/stack_choice.h"

namespace tailrace {

static uint64_t unit_ns(string_view unit) {
  return unit == "us" ? 1000 : unit == "ms" ? 1'000'000 : unit == "s" ? 1'000'000'000 : 0;
}

bool parse_stacks(string_view text, StackChoice &out) {
  out = {};
  if (text == "off") return true;
  return each_part(text, ',', [&](string_view part) {
    constexpr uint64_t kMost = 1'000'000'000;
    uint64_t number;
    if (!take_decimal(part, number) || number == 0 || number > kMost) return false;
    uint64_t &chosen = part.empty() ? out.each : out.slower_than_ns;
    if (chosen) return false;
    chosen = part.empty() ? number : number * unit_ns(part);
    return chosen != 0;
  });
}

}  // namespace tailrace
