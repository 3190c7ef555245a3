// Hooks: dlsym, dlopen and dlmopen. A program gets wrappers for hooked functions that it looks up by a handle, and what
// it loads is accounted for. GOTCHA (hooks/attach.h) binds libraries that are loaded with RTLD_DEEPBIND.
//
// Invariants:
// - The dynamic linker treats dlsym and dlopen by their caller (RTLD_NEXT, RUNPATH, $ORIGIN). So the hooks leave by a
//   jump where the caller matters, and the dynamic linker sees the program as the caller.
// - GOTCHA is loaded only where it is needed; its set-up costs more than all the rest of a process's start.
//
// What dlopen read is known later, since its hook doesn't see the return: the thread's account is read before, and at
// its next dlsym, dlopen or account.
#include <dlfcn.h>

#include "hooks/attach.h"
#include "hooks/trampolines.h"
#include "layers/layers.h"
#include "layers/native_functions.h"
#include "linker/lookup.h"
#include "linker/real.h"
#include "session/ledger.h"
#include "session/libraries.h"
#include "session/session.h"

using namespace tailrace;

namespace {

// A library was loaded whose own symbols come before ours. It is bound at the next dlsym, when it is loaded.
std::atomic<bool> g_deepbind_pending;
// A library was loaded that the ledger has not counted; a child that is forked now would count it as its own.
std::atomic<bool> g_uncounted;

// The wrapper of the hook whose symbol is `name` if `address` is what it wraps, a trampoline to it if `address` is
// libc's function behind another tool's; else null.
void *wrapper_for(const char *name, void *address) {
  for (size_t i = 0; i < kWrapperCount; ++i) {
    Fn f = hook_function(i);
    if (function(f).symbol.view() != name) continue;
    void *real = find_real(f), *wrapper = kWrappers[i];
    if (real == address) return wrapper;
    // Another tool comes before libc, and the program asks for libc's.
    bool is_libcs = real && find_in_libc(name) == address;
    return is_libcs ? make_trampoline(f, wrapper, real, address) : nullptr;
  }
  return nullptr;
}

}  // namespace

extern "C" {

// Called by the assembly below. The targets are addresses to jump to; for a plain handle the result is dlsym's own.
__attribute__((visibility("hidden"), used)) void *tailrace_dlsym_target() {
  if (__builtin_expect(g_deepbind_pending.load(std::memory_order_relaxed), 0)) {
    g_deepbind_pending.store(false);
    if (enter()) attach_with_gotcha();
  }
  settle_library();
  if (__builtin_expect(g_uncounted.load(std::memory_order_relaxed), 0)) {
    g_uncounted.store(false, std::memory_order_relaxed);
    expect_native_functions();
    count_loaded();
  }
  if (__builtin_expect(layers_expected(), 0)) find_layers();
  return reinterpret_cast<void *>(libc_dlsym());
}

__attribute__((visibility("hidden"), used)) void *tailrace_dlsym_handle(void *handle, const char *symbol) {
  auto *real = reinterpret_cast<DlsymFunction *>(tailrace_dlsym_target());
  void *found = real(handle, symbol);
  if (!found || g_session.state.load(std::memory_order_relaxed) != State::kOn) return found;
  if (handle_wanted() && take_handle(handle)) count_loaded();
  void *wrapper = wrapper_for(symbol, found);
  if (!wrapper) wrapper = layer_wrapper_for(found);
  return wrapper ? wrapper : found;
}

__attribute__((visibility("hidden"), used)) void *tailrace_dlopen_target(const char *name, int flags) {
  if (flags & RTLD_DEEPBIND) g_deepbind_pending.store(true);
  // Without a name it means the program itself.
  if (name) expect_library();
  count_loaded();
  g_uncounted.store(true, std::memory_order_relaxed);
  if (layers_expected()) find_layers();
  expect_layers();
  expect_native_functions();
  return real_address(Fn::f_dlopen);
}

// A library in another name space is not bound.
__attribute__((visibility("hidden"), used)) void *tailrace_dlmopen_target(Lmid_t, const char *name, int) {
  if (name) expect_library();
  return real_address(Fn::f_dlmopen);
}

}  // extern "C"

#if defined(__x86_64__)
// RTLD_DEFAULT is 0, RTLD_NEXT is -1: for both the caller decides what is found, and RTLD_DEFAULT finds our wrapper
// anyway. A sanitizer's runtime calls dlsym before there is memory for its own account, so there it is libc's.
#ifndef TAILRACE_SANITIZED
__asm__(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  leaq 1(%rdi), %rax
  cmpq $1, %rax
  ja 1f
  pushq %rdi
  pushq %rsi
  subq $8, %rsp
  call tailrace_dlsym_target
  addq $8, %rsp
  popq %rsi
  popq %rdi
  jmp *%rax
1:
  jmp tailrace_dlsym_handle
  .size dlsym, .-dlsym
)");
#endif
__asm__(R"(
  .text
  .globl dlopen
  .type dlopen, @function
dlopen:
  pushq %rdi
  pushq %rsi
  subq $8, %rsp
  call tailrace_dlopen_target
  addq $8, %rsp
  popq %rsi
  popq %rdi
  jmp *%rax
  .size dlopen, .-dlopen

  .globl dlmopen
  .type dlmopen, @function
dlmopen:
  pushq %rdi
  pushq %rsi
  pushq %rdx
  call tailrace_dlmopen_target
  popq %rdx
  popq %rsi
  popq %rdi
  jmp *%rax
  .size dlmopen, .-dlmopen
)");
#elif defined(__aarch64__)
#ifndef TAILRACE_SANITIZED
__asm__(R"(
  .text
  .globl dlsym
  .type dlsym, %function
dlsym:
  add x9, x0, #1
  cmp x9, #1
  b.hi 1f
  stp x0, x1, [sp, #-32]!
  str x30, [sp, #16]
  bl tailrace_dlsym_target
  mov x9, x0
  ldr x30, [sp, #16]
  ldp x0, x1, [sp], #32
  br x9
1:
  b tailrace_dlsym_handle
  .size dlsym, .-dlsym
)");
#endif
__asm__(R"(
  .text
  .globl dlopen
  .type dlopen, %function
dlopen:
  stp x0, x1, [sp, #-32]!
  str x30, [sp, #16]
  bl tailrace_dlopen_target
  mov x9, x0
  ldr x30, [sp, #16]
  ldp x0, x1, [sp], #32
  br x9
  .size dlopen, .-dlopen

  .globl dlmopen
  .type dlmopen, %function
dlmopen:
  stp x0, x1, [sp, #-32]!
  stp x2, x30, [sp, #16]
  bl tailrace_dlmopen_target
  mov x9, x0
  ldp x2, x30, [sp, #16]
  ldp x0, x1, [sp], #32
  br x9
  .size dlmopen, .-dlmopen
)");
#endif
