// Hooks and addresses of loaded code: where the real functions are, dlsym and dlopen, and GOTCHA for what symbol
// interposition misses (libraries loaded with RTLD_DEEPBIND, and a process that was started without the preload).
//
// What holds:
// - dlsym and dlopen judge by their caller (RTLD_NEXT, RUNPATH, $ORIGIN), so ours leave by a jump wherever the caller
// matters: the
//   dynamic linker sees the program as the caller.
// - GOTCHA is loaded only where it is needed; its set-up costs more than all the rest of a process's start.
#include <dlfcn.h>
#include <stdlib.h>

#include "base/sys.h"
#include "hooks/attach.h"
#include "layers/layers.h"
#include "linker/direct.h"
#include "linker/libc_memory.h"
#include "linker/lookup.h"
#include "linker/real.h"
#include "session/ledger.h"
#include "session/libraries.h"
#include "session/record.h"

// The linker's.
extern "C" __attribute__((visibility("hidden"))) char __ehdr_start[], _end[];

namespace tailrace {

std::atomic<void *> g_real[kFunctionCount];

namespace {

using DlsymFunction = void *(void *, const char *);

DlsymFunction *libc_dlsym() {
  static std::atomic<void *> known;
  void *p = known.load(std::memory_order_relaxed);
  if (p) return reinterpret_cast<DlsymFunction *>(p);
  p = find_in_libc("dlsym");
  // Before glibc 2.34 it is libdl's. dlvsym is no hook of ours. The versions: of x86_64, of aarch64.
  for (void *where : {RTLD_NEXT, RTLD_DEFAULT}) {
    for (const char *version : {"GLIBC_2.2.5", "GLIBC_2.17"}) {
      if (!p) p = dlvsym(where, "dlsym", version);
    }
  }
  known.store(p, std::memory_order_relaxed);
  return reinterpret_cast<DlsymFunction *>(p);
}

// By the linker's marks around this library. dladdr looks through a library's whole symbol table: 60 us for libc.
bool is_ours(void *address) { return address >= __ehdr_start && address < _end; }

}  // namespace

void *real_dlsym(void *handle, const char *symbol) { return libc_dlsym()(handle, symbol); }

void *find_real(Fn f) {
  std::atomic<void *> &known = g_real[static_cast<size_t>(f)];
  if (void *p = known.load(std::memory_order_relaxed)) return p;
  // A string_view of the table ends with a zero: it was made from a literal.
  const char *symbol = function(f).symbol.data();
  void *p = find_next(symbol);
  // Of a library that was loaded later, so no allocator calls it; or this library was, and looks all functions up while
  // it is attached.
  if (!p) p = real_dlsym(RTLD_NEXT, symbol);
  if (!p || is_ours(p)) p = find_in_libc(symbol);
  known.store(p, std::memory_order_relaxed);
  return p;
}

void *find_real_for(Fn f, void *caller) {
  if (void *p = find_real(f)) return p;
  Dl_info calling;
  if (!dladdr(caller, &calling) || !calling.dli_fname) return nullptr;
  auto *open = reinterpret_cast<void *(*)(const char *, int)>(real_address(Fn::f_dlopen));
  void *handle = open(calling.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  // It is called, so it is there already, and stays for as long as its caller does.
  void *p = handle ? real_dlsym(handle, function(f).symbol.data()) : nullptr;
  if (handle) dlclose(handle);
  return p && !is_ours(p) ? p : nullptr;
}

void *resolve_real(Fn f) {
  if (void *p = find_real(f)) return p;
  char message[256];
  Writer w(message, sizeof message);
  w << "tailrace: this C library has no " << function(f).symbol << ", which the program calls\n";
  sys::write(2, w.view().data(), w.size());
  abort();
}

void *wrapper_for(const char *name, void *address) {
  for (size_t i = 0; i < kWrapperCount; ++i) {
    if (string_view(kWrappers[i].symbol) != name) continue;
    auto f = static_cast<Fn>(i + 1);
    void *real = find_real(f), *wrapper = kWrappers[i].wrapper;
    if (real == address) return wrapper;
    // Another tool comes before libc, and the program asks for libc's.
    bool is_libcs = real && find_in_libc(name) == address;
    return is_libcs ? direct_way(f, wrapper, real, address) : nullptr;
  }
  return nullptr;
}

namespace {
// A library was loaded whose own symbols come before ours; it is bound at the next dlsym, by which time it is there.
std::atomic<bool> g_deepbind_pending;
// A library was loaded that the ledger has not counted: a child that is forked now would take it for its own.
std::atomic<bool> g_uncounted;
}  // namespace

}  // namespace tailrace

using namespace tailrace;

extern "C" {

// Called by the assembly below: the address to jump to, and for a plain handle the answer itself.
__attribute__((visibility("hidden"), used)) void *tailrace_dlsym_target() {
  if (__builtin_expect(g_deepbind_pending.load(std::memory_order_relaxed), 0)) {
    g_deepbind_pending.store(false);
    if (enter()) attach_with_gotcha();
  }
  settle_library();
  if (__builtin_expect(g_uncounted.load(std::memory_order_relaxed), 0)) {
    g_uncounted.store(false, std::memory_order_relaxed);
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
  // Without a name it is the program itself.
  if (name) expect_library();
  count_loaded();
  g_uncounted.store(true, std::memory_order_relaxed);
  if (layers_expected()) find_layers();
  expect_layers();
  return real_address(Fn::f_dlopen);
}

// What is loaded into another name space is nothing to bind.
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
