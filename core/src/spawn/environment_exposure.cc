// See spawn/environment_exposure.h.
#include "spawn/environment_exposure.h"

#include "base/sys.h"
#include "spawn/injection.h"

namespace tailrace {
namespace {

// An environment as it was laid over the program's. The same content is never built twice in a row, and other content
// takes the place of the oldest: whoever still reads an old one finds it whole.
struct Layer {
  uint64_t key;
  size_t bytes;
  char **entries;
};
constexpr unsigned kLayers = 16;
constexpr int kTries = 16;
Layer g_layers[kLayers];
unsigned g_next;

struct InSight {
  unsigned users;
  Layer *layer;
  char **own;  // the program's
};
InSight g_in_sight;

// Of the program's entries the addresses, of ours the text.
uint64_t key_of(const Layer &layer) {
  uint64_t key = kFnv64Seed;
  auto begin = reinterpret_cast<uintptr_t>(layer.entries);
  for (char **e = layer.entries; *e; ++e) {
    auto at = reinterpret_cast<uintptr_t>(*e);
    bool is_ours = at - begin < layer.bytes;
    key = is_ours ? fnv64(*e, strlen(*e), key) : fnv64(&at, sizeof at, key);
  }
  return key | 1;
}

bool make_room(Layer &layer, size_t bytes) {
  if (bytes <= layer.bytes) return true;
  if (layer.entries) sys::munmap(layer.entries, layer.bytes);
  layer.entries = static_cast<char **>(sys::allocate_pages(bytes));
  layer.bytes = layer.entries ? bytes : 0;
  return layer.entries != nullptr;
}

// Table lock held.
Layer *build(const Injection &injection, const Program &program) {
  if (g_in_sight.users && &g_layers[g_next] == g_in_sight.layer) g_next = (g_next + 1) % kLayers;
  Layer &fresh = g_layers[g_next];
  fresh.key = 0;
  if (!make_room(fresh, injection.bytes())) return nullptr;
  injection.build(program, fresh.entries);
  uint64_t key = key_of(fresh);
  for (Layer &old : g_layers) {
    if (old.key == key) return &old;
  }
  fresh.key = key;
  g_next = (g_next + 1) % kLayers;
  return &fresh;
}

void restore() {
  InSight &s = g_in_sight;
  if (present_environment() == s.layer->entries) {
    // libc may have written to an entry; the layer is no longer what its key says.
    if (take_changes(g_session.environment, s.own, s.layer->entries)) s.layer->key = 0;
    __atomic_store_n(&environ, s.own, __ATOMIC_RELEASE);
  } else {
    // libc has made a new one out of it, which may lead into it.
    *s.layer = {};
    g_session.environment.is_in_sight() ? hide_identity(environ) : hide_settings(environ);
  }
}

// In a forked child, before any other thread: the threads that exposed the settings are the parent's.
void restore_in_child() {
  if (g_in_sight.users) restore();
  g_in_sight.users = 0;
}

}  // namespace

bool put_settings_in_sight(const char *path) {
  InSight &s = g_in_sight;
  for (int i = 0; i < kTries; ++i) {
    char **environment = present_environment();
    Injection injection(environment, Injection::kOtherProcess);
    Program program(path, environment);
    if (!program.carries_preload()) return false;
    Locked lock(g_session.wiped->table);
    // Another thread may have come or gone in between.
    if (present_environment() != environment) continue;
    Layer *layer = build(injection, program);
    if (!layer || (s.users && layer != s.layer)) return false;
    if (s.users++) return true;
    s.layer = layer;
    s.own = environment;
    g_session.end_exposure_in_child = restore_in_child;
    __atomic_store_n(&environ, layer->entries, __ATOMIC_RELEASE);
    return true;
  }
  return false;
}

void hide_settings_again() {
  Locked lock(g_session.wiped->table);
  if (g_in_sight.users && --g_in_sight.users == 0) restore();
}

}  // namespace tailrace
