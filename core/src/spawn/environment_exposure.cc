// See spawn/environment_exposure.h.
#include "spawn/environment_exposure.h"

#include "base/own_memory.h"
#include "spawn/injection.h"

namespace tailrace {
namespace {

// An environment that was exposed in place of the program's. The same content is never built twice in a row, and new
// content replaces the oldest, so that a thread that still reads an old one finds it whole.
struct BuiltEnvironment {
  uint64_t key;
  size_t bytes;
  char **entries;
};
constexpr unsigned kBuilt = 16;
constexpr int kTries = 16;
BuiltEnvironment g_built[kBuilt];
unsigned g_next;

struct Exposure {
  unsigned users;
  BuiltEnvironment *built;
  char **own;  // the program's
};
Exposure g_exposure;

// A hash of the addresses of the program's entries and of the text of ours.
uint64_t key_of(const BuiltEnvironment &built) {
  uint64_t key = kFnv64Seed;
  auto begin = reinterpret_cast<uintptr_t>(built.entries);
  for (char **e = built.entries; *e; ++e) {
    auto at = reinterpret_cast<uintptr_t>(*e);
    bool is_ours = at - begin < built.bytes;
    key = is_ours ? fnv64(*e, strlen(*e), key) : fnv64(&at, sizeof at, key);
  }
  return key | 1;
}

bool make_room(BuiltEnvironment &built, size_t bytes) {
  if (bytes <= built.bytes) return true;
  if (built.entries) own_memory::release(built.entries, built.bytes);
  built.entries = static_cast<char **>(own_memory::pages(bytes));
  built.bytes = built.entries ? bytes : 0;
  return built.entries != nullptr;
}

// Call with the table lock held.
BuiltEnvironment *build(const Injection &injection, const Program &program) {
  if (g_exposure.users && &g_built[g_next] == g_exposure.built) g_next = (g_next + 1) % kBuilt;
  BuiltEnvironment &fresh = g_built[g_next];
  fresh.key = 0;
  if (!make_room(fresh, injection.bytes())) return nullptr;
  injection.build(program, fresh.entries);
  uint64_t key = key_of(fresh);
  for (BuiltEnvironment &old : g_built) {
    if (old.key == key) return &old;
  }
  fresh.key = key;
  g_next = (g_next + 1) % kBuilt;
  return &fresh;
}

void restore() {
  Exposure &s = g_exposure;
  if (current_environment() == s.built->entries) {
    // libc may have written to an entry; then the key is no longer that of the content.
    if (take_changes(g_session.environment, s.own, s.built->entries)) s.built->key = 0;
    __atomic_store_n(&environ, s.own, __ATOMIC_RELEASE);
  } else {
    // libc has made a new environment from it, whose entries may point into it.
    *s.built = {};
    g_session.environment.is_exposed() ? hide_identity(environ) : hide_settings(environ);
  }
}

// Where the threads that exposed the settings are the parent's, or may not find them any more.
void end_all() {
  if (g_exposure.users) restore();
  g_exposure.users = 0;
}

}  // namespace

bool expose_settings(const char *path) {
  Exposure &s = g_exposure;
  for (int i = 0; i < kTries; ++i) {
    char **environment = current_environment();
    Injection injection(environment, Injection::kOtherProcess);
    Program program(path, environment);
    if (!program.carries_preload()) return false;
    Locked lock(g_wiped.table);
    // Another thread may have begun or ended an exposure in between.
    if (current_environment() != environment) continue;
    BuiltEnvironment *built = build(injection, program);
    if (!built || (s.users && built != s.built)) return false;
    if (s.users++) return true;
    s.built = built;
    s.own = environment;
    g_session.end_exposures = end_all;
    __atomic_store_n(&environ, built->entries, __ATOMIC_RELEASE);
    return true;
  }
  return false;
}

void end_exposure() {
  Locked lock(g_wiped.table);
  if (g_exposure.users && --g_exposure.users == 0) restore();
}

}  // namespace tailrace
