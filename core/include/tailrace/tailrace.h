/* C API of the tracing core: contexts (tags) of the calling thread, and the state of the tracer.
 *
 * Link with tailrace::tailrace, or look the functions up with dlsym(RTLD_DEFAULT, ...) to stay independent of it. In an
 * untraced process they do nothing, and their results say so. All are thread-safe; none changes errno. */
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

/* The build as a JSON object: version, gotcha (path or null), compiler, arch. */
const char *tailrace_build_info(void);

/* Adds `tags` (docs/trace-format.md, "Tags") to the calling thread's context and makes the result its context.
 * A key that the context has gets the new value; a value can't be empty.
 * Returns the new context, or 0 with nothing changed: not traced, or a tag that breaks the rules (tailrace_tag_error
 * says which). */
tailrace_context tailrace_context_enter(const char *tags);

/* The calling thread's context. */
tailrace_context tailrace_context_current(void);

/* Makes `context` the calling thread's; 0 is the process's own. Returns the previous one. */
tailrace_context tailrace_context_switch(tailrace_context context);

/* Ends `context` (a task is over): threads that still have it record under the process's own context from now on, never
 * as that task. Seals the calling thread's records to the run directory when they are many, or the first is a second
 * old; else they follow with a later task's, tailrace_flush or the process's end. */
void tailrace_context_finish(tailrace_context context);

/* Seals the records of the calling thread, and of threads that have ended, to the run directory now. */
void tailrace_flush(void);

/* Checks a tag string. Returns 0 when it is valid, else the position of the fault plus one, with a sentence that names
 * the key and the rule in `message` (at most `size` bytes, terminated). */
size_t tailrace_tag_error(const char *tags, char *message, size_t size);

/* The run directory, and the value of a setting (core/src/format/settings.def), which are hidden from the environment
 * of a traced process. Null in an untraced process, or when there is no such setting. */
const char *tailrace_run_directory(void);
const char *tailrace_setting(const char *name);

/* Binds the hooks with GOTCHA in every loaded library: for a process that was started without the preload library
 * (TAILRACE_RUN and the other variables of `tailrace env` must be set). Returns 0, or -1 with the reason from
 * tailrace_attach_error. */
int tailrace_attach(void);
const char *tailrace_attach_error(void);

#ifdef __cplusplus
}
#endif

#endif
