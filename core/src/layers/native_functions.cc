// See layers/native_functions.h.
#include "layers/native_functions.h"

#include <algorithm>
#include <new>

#include "base/arena.h"
#include "base/own_memory.h"
#include "base/private_stack.h"
#include "base/sys.h"
#include "format/choices.h"
#include "linker/plain_names.h"
#include "linker/real.h"
#include "linker/symbols.h"
#include "session/function_calls.h"
#include "session/ledger.h"

namespace tailrace {

std::atomic<bool> g_native_functions;

namespace {

constexpr uint32_t kMostFunctions = 1U << 16;
constexpr uint32_t kFunctionSlots = 4 * kMostFunctions;  // a power of two
constexpr uint32_t kMostObjects = 512;

struct Object {
  ObjectSymbols symbols;
  uint32_t number;      // of what was loaded there
  uint32_t generation;  // in which it was looked at
};

// What is known of functions; changed under the lock of its own, functions are read without one.
struct Known {
  std::atomic<NativeFunction *> functions[kFunctionSlots];  // by address
  uint32_t function_count;
  Object objects[kMostObjects];
  uint32_t object_count, last_number;
  char room[kMostSymbolBytes], name[2 * kMostSymbolBytes], path[4096];
  alignas(16) char stack[kPrivateStackBytes];
};
Known *g_known;
std::atomic<uint32_t> g_generation;

std::atomic<NativeFunction *> &place_of(uintptr_t address) {
  const uint64_t hash = address * 0x9E3779B97F4A7C15ULL;
  for (uint64_t i = hash >> 32;; ++i) {
    std::atomic<NativeFunction *> &place = g_known->functions[i % kFunctionSlots];
    const NativeFunction *function = place.load(std::memory_order_acquire);
    if (!function || function->address == address) return place;
  }
}

string_view last_name(string_view path) {
  const size_t slash = path.rfind('/');
  return slash == string_view::npos ? path : slice(path, slash + 1, path.size() - slash - 1);
}

// The path of the object's file, and in `shown` the one to show.
string_view path_of(const Module &module, string_view &shown) {
  if (*module.name) return shown = module.name;
  const long n = sys::readlink("/proc/self/exe", g_known->path, sizeof g_known->path);
  shown = n > 0 ? string_view(g_known->path, static_cast<size_t>(n)) : string_view("program");
  return "/proc/self/exe";
}

const char *kept(string_view text) {
  Locked lock(g_wiped.table);
  auto *copy = static_cast<char *>(arena_allocate(text.size() + 1));
  if (copy) memcpy(copy, text.data(), text.size());
  return copy;
}

// The object that is mapped there; null: there is no place for it.
Object *object_of(const Module &module, string_view path, int64_t &bytes_read) {
  Known &known = *g_known;
  const uint32_t generation = g_generation.load(std::memory_order_acquire);
  Object *object = known.objects, *end = known.objects + known.object_count;
  while (object < end && object->symbols.begin() != module.begin) ++object;
  if (object < end && object->generation == generation) return object;
  if (object == known.objects + kMostObjects) return nullptr;
  if (object == end || !object->symbols.is_loaded(module, path)) {
    const char *before = object->symbols.path(), *own = before && path == before ? before : kept(path);
    if (!own) return nullptr;
    object->symbols.close();
    object->symbols.open(module, own, g_session.pid, bytes_read);
    object->number = ++known.last_number;
  }
  object->generation = generation;
  if (object == end) ++known.object_count;
  return object;
}

// The same function as before, where its object is still there.
bool is_same(const NativeFunction &function, const Module &module, int64_t &bytes_read) {
  string_view shown;
  const Object *object = module.begin ? object_of(module, path_of(module, shown), bytes_read) : nullptr;
  return object && object->number == function.object;
}

// Fills in what the function is; its name goes into `name`, if it is chosen.
void describe(NativeFunction &function, const Module &module, Writer &name, int64_t &bytes_read) {
  string_view shown, symbol;
  const string_view path = module.begin ? path_of(module, shown) : string_view();
  if (const Object *object = module.begin ? object_of(module, path, bytes_read) : nullptr) {
    const FunctionSymbol *found = object->symbols.find(function.address, g_known->room, symbol, bytes_read);
    if (found) function.bytes = found->bytes;
    function.object = object->number;
  }
  if (!symbol.empty()) write_plain_name(symbol, name);
  if (symbol.empty() || name.overflowed()) {
    name.truncate(0);
    (name << slice(last_name(shown), 0, std::min<size_t>(last_name(shown).size(), 128)) << "+0x")
        .short_hex(function.address - module.base);
  }
  const string_view patterns = g_session.environment[Setting::TAILRACE_NATIVE_FUNCTIONS];
  if (!is_function_chosen(name.view(), last_name(shown), patterns)) name.truncate(0);
}

struct Search {
  uintptr_t address;
  NativeFunction *found;
  int64_t bytes_read;
};

// With the lock held.
void look_up_locked(void *argument) {
  auto &search = *static_cast<Search *>(argument);
  const uint32_t generation = g_generation.load(std::memory_order_acquire);
  const Module module = find_module(search.address);
  NativeFunction *known = place_of(search.address).load(std::memory_order_acquire);
  if (known &&
      (known->generation.load(std::memory_order_relaxed) == generation || is_same(*known, module, search.bytes_read))) {
    known->generation.store(generation, std::memory_order_relaxed);
    search.found = known;
    return;
  }
  if (!known && g_known->function_count == kMostFunctions) return;
  void *memory;
  {
    Locked table(g_wiped.table);
    memory = arena_allocate(sizeof(NativeFunction));
  }
  if (!memory) return;
  auto *made = new (memory) NativeFunction{};
  made->address = search.address;
  Writer name(g_known->name, sizeof g_known->name);
  describe(*made, module, name, search.bytes_read);
  made->generation.store(generation, std::memory_order_relaxed);
  if (name.size()) made->definition = define_region(name.view(), "native");
  if (!known) ++g_known->function_count;
  place_of(search.address).store(made, std::memory_order_release);
  search.found = made;
}

// What is known of the function, after a look at its object. Null: there is no more room. On a stack of its own, since
// names may nest deeply and a thread's may be small.
__attribute__((noinline)) NativeFunction *look_up(uintptr_t address) {
  Search search{address, nullptr, 0};
  {
    Locked lock(g_wiped.functions);
    call_on_stack(look_up_locked, &search, g_known->stack + sizeof g_known->stack);
  }
  if (search.bytes_read) count_own(search.bytes_read, 0);
  return search.found;
}

inline NativeFunction *function_at(uintptr_t address) {
  NativeFunction *function = place_of(address).load(std::memory_order_acquire);
  const bool is_known =
      function && function->generation.load(std::memory_order_relaxed) == g_generation.load(std::memory_order_relaxed);
  return __builtin_expect(is_known, 1) ? function : look_up(address);
}

bool is_chosen(const NativeFunction *function) {
  return function->definition && !function->is_left_out.load(std::memory_order_relaxed);
}

bool is_chosen_at(uintptr_t address) {
  const NativeFunction *function = place_of(address).load(std::memory_order_acquire);
  return function && is_chosen(function);
}

__attribute__((noinline)) void function_begins(uintptr_t address, const CallPlace &place) {
  if (!enter()) return;
  if (__builtin_expect(place.frame > t_innermost_frame, 0)) leave_functions(place.frame);
  NativeFunction *function = function_at(address);
  if (!function) return count_unrecorded_call(Unrecorded::kTooMany);
  if (is_chosen(function)) begin_function_call(*function, place);
}

__attribute__((noinline)) void function_ends(uintptr_t address, const CallPlace &place) {
  if (t_innermost_frame != kNoFrame && enter()) end_function_call(address, place, is_chosen_at);
}

}  // namespace

void begin_native_functions() {
  if (!enter() || g_known || g_session.environment[Setting::TAILRACE_NATIVE_FUNCTIONS].empty()) return;
  find_module_functions();
  g_known = static_cast<Known *>(own_memory::pages(sizeof(Known)));
  if (!g_known) return;
  g_function_minimum_ticks = function_minimum_ticks();
  g_native_functions.store(true, std::memory_order_release);
}

void expect_native_functions() {
  if (g_native_functions.load(std::memory_order_relaxed)) g_generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace tailrace

using namespace tailrace;

#define TAILRACE_PLACE                                                                     \
  {                                                                                        \
    reinterpret_cast<uintptr_t>(site), reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()), \
        reinterpret_cast<uintptr_t>(__builtin_return_address(0))                           \
  }

TAILRACE_HOOK void __cyg_profile_func_enter(void *function, void *site) {
  if (__builtin_expect(!g_native_functions.load(std::memory_order_relaxed), 1)) return;
  function_begins(reinterpret_cast<uintptr_t>(function), TAILRACE_PLACE);
}

TAILRACE_HOOK void __cyg_profile_func_exit(void *function, void *site) {
  if (__builtin_expect(!g_native_functions.load(std::memory_order_relaxed), 1)) return;
  function_ends(reinterpret_cast<uintptr_t>(function), TAILRACE_PLACE);
}
