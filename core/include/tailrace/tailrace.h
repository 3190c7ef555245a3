/* C API of the tracing core: contexts (tags) for the calling thread, and what the tracer knows of itself.
 *
 * Link with tailrace::tailrace, or look the functions up with dlsym(RTLD_DEFAULT, ...) to stay independent of it: in a
 * process that is not traced they do nothing and say so. All are thread-safe; none changes errno. */
#ifndef TAILRACE_TAILRACE_H
#define TAILRACE_TAILRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A context of this process; 0 is none. Handles are not reused. */
typedef uint32_t tailrace_context;

/* 1 when events of this process are recorded, else 0. */
int tailrace_active(void);

/* The library's version, "major.minor.patch". */
const char *tailrace_version(void);

/* What was compiled in, as a JSON object: version, deflate ("isal" or "zlib"), gotcha (path or null), compiler, arch.
 */
const char *tailrace_build_info(void);

/* Lays `tags` (docs/trace-format.md, "Tags") over the calling thread's context and makes the result its context.
 * An empty value can't be given; a key given again replaces the old value.
 * Returns the new context, or 0 with nothing changed: not traced, or a tag that breaks the rules
 * (then tailrace_tag_error tells which). */
tailrace_context tailrace_context_enter(const char *tags);

/* The calling thread's context. */
tailrace_context tailrace_context_current(void);

/* Makes `context` the calling thread's; 0 is the process's own. Returns the one that was. */
tailrace_context tailrace_context_switch(tailrace_context context);

/* Ends `context` (a task is over): a thread that still carries it records as the process's own from now on, never as
 * that task. Seals the calling thread's block to the run directory. */
void tailrace_context_finish(tailrace_context context);

/* Seals what the calling thread has recorded to the run directory now. */
void tailrace_flush(void);

/* Checks a tag string: 0 when it keeps the rules; else the position of the fault plus one, and a sentence that names
 * the key and the rule in `message` (at most `size` bytes, terminated). */
size_t tailrace_tag_error(const char *tags, char *message, size_t size);

/* The run directory, and the value of a setting (core/src/format/settings.def): the settings are hidden from the environment
 * of a traced process. Null when nothing is traced, or there is no such setting. */
const char *tailrace_run_directory(void);
const char *tailrace_setting(const char *name);

/* Binds the hooks with GOTCHA in every library that is loaded: for a process that was started without the preload
 * (TAILRACE_RUN and the rest of `tailrace env` must be set). Returns 0, or -1 with the reason from
 * tailrace_attach_error. */
int tailrace_attach(void);
const char *tailrace_attach_error(void);

#ifdef __cplusplus
}
#endif

#endif
