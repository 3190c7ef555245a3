/* DFTracer's macros for C and C++ over tailrace's regions: annotated programs keep their annotations.
 *
 *     #include <tailrace/dftracer.h>      was: #include <dftracer/dftracer.h>, and nothing is linked
 *
 * Events are regions of the category C_APP or CPP_APP. DFTRACER_*_INIT and _FINI do nothing, since tailrace traces the
 * calls; metadata are instants of the category `metadata`. */
#ifndef TAILRACE_DFTRACER_H
#define TAILRACE_DFTRACER_H

#include <stdio.h>
#include <string.h>

#include "tailrace/region.h"

#define DFTRACER_VERSION "tailrace"

/* A region with keys that are given after its begin. */
typedef struct tailrace_dftracer_region {
  tailrace_region region;
  int64_t epoch, step;
  int open;
  size_t bytes; /* of keys */
  char keys[2048];
} tailrace_dftracer_region;

static inline void tailrace_dftracer_begin(tailrace_dftracer_region *r, const char *name, const char *category) {
  tailrace_site site = TAILRACE_SITE(name, category);
  r->epoch = r->step = TAILRACE_NO_KEY;
  r->open = 1;
  r->bytes = 0;
  tailrace_region_begin(&r->region, &site);
}

static inline void tailrace_dftracer_end(tailrace_dftracer_region *r) {
  if (!r->open) return;
  r->open = 0;
  if (r->bytes == 0 && r->epoch == TAILRACE_NO_KEY && r->step == TAILRACE_NO_KEY) {
    tailrace_region_end(&r->region);
  } else {
    tailrace_region_end_with(&r->region, r->epoch, r->step, r->bytes ? r->keys : NULL);
  }
}

/* Keys are tags: lower case, and what a value may not have as it is percent-encoded. One too long is left out. */
static inline size_t tailrace_dftracer_write_key(char *to, size_t room, int is_first, const char *key,
                                                 const char *value) {
  size_t n = 0, i;
  if (value[0] == '\0' || strlen(key) > 60 || strlen(key) + 3 * strlen(value) + 8 > room) return 0;
  if (!is_first) to[n++] = ',';
  if (!((key[0] | 32) >= 'a' && (key[0] | 32) <= 'z')) to[n++] = 'k';
  for (i = 0; key[i]; ++i) {
    char c = key[i];
    if (c >= 'A' && c <= 'Z') c = (char)(c + 32);
    to[n++] = (char)((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '_');
  }
  to[n++] = '=';
  for (i = 0; value[i]; ++i) {
    unsigned char c = (unsigned char)value[i];
    if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')) {
      to[n++] = (char)c;
    } else if (c >= 0x20 && c != 0x7F) {
      n += (size_t)snprintf(to + n, 4, "%%%02X", c);
    }
  }
  to[n] = '\0';
  return n;
}

static inline void tailrace_dftracer_update_text(tailrace_dftracer_region *r, const char *key, const char *value) {
  if (tailrace_regions == NULL) return;
  r->bytes += tailrace_dftracer_write_key(r->keys + r->bytes, sizeof r->keys - r->bytes, r->bytes == 0, key, value);
}

static inline void tailrace_dftracer_update_int(tailrace_dftracer_region *r, const char *key, int64_t value) {
  char text[24];
  if (tailrace_regions == NULL) return;
  if (strcmp(key, "epoch") == 0) {
    r->epoch = value;
  } else if (strcmp(key, "step") == 0) {
    r->step = value;
  } else {
    snprintf(text, sizeof text, "%lld", (long long)value);
    tailrace_dftracer_update_text(r, key, text);
  }
}

static inline void tailrace_dftracer_metadata(const char *key, const char *value) {
  tailrace_site site = TAILRACE_SITE(key, "metadata");
  char keys[2048];
  if (tailrace_regions == NULL) return;
  keys[0] = '\0';
  tailrace_dftracer_write_key(keys, sizeof keys, 1, "value", value);
  tailrace_instant(&site, keys);
}

#define TAILRACE_DFTRACER_REGION_(variable) \
  tailrace_dftracer_region variable __attribute__((cleanup(tailrace_dftracer_end)))

#define DFTRACER_C_INIT(log_file, data_dirs, process_id) ((void)0)
#define DFTRACER_C_INIT_NO_BIND(log_file, data_dirs, process_id) ((void)0)
#define DFTRACER_C_FINI() ((void)0)
#define DFTRACER_C_MARK_USED(name) ((void)0)
#define DFTRACER_C_APP_METADATA_INT(key, val)                                  \
  do {                                                                         \
    char tailrace_text_[24];                                                   \
    snprintf(tailrace_text_, sizeof tailrace_text_, "%lld", (long long)(val)); \
    tailrace_dftracer_metadata(key, tailrace_text_);                           \
  } while (0)
#define DFTRACER_C_APP_METADATA_STR(key, val) tailrace_dftracer_metadata(key, val)
#define DFTRACER_C_FUNCTION_START()   \
  TAILRACE_DFTRACER_REGION_(data_fn); \
  tailrace_dftracer_begin(&data_fn, __func__, "C_APP")
#define DFTRACER_C_FUNCTION_END() tailrace_dftracer_end(&data_fn)
#define DFTRACER_C_REGION_START(name)     \
  TAILRACE_DFTRACER_REGION_(data_##name); \
  tailrace_dftracer_begin(&data_##name, #name, "C_APP")
#define DFTRACER_C_REGION_END(name) tailrace_dftracer_end(&data_##name)
#define DFTRACER_C_METADATA(name, key, val) tailrace_dftracer_metadata(key, val)
#define DFTRACER_C_FUNCTION_UPDATE_INT(key, val) tailrace_dftracer_update_int(&data_fn, key, val)
#define DFTRACER_C_FUNCTION_UPDATE_STR(key, val) tailrace_dftracer_update_text(&data_fn, key, val)
#define DFTRACER_C_REGION_UPDATE_INT(name, key, val) tailrace_dftracer_update_int(&data_##name, key, val)
#define DFTRACER_C_REGION_UPDATE_STR(name, key, val) tailrace_dftracer_update_text(&data_##name, key, val)
#define DFTRACER_C_FUNCTION_UPDATE_INT_TYPE(key, val, type) DFTRACER_C_FUNCTION_UPDATE_INT(key, val)
#define DFTRACER_C_FUNCTION_UPDATE_STR_TYPE(key, val, type) DFTRACER_C_FUNCTION_UPDATE_STR(key, val)
#define DFTRACER_C_REGION_UPDATE_INT_TYPE(name, key, val, type) DFTRACER_C_REGION_UPDATE_INT(name, key, val)
#define DFTRACER_C_REGION_UPDATE_STR_TYPE(name, key, val, type) DFTRACER_C_REGION_UPDATE_STR(name, key, val)

#ifdef __cplusplus

class DFTracer {
 public:
  DFTracer(const char *name, const char *category) { tailrace_dftracer_begin(&region_, name, category); }
  ~DFTracer() { tailrace_dftracer_end(&region_); }
  DFTracer(const DFTracer &) = delete;
  DFTracer &operator=(const DFTracer &) = delete;
  void update(const char *key, const char *value) { tailrace_dftracer_update_text(&region_, key, value); }
  template <class Number>
  void update(const char *key, Number value) {
    tailrace_dftracer_update_int(&region_, key, static_cast<int64_t>(value));
  }
  template <class Value, class Type>
  void update(const char *key, Value value, Type) {
    update(key, value);
  }

 private:
  tailrace_dftracer_region region_;
};

#define DFTRACER_CPP_INIT(log_file, data_dirs, process_id) ((void)0)
#define DFTRACER_CPP_INIT_NO_BIND(log_file, data_dirs, process_id) ((void)0)
#define DFTRACER_CPP_FINI() ((void)0)
#define DFTRACER_CPP_MARK_USED(name) ((void)0)
#define DFTRACER_CPP_APP_METADATA_INT(key, val) DFTRACER_C_APP_METADATA_INT(key, val)
#define DFTRACER_CPP_APP_METADATA_STR(key, val) DFTRACER_C_APP_METADATA_STR(key, val)
#define DFTRACER_CPP_FUNCTION() DFTracer profiler_dft_fn(__FUNCTION__, "CPP_APP");
#define DFTRACER_CPP_METADATA(name, key, value) tailrace_dftracer_metadata(key, value);
#define DFTRACER_CPP_REGION(name) DFTracer profiler_##name(#name, "CPP_APP");
#define DFTRACER_CPP_REGION_START(name) DFTracer *profiler_##name = new DFTracer(#name, "CPP_APP");
#define DFTRACER_CPP_REGION_END(name) delete profiler_##name
#define DFTRACER_CPP_FUNCTION_UPDATE(key, val) profiler_dft_fn.update(key, val);
#define DFTRACER_CPP_FUNCTION_UPDATE_TYPE(key, val, type) profiler_dft_fn.update(key, val);
#define DFTRACER_CPP_REGION_UPDATE(name, key, val) profiler_##name.update(key, val);
#define DFTRACER_CPP_REGION_UPDATE_TYPE(name, key, val, type) profiler_##name.update(key, val);
#define DFTRACER_CPP_REGION_DYN_UPDATE(name, key, val) profiler_##name->update(key, val);
#define DFTRACER_CPP_REGION_DYN_UPDATE_TYPE(name, key, val, type) profiler_##name->update(key, val);

#endif
#endif
