// See format/build_info.h.
#include "format/build_info.h"

#include "base/text.h"

#define TAILRACE_STRING_(x) #x
#define TAILRACE_STRING(x) TAILRACE_STRING_(x)

namespace tailrace {

const char *build_info() {
  static char text[1024];
  Writer w(text, sizeof text - 1);
  w << "{\"version\":\"" TAILRACE_VERSION "\",\"gotcha\":";
#ifdef TAILRACE_GOTCHA
  w.json(TAILRACE_GOTCHA);
#else
  w << "null";
#endif
  w << ",\"compiler\":";
  w.json(__VERSION__) << ",\"arch\":\"";
#if defined(__x86_64__)
  w << "x86_64";
#else
  w << "aarch64";
#endif
  w << "\",\"glibc\":\"" TAILRACE_STRING(__GLIBC__) "." TAILRACE_STRING(__GLIBC_MINOR__) "\"}";
  w.c_str();
  return text;
}

}  // namespace tailrace
