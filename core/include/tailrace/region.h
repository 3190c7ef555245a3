/* Regions of a program, for C: header only, nothing to link. Where the program is not traced, each call costs one load
 * and one branch.
 *
 *     #include <tailrace/region.h>
 *
 *     static tailrace_site kSolve = TAILRACE_SITE("solve", "compute");
 *     tailrace_region region;
 *     tailrace_region_begin(&region, &kSolve);
 *     ...
 *     tailrace_region_end(&region);
 *
 * A region belongs to the thread that began it, and ends there; regions are nested. What the thread does meanwhile, and
 * the threads and programs that it starts, has the region's path as the tag `region` (docs/regions.md). C++:
 * region.hpp. */
#ifndef TAILRACE_REGION_H
#define TAILRACE_REGION_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No epoch, or no step. */
#define TAILRACE_NO_KEY INT64_MIN

/* A region between its begin and its end. Its memory is the caller's; its contents are the library's. */
typedef struct tailrace_region {
  uint64_t id; /* 0: not recorded */
  uint64_t state[11];
} tailrace_region;

/* What the library has for this header. Members are only added, at the end. */
typedef struct tailrace_region_functions {
  size_t bytes; /* of this object */
  /* A name and a category (may be ""), as often as wanted; null where nothing is recorded. */
  const void *(*define)(const char *name, const char *category);
  void (*begin)(tailrace_region *region, const void *definition, int64_t epoch, int64_t step, const char *keys);
  /* `changed` 0: what was given at the begin holds. */
  void (*end)(tailrace_region *region, int64_t epoch, int64_t step, const char *keys, int changed);
  void (*instant)(const void *definition, int64_t epoch, int64_t step, const char *keys);
  void (*counter)(const void *definition, double value);
  /* The thread goes on in this region, or where hold() was called; null: in no region that this process began. */
  void (*switch_to)(const tailrace_region *region);
  void (*hold)(tailrace_region *state);
  /* The number of the thread's region, 0 for none. */
  uint64_t (*current)(void);
} tailrace_region_functions;

/* A place in the program that begins a region: its name and category, and what the library has made of them. */
typedef struct tailrace_site {
  const char *name;
  const char *category;
  const void *definition;
} tailrace_site;
#define TAILRACE_SITE(name, category) \
  { name, category, NULL }

/* One in each object file. Null in a program that isn't traced. */
static const tailrace_region_functions *tailrace_regions __attribute__((unused));

/* Looks for the library, which is there from the start of a traced program. To be called again after tailrace_attach().
 * A constructor, since no look-up is allowed in a signal handler. No weak symbol: in a program that is not position-
 * independent the linker makes it zero for good. */
__attribute__((constructor, unused)) static void tailrace_find_regions(void) {
  typedef const tailrace_region_functions *(*find)(void);
  union {
    void *object;
    find function;
  } found;
  found.object = dlsym(RTLD_DEFAULT, "tailrace_region_functions_v1");
  tailrace_regions = found.object ? found.function() : NULL;
}

static inline const void *tailrace_definition(tailrace_site *site) {
  const void *definition = __atomic_load_n(&site->definition, __ATOMIC_ACQUIRE);
  if (__builtin_expect(definition == NULL, 0)) {
    definition = tailrace_regions->define(site->name, site->category);
    __atomic_store_n(&site->definition, definition, __ATOMIC_RELEASE);
  }
  return definition;
}

/* `keys`: further keys as tags, "model=unet,batch=32", or null. */
static inline void tailrace_region_begin_with(tailrace_region *region, tailrace_site *site, int64_t epoch, int64_t step,
                                              const char *keys) {
  if (__builtin_expect(tailrace_regions == NULL, 1)) {
    region->id = 0;
    return;
  }
  tailrace_regions->begin(region, tailrace_definition(site), epoch, step, keys);
}

static inline void tailrace_region_begin(tailrace_region *region, tailrace_site *site) {
  tailrace_region_begin_with(region, site, TAILRACE_NO_KEY, TAILRACE_NO_KEY, NULL);
}

static inline void tailrace_region_end(tailrace_region *region) {
  if (__builtin_expect(tailrace_regions == NULL, 1)) return;
  tailrace_regions->end(region, TAILRACE_NO_KEY, TAILRACE_NO_KEY, NULL, 0);
}

/* The end, with what became known meanwhile. `keys` has those of the begin, too. */
static inline void tailrace_region_end_with(tailrace_region *region, int64_t epoch, int64_t step, const char *keys) {
  if (__builtin_expect(tailrace_regions == NULL, 1)) return;
  tailrace_regions->end(region, epoch, step, keys, 1);
}

/* Something that happens now. */
static inline void tailrace_instant(tailrace_site *site, const char *keys) {
  if (__builtin_expect(tailrace_regions == NULL, 1)) return;
  tailrace_regions->instant(tailrace_definition(site), TAILRACE_NO_KEY, TAILRACE_NO_KEY, keys);
}

/* The site's number is `value` from now on. */
static inline void tailrace_counter(tailrace_site *site, double value) {
  if (__builtin_expect(tailrace_regions == NULL, 1)) return;
  tailrace_regions->counter(tailrace_definition(site), value);
}

#ifdef __cplusplus
}
#endif

#endif
