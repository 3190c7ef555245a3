// See hooks/attach.h. GOTCHA's interface is three functions and one struct (gotcha.h and gotcha_types.h). It is loaded
// at run time, from this library's directory or where the dynamic linker finds it.
#include "hooks/attach.h"

#include <dlfcn.h>
#include <string.h>

#include "linker/lookup.h"
#include "linker/real.h"
#include "session/ledger.h"
#include "session/libraries.h"
#include "session/session.h"

namespace tailrace {
namespace {

struct GotchaBinding {
  const char *name;
  void *wrapper;
  void **handle;
};

constexpr size_t kMaxBindings = kFunctionCount;
// GOTCHA keeps pointers into the table, so it is never freed.
GotchaBinding g_bindings[kMaxBindings];
void *g_handles[kMaxBindings];
char g_error[512];

int fail(const char *what, const char *why) {
  Writer w(g_error, sizeof g_error - 1);
  w << what << ": " << (why ? why : "unknown error");
  w.c_str();
  return -1;
}

void *open_gotcha() {
  auto *open = reinterpret_cast<void *(*)(const char *, int)>(real_address(Fn::f_dlopen));
  char path[4096];
  Writer w(path, sizeof path);
  if (const char *own = library_path()) {
    string_view file(own);
    size_t slash = file.rfind('/');
    if (slash != string_view::npos) w << slice(file, 0, slash + 1) << "libgotcha.so.2";
  }
  void *handle = w.size() ? open(w.c_str(), RTLD_NOW) : nullptr;
  return handle ? handle : open("libgotcha.so.2", RTLD_NOW);
}

// Only functions of this libc: GOTCHA rejects a whole table for one missing name. GOTCHA itself wraps dlopen and dlsym.
size_t fill_bindings() {
  size_t n = 0;
  for (size_t i = 0; i < kWrapperCount && n < kMaxBindings; ++i) {
    Fn f = hook_function(i);
    if (f == Fn::f_dlopen || f == Fn::f_dlsym) continue;
    if (find_real(f)) g_bindings[n] = {function(f).symbol.data(), kWrappers[i], &g_handles[n]}, ++n;
  }
  return n;
}

}  // namespace

const char *attach_error() { return g_error; }

namespace {

std::atomic<bool> g_attached;

int bind_hooks() {
  void *gotcha = open_gotcha();
  if (!gotcha) {
    g_attached.store(false);
    return fail("libgotcha.so.2 can't be loaded", dlerror());
  }
  auto *wrap = reinterpret_cast<int (*)(GotchaBinding *, int, const char *)>(real_dlsym(gotcha, "gotcha_wrap"));
  if (!wrap) return fail("libgotcha.so.2 has no gotcha_wrap", dlerror());
  int status = wrap(g_bindings, static_cast<int>(fill_bindings()), "tailrace");
  constexpr int kSuccess = 0, kFunctionNotFound = 1;  // gotcha_error_t: a name without a caller yet is no failure
  return status == kSuccess || status == kFunctionNotFound ? 0 : fail("gotcha_wrap", "it could not bind the hooks");
}

}  // namespace

int attach_with_gotcha() {
  if (g_attached.exchange(true)) return 0;
  // GOTCHA reads /proc/self/auxv when it is loaded: not the program's bytes.
  LibcCall account(enter());
  int status = bind_hooks();
  int64_t bytes[2];
  count_loaded();
  if (account.finish(bytes)) count_own(bytes[kRead], bytes[kWritten]);
  return status;
}

}  // namespace tailrace
