// Included before a program: what moves its data are system calls of its own code, as the libraries of Zig and Rust
// make them. All else is libc's.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STRING(x) #x
#define NUMBER(x) STRING(x)

#if defined(__x86_64__)
#define INLINED_CALL(number, result, a, b, c, d)               \
  register long fourth __asm__("r10") = (d);                   \
  __asm__ volatile("mov $" NUMBER(number) ", %%eax\n\tsyscall" \
                   : "=&a"(result)                             \
                   : "D"(a), "S"(b), "d"(c), "r"(fourth)       \
                   : "rcx", "r11", "memory")
#else
#define INLINED_CALL(number, result, a, b, c, d)                                   \
  register long first __asm__("x0") = (long)(a), second __asm__("x1") = (long)(b); \
  register long third __asm__("x2") = (long)(c), fourth __asm__("x3") = (d);       \
  __asm__ volatile("mov x8, #" NUMBER(number) "\n\tsvc #0"                         \
                   : "+r"(first)                                                   \
                   : "r"(second), "r"(third), "r"(fourth)                          \
                   : "x8", "memory");                                              \
  (result) = first
#endif

#define INLINED(name, number, type)                                              \
  static inline ssize_t inlined_##name(int fd, type bytes, size_t n, off_t at) { \
    long result;                                                                 \
    INLINED_CALL(number, result, (long)fd, bytes, n, at);                        \
    if (result < 0) errno = (int)-result;                                        \
    return result < 0 ? -1 : result;                                             \
  }

INLINED(read, __NR_read, void *)
INLINED(write, __NR_write, const void *)
INLINED(pread, __NR_pread64, void *)
INLINED(pwrite, __NR_pwrite64, const void *)

#define read(fd, bytes, n) inlined_read(fd, bytes, n, 0)
#define write(fd, bytes, n) inlined_write(fd, bytes, n, 0)
#define pread(fd, bytes, n, at) inlined_pread(fd, bytes, n, at)
#define pwrite(fd, bytes, n, at) inlined_pwrite(fd, bytes, n, at)
