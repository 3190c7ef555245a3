/* Preloaded with a sanitizer's runtime into all programs of the tests. Built with the sanitizer, so that its
 * constructor begins the runtime: ThreadSanitizer's waits for a module that is built for it, and crashes untraced
 * programs if none comes; and either has to be there before the constructors of other libraries. */
#include <stdlib.h>

/* dd asks for sizes that are no multiple of the alignment, as libc lets it; the runtimes don't. */
void *aligned_alloc(size_t alignment, size_t n) {
  void *p = NULL;
  return posix_memalign(&p, alignment, n) ? NULL : p;
}
