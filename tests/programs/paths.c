/* Paths as long as the kernel takes them, and longer, which end where the memory ends: each line is a call's result and
   errno. An argument names a single call. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

extern char **environ;

static struct stat status;
static struct statx status_x;
static char room[8192];
static char *const argv_of_none[] = {"none", NULL};

/* The last `n` bytes of memory behind which there is none. */
static char *at_the_end(size_t n) {
  static char *end;
  if (!end) {
    char *whole = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    end = whole + 4 * 4096;
    mprotect(end, 4096, PROT_NONE);
  }
  return end - n;
}

static int visit(const char *path, const struct stat *found, int kind) { return 0; }
static long closed(int fd) { return fd < 0 ? -1 : close(fd); }
static long ended(void *stream, int (*end)(void *)) { return stream ? end(stream) : -1; }
static long in_child(int (*call)(const char *), const char *path) {
  int ends[2], result[2] = {0, 0};
  pipe(ends);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    result[0] = call(path);
    result[1] = errno;
    write(ends[1], result, sizeof result);
    _exit(0);
  }
  int how;
  waitpid(child, &how, 0);
  if (how) return 1000 + how;
  read(ends[0], result, sizeof result);
  close(ends[0]);
  close(ends[1]);
  errno = result[1];
  return result[0];
}
static int execute(const char *path) { return execve(path, argv_of_none, environ); }
static int execute_at(const char *path) { return execveat(AT_FDCWD, path, argv_of_none, environ, 0); }
static int search(const char *path) { return execvp(path, argv_of_none); }
static int search_slash(const char *path) {
  char *copy = (char *)path;
  copy[1] = '/';
  return execvp(path, argv_of_none);
}
static int change_root(const char *path) { return chroot(path); }

static long spawn(const char *path) {
  pid_t child;
  int error = posix_spawn(&child, path, NULL, NULL, argv_of_none, environ);
  if (error == 0) waitpid(child, NULL, 0);
  errno = error;
  return error ? -1 : 0;
}

#define CALLS(CALL)                                                \
  CALL(closed(open(p, O_RDONLY)))                                  \
  CALL(closed(open(p, O_RDWR | O_CREAT, 0600)))                    \
  CALL(closed(openat(AT_FDCWD, p, O_RDONLY)))                      \
  CALL(closed(creat(p, 0600)))                                     \
  CALL(ended(fopen(p, "r"), (void *)fclose))                       \
  CALL(ended(freopen(p, "r", fopen("file", "r")), (void *)fclose)) \
  CALL(ended(opendir(p), (void *)closedir))                        \
  CALL(stat(p, &status))                                           \
  CALL(lstat(p, &status))                                          \
  CALL(fstatat(AT_FDCWD, p, &status, 0))                           \
  CALL(statx(AT_FDCWD, p, 0, STATX_SIZE, &status_x))               \
  CALL(access(p, R_OK))                                            \
  CALL(faccessat(AT_FDCWD, p, R_OK, 0))                            \
  CALL(eaccess(p, R_OK))                                           \
  CALL(readlink(p, room, sizeof room))                             \
  CALL(readlinkat(AT_FDCWD, p, room, sizeof room))                 \
  CALL(truncate(p, 0))                                             \
  CALL(chmod(p, 0600))                                             \
  CALL(fchmodat(AT_FDCWD, p, 0600, 0))                             \
  CALL(chown(p, -1, -1))                                           \
  CALL(lchown(p, -1, -1))                                          \
  CALL(fchownat(AT_FDCWD, p, -1, -1, 0))                           \
  CALL(utime(p, NULL))                                             \
  CALL(utimes(p, NULL))                                            \
  CALL(utimensat(AT_FDCWD, p, NULL, 0))                            \
  CALL(setxattr(p, "user.a", "b", 1, 0))                           \
  CALL(lsetxattr(p, "user.a", "b", 1, 0))                          \
  CALL(getxattr(p, "user.a", room, sizeof room))                   \
  CALL(lgetxattr(p, "user.a", room, sizeof room))                  \
  CALL(listxattr(p, room, 1) == 77)                                \
  CALL(removexattr(p, "user.a"))                                   \
  CALL(link("file", p))                                            \
  CALL(link(p, "linked"))                                          \
  CALL(link("missing", p))                                         \
  CALL(linkat(AT_FDCWD, p, AT_FDCWD, "linked", 0))                 \
  CALL(symlink("file", p))                                         \
  CALL(symlink(p, "to"))                                           \
  CALL(symlink("", p))                                             \
  CALL(symlinkat("file", AT_FDCWD, p))                             \
  CALL(rename("missing", p))                                       \
  CALL(rename(p, "file2"))                                         \
  CALL(rename(p, p))                                               \
  CALL(renameat(AT_FDCWD, p, AT_FDCWD, "file2"))                   \
  CALL(renameat2(AT_FDCWD, "file", AT_FDCWD, p, 1))                \
  CALL(mkdir(p, 0700))                                             \
  CALL(mkdirat(AT_FDCWD, p, 0700))                                 \
  CALL(rmdir(p))                                                   \
  CALL(mknod(p, S_IFREG | 0600, 0))                                \
  CALL(mknodat(AT_FDCWD, p, S_IFREG | 0600, 0))                    \
  CALL(mkfifo(p, 0600))                                            \
  CALL(chdir(p))                                                   \
  CALL(spawn(p))                                                   \
  CALL(in_child(execute, p))                                       \
  CALL(in_child(execute_at, p))                                    \
  CALL(in_child(change_root, p))                                   \
  CALL(closed(syscall(SYS_openat, AT_FDCWD, p, O_RDONLY)))         \
  CALL(remove(p))                                                  \
  CALL(unlink(p))                                                  \
  CALL(unlinkat(AT_FDCWD, p, 0))

#define TRY(call)                                        \
  if (!only || strstr(#call, only)) {                    \
    errno = 0;                                           \
    long ret = (long)(call);                             \
    printf("%s %s = %ld %d\n", what, #call, ret, errno); \
  }

static void begin(void) {
  close(open("file", O_RDWR | O_CREAT | O_TRUNC, 0600));
  unlink("linked");
  unlink("to");
  rename("file2", "file");
}

static void with_path(char *p, const char *what, const char *only) {
  begin();
  CALLS(TRY)
}

/* "./././file" */
static void write_long(char *p, size_t n, int ends) {
  for (size_t i = 0; i < n; ++i) p[i] = i % 2 ? '/' : '.';
  memcpy(p + n - 4 - ends, "file", 4);
  if ((n - 4 - ends) % 2) p[0] = '/', memcpy(p, "./", 2), p[n - 5 - ends] = '/';
  if (ends) p[n - 1] = 0;
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : NULL;
  setvbuf(stdout, NULL, _IONBF, 0);
  size_t sizes[] = {1, 5, 254, 255, 256, 257, 4000, 4094, 4095, 4096, 4097, 4098, 8000};
  char what[64];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    size_t n = sizes[i];
    char *p = at_the_end(n);
    snprintf(what, sizeof what, "%zu bytes of a name without an end:", n);
    memset(p, 'a', n);
    with_path(p, what, only);
    snprintf(what, sizeof what, "%zu bytes of a name:", n);
    p[n - 1] = 0;
    with_path(p, what, only);
    TRY(ftw(p, visit, 3))
    TRY(in_child(search, p))
    if (n < 5) continue;
    snprintf(what, sizeof what, "%zu bytes of a path without an end:", n);
    write_long(p, n, 0);
    with_path(p, what, only);
    snprintf(what, sizeof what, "%zu bytes of a path:", n);
    write_long(p, n, 1);
    with_path(p, what, only);
    if (n < 4096) continue;
    memset(p, 'a', n);
    snprintf(what, sizeof what, "%zu bytes to search:", n);
    begin();
    TRY(in_child(search_slash, p))
  }
  /* What the kernel does not read since it has refused the other one. */
  for (size_t i = 0; i < 3; ++i) {
    char *bad = i == 0 ? (char *)8 : i == 1 ? (char *)-4096 : at_the_end(0);
    char *tail = at_the_end(4098);
    memset(tail, 'a', 4098);
    snprintf(what, sizeof what, "bad pointer %zu:", i);
    begin();
    TRY(rename(tail, bad))
    TRY(rename(bad, tail))
    TRY(rename("", bad))
    TRY(rename("missing", bad))
    TRY(renameat2(AT_FDCWD, tail, AT_FDCWD, bad, 0))
    TRY(link("", bad))
    TRY(link("missing", bad))
    TRY(link(tail, bad))
    TRY(symlink("", bad))
    TRY(symlink(tail, bad))
    TRY(linkat(AT_FDCWD, "missing/x", AT_FDCWD, bad, 0))
  }
  return 0;
}
