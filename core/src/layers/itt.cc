// ITT (github.com/intel/ittapi): its static part, linked into the program, opens $INTEL_LIBITTNOTIFY64 at the first
// call and hands __itt_api_init its table of functions by name, in which a collector puts its own.
//
//   task, event                      a region of the thread, nested
//   overlapped task, region, frame   a region that no thread is in, since another one may end it
//   marker                           an instant
//
// The category is the domain's name. Clock domains, counters, metadata and relations are not taken: those functions
// stay what they are without a collector.
#include <pthread.h>
#include <string.h>

#include <new>

#include "layers/annotations.h"
#include "session/record.h"

namespace tailrace {
namespace {

// ___itt_api_info
struct Api {
  const char *name;
  void **function;
  void *init_function, *null_function;
  int group;
};

// ___itt_global, to the table of functions
struct Global {
  unsigned char magic[8];
  unsigned long version[3];  // major, minor, build
  volatile long initialized, mutex_initialized, atomic_counter;
  pthread_mutex_t mutex;
  void *library, *error_handler;
  const char **library_path;
  Api *functions;
};

// ___itt_domain; the program reads its flags before each call
struct Domain {
  volatile int flags;
  const char *name;
  void *wide_name;
  int extra1;
  void *extra2;
  Domain *next;
};

// ___itt_string_handle
struct String {
  const char *text;
  void *wide;
  int extra1;
  void *extra2;
  String *next;
};

struct Id {
  unsigned long long d1, d2, d3;
  uint64_t number() const { return d1 * 0x9E3779B97F4A7C15U ^ d2 * 0xC2B2AE3D27D4EB4FU ^ d3 ^ 1U << 31; }
};

constexpr uint32_t kMostEvents = 4096;
std::atomic<const RegionDefinition *> g_events[kMostEvents];
std::atomic<uint32_t> g_event_count;
const char kEvents = 0;  // whose ranges events are

const RegionDefinition *definition_of(const Domain *domain, const String *name) {
  if (!enter() || !name) return nullptr;
  return define_region(AnnotationText(name->text).view(), AnnotationText(domain ? domain->name : nullptr).view());
}

Domain *create_domain(const char *name) {
  void *memory = enter() && name ? kept_memory(sizeof(Domain)) : nullptr;
  return memory ? new (memory) Domain{1, kept_text(string_view(name)).data(), nullptr, 0, nullptr, nullptr} : nullptr;
}

String *create_string(const char *text) {
  void *memory = enter() && text ? kept_memory(sizeof(String)) : nullptr;
  return memory ? new (memory) String{kept_text(string_view(text)).data(), nullptr, 0, nullptr, nullptr} : nullptr;
}

void begin_task(const Domain *domain, Id, Id, const String *name) {
  push_range(domain, definition_of(domain, name), {});
}
void end_task(const Domain *domain) { pop_range(domain); }

void begin_overlapped(const Domain *domain, Id id, Id, const String *name) {
  start_range(domain, id.number(), definition_of(domain, name), {});
}
void end_overlapped(const Domain *domain, Id id) { end_range(domain, id.number()); }

void begin_frame(const Domain *domain, const Id *id) {
  static const String kFrame = {"frame", nullptr, 0, nullptr, nullptr};
  start_range(domain, id ? id->number() : 1, definition_of(domain, &kFrame), {});
}
void end_frame(const Domain *domain, const Id *id) { end_range(domain, id ? id->number() : 1); }

void marker(const Domain *domain, Id, const String *name, int) {
  if (const RegionDefinition *d = definition_of(domain, name)) record_instant(d, {});
}

int create_event(const char *name, int bytes) {
  if (!enter() || !name || bytes < 0) return -1;
  const RegionDefinition *definition = define_region({name, strnlen(name, static_cast<size_t>(bytes))}, "");
  const uint32_t event = g_event_count.fetch_add(1);
  if (event >= kMostEvents) return -1;
  g_events[event].store(definition);
  return static_cast<int>(event) + 1;
}

int start_event(int event) {
  if (event < 1 || event > static_cast<int>(kMostEvents)) return 1;
  return push_range(&kEvents, g_events[event - 1].load(), {}) < 0;
}

int end_event(int) { return pop_range(&kEvents) < 0; }

struct Entry {
  string_view name;
  void *function;
};

template <class F>
void *erased(F *function) {
  return reinterpret_cast<void *>(function);
}

void fill(Api *functions) {
  const Entry entries[] = {
      {"__itt_domain_create", erased(create_domain)},
      {"__itt_string_handle_create", erased(create_string)},
      {"__itt_task_begin", erased(begin_task)},
      {"__itt_task_end", erased(end_task)},
      {"__itt_task_begin_overlapped", erased(begin_overlapped)},
      {"__itt_task_end_overlapped", erased(end_overlapped)},
      {"__itt_region_begin", erased(begin_overlapped)},
      {"__itt_region_end", erased(end_overlapped)},
      {"__itt_frame_begin_v3", erased(begin_frame)},
      {"__itt_frame_end_v3", erased(end_frame)},
      {"__itt_marker", erased(marker)},
      {"__itt_event_create", erased(create_event)},
      {"__itt_event_start", erased(start_event)},
      {"__itt_event_end", erased(end_event)},
  };
  for (Api *api = functions; api->name; ++api) {
    void *taken = api->null_function;
    for (const Entry &entry : entries) {
      if (string_view(api->name) == entry.name) taken = entry.function;
    }
    if (api->function) *api->function = taken;
  }
}

}  // namespace
}  // namespace tailrace

// ITT's own functions are not exported: any other library that looks for them would find them.
extern "C" __attribute__((visibility("default"))) void __itt_api_init(tailrace::Global *global, int) {
  // In an untraced process all pointers stay what they are without a collector.
  if (tailrace::enter() && global && global->functions) tailrace::fill(global->functions);
}
