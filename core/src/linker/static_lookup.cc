// linker/lookup.h in a program that is linked statically (libtailrace.a): there are no objects to search. The linker
// rewrites the program's calls of a hook to __wrap_NAME, whose stub (core/static) is linked where the program calls
// NAME, and lists the address of the original here.
//
// Invariants: what nothing calls is not found, and nothing is pulled out of libc for it; core/static/needs.txt names
// the functions that a hook calls beside its own.
#include "base/text.h"
#include "linker/libc_memory.h"
#include "linker/lookup.h"
#include "linker/real.h"

namespace tailrace {
namespace {

// As the stubs lay it out.
struct Original {
  const char *symbol;
  void *address;
};

void *no_symbol(void *, const char *) { return nullptr; }

}  // namespace

// The linker's, around all stubs' rows.
extern "C" __attribute__((visibility("hidden"))) const Original __start_tailrace_originals[],
    __stop_tailrace_originals[];

void *find_in_libc(const char *symbol) {
  for (const Original *o = __start_tailrace_originals; o < __stop_tailrace_originals; ++o) {
    if (string_view(o->symbol) == string_view(symbol)) return o->address;
  }
  return nullptr;
}

void *find_next(const char *symbol) { return find_in_libc(symbol); }

// The children's library is that of LD_PRELOAD, which the program was started with.
const char *library_path() { return nullptr; }

DlsymFunction *libc_dlsym() { return no_symbol; }

// The program's own memcpy is used: a sanitizer is no part of a static program.
void use_libc_memory() {}

}  // namespace tailrace
