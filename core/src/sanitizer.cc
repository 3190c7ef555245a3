// A build with a sanitizer (TAILRACE_SANITIZE) is preloaded into programs that aren't built with one, so its runtime
// has to be told what it may take for granted. What the tests add in ASAN_OPTIONS and TSAN_OPTIONS is laid over.
#ifdef TAILRACE_SANITIZED

#include <stdlib.h>

extern "C" void __sanitizer_set_report_path(const char *path);

namespace {
// log_path among the options would have the runtime make directories by our hooks, before they can run.
__attribute__((constructor)) void choose_report_path() {
  if (const char *path = getenv("TAILRACE_SANITIZER_REPORTS")) __sanitizer_set_report_path(path);
}
}  // namespace

#define TAILRACE_OPTIONS \
  extern "C" __attribute__((visibility("default"), no_sanitize("address", "thread", "undefined")))

// The program's leaks are its own; it may handle and cause faults; its stacks may be of any size.
TAILRACE_OPTIONS const char *__asan_default_options() {
  return "verify_asan_link_order=0:detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:"
         "handle_sigfpe=0:use_sigaltstack=0:allocator_may_return_null=1:detect_odr_violation=0:replace_intrin=1";
}
TAILRACE_OPTIONS const char *__ubsan_default_options() { return "print_stacktrace=1"; }

// Programs synchronize in ways that only their own instrumentation would show: races are looked for in ours alone.
TAILRACE_OPTIONS const char *__tsan_default_options() {
  return "ignore_noninstrumented_modules=1:ignore_interceptors_accesses=1:report_signal_unsafe=0:exitcode=0:"
         "report_thread_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:"
         "use_sigaltstack=0:report_destroy_locked=0:die_after_fork=0";
}

#endif
