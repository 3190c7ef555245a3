/* What docs/compatibility.md promises of the C API: each function with the type that it had in its first release, after the
 * headers, so that another type does not compile; and what a program that calls them gets in an untraced and in a traced
 * process. Lines are added here, and none is changed: a program that was compiled long ago has these types.
 *
 *   promised_api       prints a line for each answer */
#include <stdio.h>
#include <string.h>
#include <tailrace/plugin.h>
#include <tailrace/region.h>
#include <tailrace/tailrace.h>

/* 0.1 */
int tailrace_active(void);
const char *tailrace_version(void);
const char *tailrace_build_info(void);
uint32_t tailrace_context_enter(const char *tags);
uint32_t tailrace_context_current(void);
uint32_t tailrace_context_switch(uint32_t context);
void tailrace_context_finish(uint32_t context);
void tailrace_flush(void);
size_t tailrace_tag_error(const char *tags, char *message, size_t size);
const char *tailrace_run_directory(void);
const char *tailrace_setting(const char *name);
int tailrace_attach(void);
const char *tailrace_attach_error(void);

int tailrace_encode_tags(const tailrace_tag *tags, size_t count, char *text, size_t size);
struct tailrace_run *tailrace_run_open(const char *directory, const char *tags, char *message, size_t size);
const char *tailrace_run_directory_of(const struct tailrace_run *run);
int tailrace_run_environment(const struct tailrace_run *run, const char *tags, const char *const *base,
                             void (*set)(void *data, const char *name, const char *value), void *data, char *message,
                             size_t size);
int tailrace_run_declare(struct tailrace_run *run, const char *manager, const char *line, char *message, size_t size);
int tailrace_run_finish(struct tailrace_run *run, char *message, size_t size);

/* The layouts that are compiled into programs, on machines of 64 bits. */
#define HAS(type, member, at) _Static_assert(offsetof(type, member) == (at), #type "." #member)
HAS(tailrace_tag, key, 0);
HAS(tailrace_tag, value, 8);
_Static_assert(sizeof(tailrace_tag) == 16, "tailrace_tag");
HAS(tailrace_region, id, 0);
_Static_assert(sizeof(tailrace_region) == 96, "tailrace_region");
HAS(tailrace_site, name, 0);
HAS(tailrace_site, category, 8);
HAS(tailrace_site, definition, 16);
_Static_assert(sizeof(tailrace_site) == 24, "tailrace_site");
HAS(tailrace_region_functions, bytes, 0);
HAS(tailrace_region_functions, define, 8);
HAS(tailrace_region_functions, begin, 16);
HAS(tailrace_region_functions, end, 24);
HAS(tailrace_region_functions, instant, 32);
HAS(tailrace_region_functions, counter, 40);
HAS(tailrace_region_functions, switch_to, 48);
HAS(tailrace_region_functions, hold, 56);
HAS(tailrace_region_functions, current, 64);
_Static_assert(TAILRACE_NO_KEY == INT64_MIN, "TAILRACE_NO_KEY");

static tailrace_site kSite = TAILRACE_SITE("solve", "compute");

int main(void) {
  char message[256] = "";
  printf("active %d\n", tailrace_active());
  printf("run %s\n", tailrace_run_directory() != NULL ? "named" : "none");
  printf("detail %s\n", tailrace_setting("TAILRACE_DETAIL") != NULL ? "known" : "none");
  printf("unknown setting %s\n", tailrace_setting("TAILRACE_NONE") != NULL ? "known" : "none");
  const uint32_t before = tailrace_context_current();
  const uint32_t context = tailrace_context_enter("stage=solve,sample=7");
  printf("context %s\n", context != 0 && context == tailrace_context_current() ? "entered" : "none");
  printf("bad tags %u\n", tailrace_context_enter("Stage=solve"));
  const size_t fault = tailrace_tag_error("stage=solve,Bad=1", message, sizeof message);
  printf("fault at %zu: %s\n", fault, message[0] != '\0' ? "named" : "not named");
  printf("valid %zu\n", tailrace_tag_error("stage=solve", message, sizeof message));
  tailrace_region region;
  tailrace_region_begin(&region, &kSite);
  printf("region %s\n", region.id != 0 ? "recorded" : "none");
  tailrace_region_end(&region);
  tailrace_context_switch(before);
  tailrace_context_finish(context);
  tailrace_flush();
  printf("version %s\n", tailrace_version());
  printf("build %c\n", tailrace_build_info()[0]);
  return 0;
}
