/* C API for plugins of workflow and resource managers: what starts the tasks of a run on a node, and is not traced itself.
 *
 *   tailrace_run *run = tailrace_run_open("/shared/run", "", message, sizeof message);
 *   tailrace_tag tags[] = {{"workflow", "w"}, {"stage", "align"}, {"task", name}, {"try", "0"}};
 *   tailrace_encode_tags(tags, 4, text, sizeof text);
 *   tailrace_run_environment(run, text, environ, set, &task, message, sizeof message);   for each task, before its start
 *   tailrace_run_finish(run, message, sizeof message);                                   when they have ended
 *
 * Link with libtailrace-plugin.so, which lies beside libtailrace.so. Functions that can fail return -1 (or null) with one
 * sentence for the user in `message` (at most `size` bytes, terminated); a plugin says it and starts its tasks untraced. No
 * function ends the process, writes to its streams or changes its environment. A run is used by one thread at a time; its
 * sealer is a thread of the lowest priority, which a child that was forked does not have. docs/new-manager.md. */
#ifndef TAILRACE_PLUGIN_H
#define TAILRACE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tailrace_run tailrace_run;

/* A key by the rules of docs/trace-format.md ("Tags"), and any text. */
typedef struct {
  const char *key;
  const char *value;
} tailrace_tag;

/* Writes the canonical string of the tags. Of a value the control characters and what is no UTF-8 are left out, as is
 * what is behind its 1024th byte; a tag whose value is empty then, or null, is left out. Returns its length, or -1: a key
 * breaks the rules, or `size` (8192 bytes are enough for all) is too small. */
int tailrace_encode_tags(const tailrace_tag *tags, size_t count, char *text, size_t size);

/* Creates the run directory, or opens it for more tasks, and describes this node in it. tags: of the whole run, canonical,
 * or "". The directory belongs to the calling user, and has the same path on each node. */
tailrace_run *tailrace_run_open(const char *directory, const char *tags, char *message, size_t size);

/* Its absolute path, with links resolved; valid until tailrace_run_finish. */
const char *tailrace_run_directory_of(const tailrace_run *run);

/* Calls `set` with each variable to be set for a program that is started with the environment `base` (NAME=VALUE, ends with
 * a null pointer), so that it and all that it starts are traced with these tags. Tags that `base` has already stay, unless
 * given anew. */
int tailrace_run_environment(const tailrace_run *run, const char *tags, const char *const *base,
                             void (*set)(void *data, const char *name, const char *value), void *data, char *message,
                             size_t size);

/* Appends a line of docs/declared-dag.md, a JSON object without newlines, to the run's declarations. manager: a word of
 * letters and digits. Returns 0, or -1 where it is not written: it is none, or there is no room. */
int tailrace_run_declare(tailrace_run *run, const char *manager, const char *line, char *message, size_t size);

/* Seals what the ended processes of this node left, ends the sealer and frees the run. Call it when the tasks have ended,
 * also after a failure of the functions above. Returns 0, or -1 where events could not be written. */
int tailrace_run_finish(tailrace_run *run, char *message, size_t size);

#ifdef __cplusplus
}
#endif

#endif
