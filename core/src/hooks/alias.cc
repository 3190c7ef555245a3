// Hooks: libc's second names for functions that are hooked under their first. A program that was linked against one of
// them (old libstdc++, gnulib) closes and moves as well as any other; each calls the hook of the first name.
#include <fcntl.h>
#include <mntent.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "linker/real.h"

#define ALIAS(type, alias, parameters, first) \
  TAILRACE_HOOK type alias parameters { return first; }

ALIAS(int, __close, (int fd), close(fd))
ALIAS(int, __dup2, (int from, int to), dup2(from, to))
ALIAS(int, __pipe, (int fds[2]), pipe(fds))
ALIAS(ssize_t, __read, (int fd, void *buf, size_t n), read(fd, buf, n))
ALIAS(ssize_t, __write, (int fd, const void *buf, size_t n), write(fd, buf, n))
ALIAS(ssize_t, __pread64, (int fd, void *buf, size_t n, off64_t at), pread64(fd, buf, n, at))
ALIAS(ssize_t, __pwrite64, (int fd, const void *buf, size_t n, off64_t at), pwrite64(fd, buf, n, at))
ALIAS(off_t, __lseek, (int fd, off_t offset, int whence), lseek(fd, offset, whence))
ALIAS(off64_t, llseek, (int fd, off64_t offset, int whence), lseek64(fd, offset, whence))
ALIAS(ssize_t, __send, (int fd, const void *buf, size_t n, int flags), send(fd, buf, n, flags))
ALIAS(int, __connect, (int fd, const struct sockaddr *to, socklen_t n), connect(fd, to, n))
ALIAS(pid_t, __fork, (), fork())
ALIAS(pid_t, __wait, (int *status), wait(status))
ALIAS(pid_t, __waitpid, (pid_t pid, int *status, int options), waitpid(pid, status, options))
ALIAS(FILE *, __setmntent, (const char *path, const char *mode), setmntent(path, mode))
ALIAS(int, __endmntent, (FILE * stream), endmntent(stream))
ALIAS(FILE *, _IO_fopen, (const char *path, const char *mode), fopen(path, mode))
ALIAS(FILE *, _IO_fdopen, (int fd, const char *mode), fdopen(fd, mode))
ALIAS(FILE *, _IO_popen, (const char *command, const char *mode), popen(command, mode))
ALIAS(int, _IO_fclose, (FILE * stream), fclose(stream))
ALIAS(int, _IO_fflush, (FILE * stream), fflush(stream))
ALIAS(size_t, _IO_fread, (void *buf, size_t size, size_t n, FILE *stream), fread(buf, size, n, stream))
ALIAS(size_t, _IO_fwrite, (const void *buf, size_t size, size_t n, FILE *stream), fwrite(buf, size, n, stream))
ALIAS(char *, _IO_fgets, (char *buf, int size, FILE *stream), fgets(buf, size, stream))
ALIAS(int, _IO_fputs, (const char *text, FILE *stream), fputs(text, stream))
ALIAS(int, _IO_puts, (const char *text), puts(text))
ALIAS(int, _IO_ungetc, (int c, FILE *stream), ungetc(c, stream))
ALIAS(int, _IO_vfprintf, (FILE * stream, const char *format, va_list args), vfprintf(stream, format, args))
ALIAS(int, _IO_fsetpos, (FILE * stream, const fpos_t *at), fsetpos(stream, at))
ALIAS(int, _IO_fsetpos64, (FILE * stream, const fpos64_t *at), fsetpos64(stream, at))
ALIAS(int, _IO_setvbuf, (FILE * stream, char *buf, int mode, size_t n), setvbuf(stream, buf, mode, n))
ALIAS(void, _IO_setbuffer, (FILE * stream, char *buf, size_t n), setbuffer(stream, buf, n))

#define OPEN_ALIAS(alias, first)                              \
  TAILRACE_HOOK int alias(const char *path, int flags, ...) { \
    va_list args;                                             \
    va_start(args, flags);                                    \
    mode_t mode = va_arg(args, mode_t);                       \
    va_end(args);                                             \
    return first(path, flags, mode);                          \
  }
OPEN_ALIAS(__open, open)
OPEN_ALIAS(__open64, open64)

TAILRACE_HOOK int __fcntl(int fd, int command, ...) {
  va_list args;
  va_start(args, command);
  void *argument = va_arg(args, void *);
  va_end(args);
  return fcntl(fd, command, argument);
}

#define PRINT_ALIAS(alias, parameters, ...) \
  TAILRACE_HOOK int alias parameters {      \
    va_list args;                           \
    va_start(args, format);                 \
    int ret = vfprintf(__VA_ARGS__, args);  \
    va_end(args);                           \
    return ret;                             \
  }
PRINT_ALIAS(_IO_fprintf, (FILE * stream, const char *format, ...), stream, format)
PRINT_ALIAS(_IO_printf, (const char *format, ...), stdout, format)

// No wrapper is possible between vfork and its caller, so this jumps.
#if defined(__x86_64__)
__asm__(R"(
  .text
  .globl __vfork
  .type __vfork, @function
__vfork:
  jmp vfork
  .size __vfork, .-__vfork
)");
#else
ALIAS(pid_t, __vfork, (), vfork())
#endif
