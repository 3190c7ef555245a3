// Sanitizers: in programs that are built with one, and in a core that is.
#define TAILRACE_OPTIONS \
  extern "C" __attribute__((visibility("default"), no_sanitize("address", "thread", "undefined")))

#ifndef TAILRACE_SANITIZED

// A program with AddressSanitizer's shared runtime refuses to start when another library is preloaded before that. Here
// it may: our hooks call the runtime's functions. Options that the program itself has by default come before these.
TAILRACE_OPTIONS const char *__asan_default_options() { return "verify_asan_link_order=0"; }

#else

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

// A build with a sanitizer (TAILRACE_SANITIZE) is preloaded into programs that aren't built with one, so its runtime
// has to be told what it may take for granted. What the tests add in ASAN_OPTIONS and TSAN_OPTIONS is laid over. Where
// reports go is a setting (session/session.cc): log_path among the options would have the runtime make directories by our
// hooks, before they can run.

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

// Each runtime has a path of its own, and libubsan, when it begins at its first report, would take libasan's back.
TAILRACE_OPTIONS void __sanitizer_set_report_path(const char *) {}

void tailrace_report_to(const char *path) {
  int saved = errno;
  dl_iterate_phdr(set_in_runtime, const_cast<char *>(path));
  errno = saved;
}

// The program's leaks are its own; it may handle and cause faults; its stacks may be of any size.
TAILRACE_OPTIONS const char *__asan_default_options() {
  return "verify_asan_link_order=0:detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:"
         "handle_sigfpe=0:use_sigaltstack=0:allocator_may_return_null=1:detect_odr_violation=0:replace_intrin=1";
}
TAILRACE_OPTIONS const char *__ubsan_default_options() { return "print_stacktrace=1"; }

// Programs synchronize in ways that only their own instrumentation would show: races are looked for in ours alone. What
// the runtime's own wrappers are called by from elsewhere is ignored with all that runs below them, so the core has to
// be preloaded before the runtime: behind it, no hook of a function that the runtime replaces too would be looked at.
// Files don't synchronize threads: I/O is what the core is there for, and would hide every race of it. Addresses are
// made names by the tests, as the runtime reads symbols through our hooks.
TAILRACE_OPTIONS const char *__tsan_default_options() {
  return "ignore_noninstrumented_modules=1:ignore_interceptors_accesses=1:report_signal_unsafe=0:exitcode=0:"
         "report_thread_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:"
         "use_sigaltstack=0:report_destroy_locked=0:die_after_fork=0:io_sync=0:symbolize=0:atexit_sleep_ms=0";
}

#endif
