// See linker/direct.h.
//
//   program -> way i: "this call is direct" -> wrapper -> g_real[f] = switch i -> libc's function, if it is; else next
//
// What holds: both are jumps that touch no argument. A function has a switch only once a program has asked for its
// direct way, so that all others' calls cost what they did. A wrapper that never calls its real function leaves the
// mark for a later call of the same function by the same thread, which is then direct too: so only what moves bytes or
// opens files has direct ways, and no process function.
#include "linker/direct.h"

#include <atomic>

#include "base/sys.h"
#include "linker/real.h"
#include "session/session.h"

namespace {
constexpr int kWays = 64;
}  // namespace

extern "C" {
#define TAILRACE_HIDDEN __attribute__((visibility("hidden"), used))
// The way that this thread's call has come, from 1.
TAILRACE_HIDDEN __thread unsigned tailrace_direct_call;
TAILRACE_HIDDEN void *tailrace_direct_wrappers[kWays];
TAILRACE_HIDDEN void *tailrace_direct_next[kWays];
TAILRACE_HIDDEN void *tailrace_direct_libc[kWays];
__attribute__((visibility("hidden"))) extern const char tailrace_direct_ways[];
__attribute__((visibility("hidden"))) extern const char tailrace_direct_switches[];
}

// Each takes 64 bytes.
#if defined(__x86_64__)
__asm__(R"(
  .text
  .balign 64
  .hidden tailrace_direct_ways
  .globl tailrace_direct_ways
tailrace_direct_ways:
  .set way, 0
  .rept 64
  .balign 64
  movq tailrace_direct_call@gottpoff(%rip), %r11
  movl $way + 1, %fs:(%r11)
  jmp *tailrace_direct_wrappers + 8 * way(%rip)
  .set way, way + 1
  .endr
  .balign 64
  .hidden tailrace_direct_switches
  .globl tailrace_direct_switches
tailrace_direct_switches:
  .set way, 0
  .rept 64
  .balign 64
  movq tailrace_direct_call@gottpoff(%rip), %r11
  cmpl $way + 1, %fs:(%r11)
  je 1f
  jmp *tailrace_direct_next + 8 * way(%rip)
1:
  movl $0, %fs:(%r11)
  jmp *tailrace_direct_libc + 8 * way(%rip)
  .set way, way + 1
  .endr
)");
#elif defined(__aarch64__)
__asm__(R"(
  .text
  .balign 64
  .hidden tailrace_direct_ways
  .globl tailrace_direct_ways
tailrace_direct_ways:
  .set way, 0
  .rept 64
  .balign 64
  adrp x16, :gottprel:tailrace_direct_call
  ldr x16, [x16, #:gottprel_lo12:tailrace_direct_call]
  mrs x17, tpidr_el0
  mov w9, #way + 1
  str w9, [x16, x17]
  adrp x17, tailrace_direct_wrappers + 8 * way
  ldr x17, [x17, #:lo12:tailrace_direct_wrappers + 8 * way]
  br x17
  .set way, way + 1
  .endr
  .balign 64
  .hidden tailrace_direct_switches
  .globl tailrace_direct_switches
tailrace_direct_switches:
  .set way, 0
  .rept 64
  .balign 64
  adrp x16, :gottprel:tailrace_direct_call
  ldr x16, [x16, #:gottprel_lo12:tailrace_direct_call]
  mrs x17, tpidr_el0
  ldr w9, [x16, x17]
  cmp w9, #way + 1
  b.eq 1f
  adrp x17, tailrace_direct_next + 8 * way
  ldr x17, [x17, #:lo12:tailrace_direct_next + 8 * way]
  br x17
1:
  str wzr, [x16, x17]
  adrp x17, tailrace_direct_libc + 8 * way
  ldr x17, [x17, #:lo12:tailrace_direct_libc + 8 * way]
  br x17
  .set way, way + 1
  .endr
)");
#endif

namespace tailrace {
namespace {

constexpr size_t kWayBytes = 64;
int g_used;  // table lock held

void *code(const char *block, int way) { return const_cast<char *>(block) + kWayBytes * static_cast<size_t>(way); }

}  // namespace

void *direct_way(Fn f, void *wrapper, void *next, void *libc_function) {
  if (function(f).category == "PROCESS") return nullptr;
  sys::SignalsBlocked signals;
  Locked lock(g_session.wiped->table);
  int way = 0;
  while (way < g_used && tailrace_direct_wrappers[way] != wrapper) ++way;
  if (way == kWays) return nullptr;
  if (way == g_used) {
    tailrace_direct_wrappers[way] = wrapper;
    tailrace_direct_next[way] = next;
    tailrace_direct_libc[way] = libc_function;
    ++g_used;
    g_real[static_cast<size_t>(f)].store(code(tailrace_direct_switches, way), std::memory_order_release);
  }
  return code(tailrace_direct_ways, way);
}

}  // namespace tailrace
