// Sanitizers: in programs that are built with one, and in a core that is.
#define TAILRACE_OPTIONS \
  extern "C" __attribute__((visibility("default"), no_sanitize("address", "thread", "undefined")))

#ifndef TAILRACE_SANITIZED

// A program with AddressSanitizer's shared runtime refuses to start when another library is preloaded before the
// runtime. The core may be: its hooks call the runtime's functions. The program's own default options precede these.
TAILRACE_OPTIONS const char *__asan_default_options() { return "verify_asan_link_order=0"; }

#else

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

// A build with a sanitizer (TAILRACE_SANITIZE) is preloaded into programs that aren't built with one, so its runtime
// needs these options. ASAN_OPTIONS and TSAN_OPTIONS, which the tests set, override them. The place of reports is a
// setting (session/session.cc): with log_path among the options the runtime would make directories through the core's
// hooks before they can run.

namespace {

using SetReportPath = void (*)(const char *);
constexpr const char *kRuntimes[] = {"/libasan.so", "/libubsan.so", "/libtsan.so"};

int set_in_runtime(dl_phdr_info *library, size_t, void *path) {
  for (const char *runtime : kRuntimes) {
    if (!strstr(library->dlpi_name, runtime)) continue;
    void *handle = dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    auto set = handle ? reinterpret_cast<SetReportPath>(dlsym(handle, "__sanitizer_set_report_path")) : nullptr;
    if (set) set(static_cast<const char *>(path));
  }
  return 0;
}

}  // namespace

// Each runtime has its own path: libubsan, which starts at its first report, would reset libasan's.
TAILRACE_OPTIONS void __sanitizer_set_report_path(const char *) {}

void tailrace_report_to(const char *path) {
  int saved = errno;
  dl_iterate_phdr(set_in_runtime, const_cast<char *>(path));
  errno = saved;
}

// The program may leak, handle and cause faults, and have stacks of any size.
TAILRACE_OPTIONS const char *__asan_default_options() {
  return "verify_asan_link_order=0:detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:"
         "handle_sigfpe=0:use_sigaltstack=0:allocator_may_return_null=1:detect_odr_violation=0:replace_intrin=1";
}
TAILRACE_OPTIONS const char *__ubsan_default_options() { return "print_stacktrace=1"; }

// Only instrumented programs show how they synchronize, so races are searched for in the core alone. Calls of the
// runtime's wrappers from elsewhere are ignored, with everything below them. The core is therefore preloaded before the
// runtime: behind it, no hook of a function that the runtime replaces too would be checked. Files don't synchronize
// threads here: the core does I/O all the time, and that would hide its races. The tests symbolize addresses, since the
// runtime reads symbols through the core's hooks.
TAILRACE_OPTIONS const char *__tsan_default_options() {
  return "ignore_noninstrumented_modules=1:ignore_interceptors_accesses=1:report_signal_unsafe=0:exitcode=0:"
         "report_thread_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:"
         "use_sigaltstack=0:report_destroy_locked=0:die_after_fork=0:io_sync=0:symbolize=0:atexit_sleep_ms=0";
}

#endif
