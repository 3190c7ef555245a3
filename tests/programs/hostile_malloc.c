// A malloc that calls back wherever real ones do. Under its lock, which does not nest, it reads and writes files, looks a
// function up and registers handlers: in its first call, in each thread's first, before and after a fork, and at the
// end. It takes so many thread-specific keys that libc allocates for the next one's values. Each stage adds an x to
// malloc.log.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kKeys = 40, kChunk = 1 << 20, kHeader = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static int ready;
static char *next, *end;
static __thread int begun __attribute__((tls_model("initial-exec")));

static void stage(void) {
  int fd = open("malloc.log", O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (write(fd, "x", 1) != 1) abort();
  close(fd);
}

static void look_at(const char *path) {
  char text[256];
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (fstat(fd, &s) || read(fd, text, sizeof text) < 0) abort();
  close(fd);
}

static void before_fork(void) {
  pthread_mutex_lock(&lock);
  stage();
}

static void after_fork(void) {
  stage();
  pthread_mutex_unlock(&lock);
}

static void thread_ends(void *value) {
  pthread_mutex_lock(&lock);
  stage();
  pthread_mutex_unlock(&lock);
}

static void begin(void) {
  char text[64];
  pthread_key_t other;
  ready = 1;
  pthread_key_create(&key, thread_ends);
  for (int i = 0; i < kKeys; ++i) pthread_key_create(&other, NULL);
  pthread_atfork(before_fork, after_fork, after_fork);
  if (readlink("/etc/malloc.conf", text, sizeof text) > (ssize_t)sizeof text) abort();
  look_at("/proc/sys/vm/overcommit_memory");
  if (!dlsym(RTLD_NEXT, "malloc")) abort();
  stage();
}

static void begin_thread(void) {
  begun = 1;
  pthread_setspecific(key, &begun);
  stage();
}

static void refill(size_t bytes) {
  size_t chunk = bytes > kChunk ? bytes : kChunk;
  next = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (next == MAP_FAILED) abort();
  end = next + chunk;
  look_at("/proc/self/statm");
}

static void *take(size_t n, size_t alignment) {
  if (n > PTRDIFF_MAX - kChunk) {
    errno = ENOMEM;
    return NULL;
  }
  pthread_mutex_lock(&lock);
  if (!ready) begin();
  if (!begun) begin_thread();
  size_t most = n + alignment + kHeader;
  if (!next || (size_t)(end - next) < most) refill((most + 4095) & ~(size_t)4095);
  uintptr_t at = ((uintptr_t)next + kHeader + alignment - 1) & -alignment;
  ((size_t *)at)[-1] = n;
  next = (char *)at + ((n + 15) & ~(size_t)15);
  pthread_mutex_unlock(&lock);
  return (void *)at;
}

void *malloc(size_t n) { return take(n, 16); }
void *memalign(size_t alignment, size_t n) { return take(n, alignment < 16 ? 16 : alignment); }
void *aligned_alloc(size_t alignment, size_t n) { return memalign(alignment, n); }
int posix_memalign(void **out, size_t alignment, size_t n) { return (*out = memalign(alignment, n)) ? 0 : ENOMEM; }
size_t malloc_usable_size(void *p) { return p ? ((size_t *)p)[-1] : 0; }

void *calloc(size_t count, size_t size) {
  size_t n;
  if (__builtin_mul_overflow(count, size, &n)) {
    errno = ENOMEM;
    return NULL;
  }
  return take(n, 16);  // never used before
}

void *realloc(void *old, size_t n) {
  void *p = take(n, 16);
  size_t had = malloc_usable_size(old);
  if (p && had) memcpy(p, old, had < n ? had : n);
  return p;
}

void free(void *p) {
  if (!p) return;
  pthread_mutex_lock(&lock);
  if (!begun) begin_thread();
  pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void ends(void) {
  pthread_mutex_lock(&lock);
  stage();
  pthread_mutex_unlock(&lock);
}
