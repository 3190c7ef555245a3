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

// Calls that move nothing, and that change neither names nor descriptors nor what others may do.
constexpr string_view kSummedNames[] = {
    "access",     "eaccess", "faccessat",       "fflush",        "fgetxattr", "flistxattr", "fstat",
    "fstatat",    "fsync",   "getdents64",      "getdirentries", "getxattr",  "lgetxattr",  "listxattr",
    "llistxattr", "lstat",   "posix_fadvise",   "readahead",     "readdir",   "readlink",   "readlinkat",
    "stat",       "statx",   "sync_file_range", "fdatasync",     "ungetc",    "ungetwc",    "__underflow"};

constexpr bool is_summed(string_view name, Direction direction, Shape shape, uint32_t traits) {
  if (traits & ~(kUncounted | kChannel)) return false;
  switch (shape) {
    case Shape::kTransfer:
    case Shape::kItems:
    case Shape::kPointer:
    case Shape::kStatus:
    case Shape::kChars:
    case Shape::kMessages: return direction == Direction::R || direction == Direction::W;
    case Shape::kSeek: return true;
    case Shape::kPlain:
    case Shape::kRange:
      for (string_view summed : kSummedNames) {
        if (summed == name) return true;
      }
      return false;
    default: return false;
  }
}

constexpr Function row(string_view symbol, string_view name, Category category, string_view opening,
                       Direction direction, Shape shape, uint32_t traits) {
  const CategoryRow &of = kCategories[static_cast<size_t>(category)];
  const bool uncounted = ((traits | of.traits) & kUncounted) != 0, above = (of.traits & kUpper) != 0;
  const bool summed = is_summed(name, direction, shape, traits | of.traits);
  return {symbol,    name,  of.name, opening, direction, shape, traits, told_direction(name) == direction,
          uncounted, above, summed};
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
    {"", "", "", "", Direction::N, Shape::kPlain, 0, true, false, false, false},
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
