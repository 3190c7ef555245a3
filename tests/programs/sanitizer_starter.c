/* Preloaded with a sanitizer's runtime into all programs of the tests. Built with the sanitizer, so that its
 * constructor begins the runtime: ThreadSanitizer's waits for a module that is built for it, and crashes untraced
 * programs if none comes. */
#include <stdlib.h>

/* dd asks for sizes that are no multiple of the alignment, as libc lets it; the runtimes don't. */
void *aligned_alloc(size_t alignment, size_t n) {
  void *p = NULL;
  return posix_memalign(&p, alignment, n) ? NULL : p;
}

/* With either runtime libc's lock of its message catalogues is broken when ps comes here, which would wait for ever. */
char *textdomain(const char *domain) { return (char *)domain; }
