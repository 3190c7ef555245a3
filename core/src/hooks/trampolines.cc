// See hooks/trampolines.h.
//
//   program -> trampoline i: marks this call as direct -> wrapper -> g_real[f] = switch i -> a direct call: libc's
//                                                                                      \-> any other: next
//
// Invariants:
// - A trampoline and a switch are jumps that change no argument.
// - A function gets a switch only when a program gets a trampoline for it, so all other functions' calls cost the same.
// - A wrapper that does not call its real function leaves the mark for the thread's next call of that function, which
//   is then direct too. So only what moves bytes or opens files has trampolines, and no process function.
#include "hooks/trampolines.h"

#include <atomic>

#include "base/sys.h"
#include "linker/real.h"
#include "session/session.h"

namespace {
constexpr int kTrampolines = 64;
}  // namespace

extern "C" {
#define TAILRACE_HIDDEN __attribute__((visibility("hidden"), used))
// The number of the trampoline that this thread's call took, from 1.
TAILRACE_HIDDEN __thread unsigned tailrace_direct_call;
TAILRACE_HIDDEN void *tailrace_trampoline_wrappers[kTrampolines];
TAILRACE_HIDDEN void *tailrace_trampoline_next[kTrampolines];
TAILRACE_HIDDEN void *tailrace_trampoline_libc[kTrampolines];
__attribute__((visibility("hidden"))) extern const char tailrace_trampolines[];
__attribute__((visibility("hidden"))) extern const char tailrace_trampoline_switches[];
}

// Each takes 64 bytes.
#if defined(__x86_64__)
__asm__(R"(
  .text
  .balign 64
  .hidden tailrace_trampolines
  .globl tailrace_trampolines
tailrace_trampolines:
  .set number, 0
  .rept 64
  .balign 64
  movq tailrace_direct_call@gottpoff(%rip), %r11
  movl $number + 1, %fs:(%r11)
  jmp *tailrace_trampoline_wrappers + 8 * number(%rip)
  .set number, number + 1
  .endr
  .balign 64
  .hidden tailrace_trampoline_switches
  .globl tailrace_trampoline_switches
tailrace_trampoline_switches:
  .set number, 0
  .rept 64
  .balign 64
  movq tailrace_direct_call@gottpoff(%rip), %r11
  cmpl $number + 1, %fs:(%r11)
  je 1f
  jmp *tailrace_trampoline_next + 8 * number(%rip)
1:
  movl $0, %fs:(%r11)
  jmp *tailrace_trampoline_libc + 8 * number(%rip)
  .set number, number + 1
  .endr
)");
#elif defined(__aarch64__)
__asm__(R"(
  .text
  .balign 64
  .hidden tailrace_trampolines
  .globl tailrace_trampolines
tailrace_trampolines:
  .set number, 0
  .rept 64
  .balign 64
  adrp x16, :gottprel:tailrace_direct_call
  ldr x16, [x16, #:gottprel_lo12:tailrace_direct_call]
  mrs x17, tpidr_el0
  mov w9, #number + 1
  str w9, [x16, x17]
  adrp x17, tailrace_trampoline_wrappers + 8 * number
  ldr x17, [x17, #:lo12:tailrace_trampoline_wrappers + 8 * number]
  br x17
  .set number, number + 1
  .endr
  .balign 64
  .hidden tailrace_trampoline_switches
  .globl tailrace_trampoline_switches
tailrace_trampoline_switches:
  .set number, 0
  .rept 64
  .balign 64
  adrp x16, :gottprel:tailrace_direct_call
  ldr x16, [x16, #:gottprel_lo12:tailrace_direct_call]
  mrs x17, tpidr_el0
  ldr w9, [x16, x17]
  cmp w9, #number + 1
  b.eq 1f
  adrp x17, tailrace_trampoline_next + 8 * number
  ldr x17, [x17, #:lo12:tailrace_trampoline_next + 8 * number]
  br x17
1:
  str wzr, [x16, x17]
  adrp x17, tailrace_trampoline_libc + 8 * number
  ldr x17, [x17, #:lo12:tailrace_trampoline_libc + 8 * number]
  br x17
  .set number, number + 1
  .endr
)");
#endif

namespace tailrace {
namespace {

constexpr size_t kTrampolineBytes = 64;
int g_used;  // table lock held

void *code(const char *block, int number) {
  return const_cast<char *>(block) + kTrampolineBytes * static_cast<size_t>(number);
}

}  // namespace

void *make_trampoline(Fn f, void *wrapper, void *next, void *libc_function) {
  if (function(f).category.view() == "PROCESS") return nullptr;
  sys::SignalsBlocked signals;
  Locked lock(g_wiped.table);
  int number = 0;
  while (number < g_used && tailrace_trampoline_wrappers[number] != wrapper) ++number;
  if (number == kTrampolines) return nullptr;
  if (number == g_used) {
    tailrace_trampoline_wrappers[number] = wrapper;
    tailrace_trampoline_next[number] = next;
    tailrace_trampoline_libc[number] = libc_function;
    ++g_used;
    g_real[static_cast<size_t>(f)].store(code(tailrace_trampoline_switches, number), std::memory_order_release);
  }
  return code(tailrace_trampolines, number);
}

}  // namespace tailrace
