// See format/functions.h.
#include "format/functions.h"

#include <stddef.h>

#include "format/time_kinds.h"

namespace tailrace {

using namespace trait;

constexpr CategoryRow kCategories[] = {
#define CATEGORY(name, ...) {#name, uint32_t{__VA_ARGS__}},
#include "format/categories.def"
#undef CATEGORY
};

#define OPENING(name, category) "{\"name\":\"" name "\",\"cat\":\"" #category "\",\"ph\":\"X\",\"pid\":"

struct FunctionTexts {
  char none[1];
#define CATEGORY(name, ...) char category_##name[sizeof #name];
#include "format/categories.def"
#undef CATEGORY
#define EVENT(number, name, category, ...) \
  char name_##number[sizeof name], opening_##number[sizeof OPENING(name, category)];
#define HOOK(symbol, ...)               \
  char symbol_##symbol[sizeof #symbol]; \
  EVENT(symbol, __VA_ARGS__)
#define LAYER HOOK
#include "format/events.def"
#include "format/hooks.def"
#include "format/layers.def"
#undef EVENT
#undef LAYER
#undef HOOK
};
static_assert(sizeof(FunctionTexts) <= UINT16_MAX, "TableText::at");

constexpr FunctionTexts kFunctionTexts = {
    "",
#define CATEGORY(name, ...) #name,
#include "format/categories.def"
#undef CATEGORY
#define EVENT(number, name, category, ...) name, OPENING(name, category),
#define HOOK(symbol, ...) #symbol, EVENT(symbol, __VA_ARGS__)
#define LAYER HOOK
#include "format/events.def"
#include "format/hooks.def"
#include "format/layers.def"
#undef EVENT
#undef LAYER
#undef HOOK
};

namespace {

// Calls that move nothing, and that change neither names nor descriptors nor what others may do.
constexpr string_view kSummedNames[] = {
    "access",     "eaccess", "faccessat",       "fflush",        "fgetxattr", "flistxattr", "fstat",
    "fstatat",    "fsync",   "getdents64",      "getdirentries", "getxattr",  "lgetxattr",  "listxattr",
    "llistxattr", "lstat",   "posix_fadvise",   "readahead",     "readdir",   "readlink",   "readlinkat",
    "stat",       "statx",   "sync_file_range", "fdatasync",     "ungetc",    "ungetwc",    "__underflow"};

constexpr bool is_summed(string_view name, Direction direction, Shape shape, uint32_t traits) {
  if (traits & ~(kUncounted | kChannel | kBuffered | kFlushes)) return false;
  switch (shape) {
    case Shape::kTransfer:
    case Shape::kItems:
    case Shape::kPointer:
    case Shape::kStatus:
    case Shape::kChars:
    case Shape::kMessages: return direction == Direction::R || direction == Direction::W;
    case Shape::kSeek: return true;
    case Shape::kPlain:
    case Shape::kStream:
    case Shape::kRange:
      for (string_view summed : kSummedNames) {
        if (summed == name) return true;
      }
      return false;
    default: return false;
  }
}

constexpr Function row(TableText symbol, TableText name, TableText category, TableText opening, string_view called,
                       Category of_category, Direction direction, Shape shape, uint32_t traits) {
  const CategoryRow &of = kCategories[static_cast<size_t>(of_category)];
  const bool uncounted = ((traits | of.traits) & kUncounted) != 0, above = (of.traits & kUpper) != 0;
  const bool summed = is_summed(called, direction, shape, traits | of.traits);
  const TimeKind time = time_kind(of_category, direction, shape, traits | of.traits);
  return {symbol,    name,  category, opening,
          direction, shape, traits,   told_direction(called) == direction,
          uncounted, above, summed,   static_cast<uint8_t>(time)};
}

constexpr TableText kNoText = {0, 0};

}  // namespace

#define TEXT(member) \
  TableText { offsetof(FunctionTexts, member), sizeof(FunctionTexts::member) - 1 }
#define ROW(symbol, number, name, category, direction, shape, ...)                                              \
  row(symbol, TEXT(name_##number), TEXT(category_##category), TEXT(opening_##number), name, Category::category, \
      Direction::direction, Shape::shape, uint32_t{__VA_ARGS__}),
#define HOOK(symbol, ...) ROW(TEXT(symbol_##symbol), symbol, __VA_ARGS__)
#define LAYER HOOK
#define EVENT(number, ...) ROW(kNoText, number, __VA_ARGS__)
constexpr Function kFunctions[kFunctionCount] = {
    {kNoText, kNoText, kNoText, kNoText, Direction::N, Shape::kPlain, 0, true, false, false, false, 0},
#include "format/events.def"
#include "format/hooks.def"
#include "format/layers.def"
};
#undef EVENT
#undef LAYER
#undef HOOK
#undef ROW
#undef TEXT
#undef OPENING

}  // namespace tailrace
