// See format/functions.h.
#include "format/functions.h"

namespace tailrace {

using namespace trait;

constexpr CategoryRow kCategories[] = {
#define CATEGORY(name, ...) {#name, uint32_t{__VA_ARGS__}},
#include "format/categories.def"
#undef CATEGORY
};

namespace {

constexpr Function row(string_view symbol, string_view name, Category category, string_view opening,
                       Direction direction, Shape shape, uint32_t traits) {
  const CategoryRow &of = kCategories[static_cast<size_t>(category)];
  const bool uncounted = ((traits | of.traits) & kUncounted) != 0, above = (of.traits & kUpper) != 0;
  return {symbol, name, of.name, opening, direction, shape, traits, uncounted, above};
}

#define OPENING(name, category) "{\"name\":\"" name "\",\"cat\":\"" #category "\",\"ph\":\"X\",\"pid\":"
#define ROW(symbol, name, category, direction, shape, traits) \
  row(symbol, name, Category::category, OPENING(name, category), Direction::direction, Shape::shape, traits),
#define HOOK(symbol, name, category, direction, shape, ...) \
  ROW(#symbol, name, category, direction, shape, uint32_t{__VA_ARGS__})
#define LAYER HOOK
#define EVENT(number, name, category, direction, shape, ...) \
  ROW("", name, category, direction, shape, uint32_t{__VA_ARGS__})
constexpr Function kFunctions[kFunctionCount] = {
    {"", "", "", "", Direction::N, Shape::kPlain, 0, false, false},
#include "format/events.def"
#include "format/hooks.def"
#include "format/layers.def"
};
#undef EVENT
#undef LAYER
#undef HOOK
#undef ROW
#undef OPENING

}  // namespace

const Function &function(Fn f) { return kFunctions[static_cast<size_t>(f)]; }

}  // namespace tailrace
