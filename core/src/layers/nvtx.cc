// NVTX 3 (docs.nvidia.com/nvtx): its headers, compiled into the program, open $NVTX_INJECTION64_PATH at the first call
// and hand InitializeInjectionNvtx2 a function that finds tables: of pointers to the pointers which they call from then
// on.
//
//   range pushed and popped    a region of the thread, nested by domain
//   range started and ended    a region that no thread is in, since another one may end it
//   mark                       an instant
//
// The category is the one that the program has named by a number, else the domain's name.
#include <stdio.h>

#include <new>

#include "format/tags.h"
#include "layers/annotations.h"
#include "session/record.h"

namespace tailrace {
namespace {

constexpr uint32_t kCallbacks = 1;         // NVTX_ETID_CALLBACKS
constexpr int kCore = 1, kCoreDomain = 5;  // NVTX_CB_MODULE_CORE, NVTX_CB_MODULE_CORE2

using Function = void (*)();
using GetExportTable = const void *(*)(uint32_t id);

struct Callbacks {
  size_t bytes;
  int (*get_module_functions)(int module, Function ***table, unsigned *count);
};

union Message {
  const char *text;
  const wchar_t *wide;
  const struct String *registered;
};
enum MessageType : int32_t { kText = 1, kWide = 2, kRegistered = 3 };
enum PayloadType : int32_t { kUnsigned64 = 1, kSigned64, kDouble, kUnsigned32, kSigned32, kFloat };

// nvtxEventAttributes_v2
struct Attributes {
  uint16_t version, bytes;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  PayloadType payload_type;
  int32_t reserved;
  union {
    uint64_t unsigned64;
    int64_t signed64;
    double real;
    uint32_t unsigned32;
    int32_t signed32;
    float short_real;
  } payload;
  MessageType message_type;
  Message message;
};

struct String {
  string_view text;
};

struct Category {
  uint32_t number;
  string_view name;
  Category *next;
};

struct Domain {
  string_view name;
  std::atomic<Category *> categories;
};
Domain g_no_domain{string_view(), {nullptr}};  // of calls without one

Domain *domain_of(Domain *given) { return given ? given : &g_no_domain; }

string_view category_of(const Domain *domain, uint32_t number) {
  for (const Category *c = number ? domain->categories.load(std::memory_order_acquire) : nullptr; c; c = c->next) {
    if (c->number == number) return c->name;
  }
  return domain->name;
}

// The payload as a key of the region.
void write_keys(const Attributes &a, Writer &out) {
  switch (a.payload_type) {
    case kUnsigned64:
      out << "payload=";
      if (a.payload.unsigned64 >> 63) {
        out << "0x";
        out.short_hex(a.payload.unsigned64);
      } else {
        out.number(static_cast<int64_t>(a.payload.unsigned64));
      }
      break;
    case kSigned64: (out << "payload=").number(a.payload.signed64); break;
    case kUnsigned32: (out << "payload=").number(a.payload.unsigned32); break;
    case kSigned32: (out << "payload=").number(a.payload.signed32); break;
    case kDouble:
    case kFloat: {
      char text[40];
      snprintf(text, sizeof text, "%.9g", a.payload_type == kFloat ? a.payload.short_real : a.payload.real);
      out << "payload=";
      quote_tag_text(string_view(text), out);
      break;
    }
  }
}

// What is recorded of an event, by `record`; its result, or that for none.
template <class Record>
auto with(const Domain *domain, const Attributes *a, Record record) -> decltype(record(nullptr, RegionKeys())) {
  if (!a || a->bytes < sizeof *a || !enter()) return record(nullptr, RegionKeys());
  char text[160];
  Writer keys(text, sizeof text);
  write_keys(*a, keys);
  RegionKeys all;
  if (keys.size()) all.keys = keys.c_str();
  const string_view category = category_of(domain, a->category);
  switch (a->message_type) {
    case kWide: return record(define_region(AnnotationText(a->message.wide).view(), category), all);
    case kRegistered:
      return record(define_region(a->message.registered ? a->message.registered->text : string_view(), category), all);
    default: break;
  }
  return record(define_region(AnnotationText(a->message_type == kText ? a->message.text : nullptr).view(), category),
                all);
}

void mark(Domain *domain, const Attributes *a) {
  with(domain_of(domain), a, [](const RegionDefinition *d, const RegionKeys &keys) { record_instant(d, keys); });
}

int push(Domain *domain, const Attributes *a) {
  const Domain *of = domain_of(domain);
  return with(of, a, [of](const RegionDefinition *d, const RegionKeys &keys) { return push_range(of, d, keys); });
}

int pop(Domain *domain) { return pop_range(domain_of(domain)); }

uint64_t start(Domain *domain, const Attributes *a) {
  const Domain *of = domain_of(domain);
  // A range may be ended without its domain: numbers are of all.
  return with(of, a, [](const RegionDefinition *d, const RegionKeys &k) { return start_range(&g_no_domain, 0, d, k); });
}

void end(Domain *, uint64_t number) { end_range(&g_no_domain, number); }

template <class Character>
Attributes plain(const Character *message) {
  Attributes a = {};
  a.bytes = sizeof a;
  a.message_type = sizeof(Character) == 1 ? kText : kWide;
  memcpy(&a.message, &message, sizeof message);
  return a;
}

template <class Character>
void name_category(Domain *given, uint32_t number, const Character *name) {
  Domain *domain = domain_of(given);
  void *memory = number && enter() ? kept_memory(sizeof(Category)) : nullptr;
  if (!memory) return;
  const AnnotationText text(name);
  auto *category = new (memory) Category{number, kept_text(text.view()), domain->categories.load()};
  while (!domain->categories.compare_exchange_weak(category->next, category)) {
  }
}

template <class Character>
String *register_string(Domain *, const Character *text) {
  void *memory = enter() ? kept_memory(sizeof(String)) : nullptr;
  return memory ? new (memory) String{kept_text(AnnotationText(text).view())} : nullptr;
}

template <class Character>
Domain *create_domain(const Character *name) {
  void *memory = enter() ? kept_memory(sizeof(Domain)) : nullptr;
  return memory ? new (memory) Domain{kept_text(AnnotationText(name).view()), {nullptr}} : nullptr;
}

// ---- what the program's copy calls, by the places in its tables ----

void mark_ex(const Attributes *a) { mark(nullptr, a); }
uint64_t start_ex(const Attributes *a) { return start(nullptr, a); }
int push_ex(const Attributes *a) { return push(nullptr, a); }
void end_plain(uint64_t number) { end(nullptr, number); }
int pop_plain() { return pop(nullptr); }

template <class Character>
void mark_plain(const Character *message) {
  const Attributes a = plain(message);
  mark(nullptr, &a);
}
template <class Character>
uint64_t start_plain(const Character *message) {
  const Attributes a = plain(message);
  return start(nullptr, &a);
}
template <class Character>
int push_plain(const Character *message) {
  const Attributes a = plain(message);
  return push(nullptr, &a);
}
template <class Character>
void name_plain(uint32_t number, const Character *name) {
  name_category(nullptr, number, name);
}

struct Entry {
  int module;
  unsigned place;
  Function function;
};

template <class F>
Function erased(F *function) {
  return reinterpret_cast<Function>(function);
}

void fill(const Callbacks *callbacks) {
  const Entry entries[] = {
      {kCore, 1, erased(mark_ex)},
      {kCore, 2, erased(mark_plain<char>)},
      {kCore, 3, erased(mark_plain<wchar_t>)},
      {kCore, 4, erased(start_ex)},
      {kCore, 5, erased(start_plain<char>)},
      {kCore, 6, erased(start_plain<wchar_t>)},
      {kCore, 7, erased(end_plain)},
      {kCore, 8, erased(push_ex)},
      {kCore, 9, erased(push_plain<char>)},
      {kCore, 10, erased(push_plain<wchar_t>)},
      {kCore, 11, erased(pop_plain)},
      {kCore, 12, erased(name_plain<char>)},
      {kCore, 13, erased(name_plain<wchar_t>)},
      {kCoreDomain, 1, erased(mark)},
      {kCoreDomain, 2, erased(start)},
      {kCoreDomain, 3, erased(end)},
      {kCoreDomain, 4, erased(push)},
      {kCoreDomain, 5, erased(pop)},
      {kCoreDomain, 8, erased(name_category<char>)},
      {kCoreDomain, 9, erased(name_category<wchar_t>)},
      {kCoreDomain, 10, erased(register_string<char>)},
      {kCoreDomain, 11, erased(register_string<wchar_t>)},
      {kCoreDomain, 12, erased(create_domain<char>)},
      {kCoreDomain, 13, erased(create_domain<wchar_t>)},
  };
  for (const Entry &entry : entries) {
    Function **table = nullptr;
    unsigned count = 0;
    if (!callbacks->get_module_functions(entry.module, &table, &count)) continue;
    if (table && entry.place < count && table[entry.place]) *table[entry.place] = entry.function;
  }
}

}  // namespace
}  // namespace tailrace

// 1: this is a tool. 0: the program's copy turns itself off.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    tailrace::GetExportTable get_export_table) {
  using namespace tailrace;
  if (!enter() || !get_export_table) return 0;
  const auto *callbacks = static_cast<const Callbacks *>(get_export_table(kCallbacks));
  if (!callbacks || callbacks->bytes < sizeof *callbacks) return 0;
  fill(callbacks);
  return 1;
}
