/* A program that chooses its own addresses: memory WHAT [HOW]. It prints what it finds, and ends with 1 if its memory is
   not its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
enum { kFilled = 0x5a, kMostRanges = 4096, kThreads = 6 };

static void read_much(int calls) {
  char c;
  int fd = open("given", O_RDONLY);
  for (int i = 0; i < calls; ++i) {
    read(fd, &c, 1);
    if (i % 16 == 0) lseek(fd, 0, SEEK_SET);
  }
  close(fd);
}

static void open_much(int files) {
  for (int i = 0; i < files; ++i) {
    char name[32];
    snprintf(name, sizeof name, "file%d", i);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    unlink(name);
  }
}

static int changed(const char *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (memory[i] != kFilled) return 1;
  }
  return 0;
}

/* As loaders, symmetric heaps and runtimes do: what was free a moment ago is mapped at the same place. */
static int freed(const char *how) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (strcmp(how, "noreplace") ? MAP_FIXED : MAP_FIXED_NOREPLACE), bad = 0;
  for (size_t bytes = 16 * PAGE; bytes <= 1024 * PAGE; bytes *= 4) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(at, bytes);
    read_much(20000);
    open_much(1500);
    unsigned char pages[1024];
    int seen = mincore(at, bytes, pages);
    char *again = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    printf("%zu KiB: mincore %d %d, %s\n", bytes / 1024, seen, seen ? errno : 0, again == at ? "mapped" : "not mapped");
    if (again != at) return 1;
    memset(again, kFilled, bytes);
    read_much(20000);
    open_much(1500);
    bad = bad || changed(again, bytes);
  }
  return bad;
}

/* The tracer's mappings, which only a program that looks for them finds: its files, and what is below the programs. */
static struct {
  char *at;
  size_t bytes;
} ranges[kMostRanges];
static int range_count;

static void find_ranges(void) {
  static const char kFolder[] = "/tailrace-";
  unsigned long program = (unsigned long)0x555555554000;
  char line[5000];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps) && range_count < kMostRanges) {
    unsigned long begin, end;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    int is_below = begin < program && begin > program - (8UL << 30);
    if (!strstr(line, kFolder) && !is_below) continue;
    ranges[range_count].at = (char *)begin;
    ranges[range_count++].bytes = end - begin;
  }
  fclose(maps);
}

static volatile int stop;
static long rounds[kThreads];

static void *do_nothing(void *given) {
  read_much(2);
  return given;
}

static void *work(void *number) {
  long n = (long)number;
  char name[32], text[256];
  snprintf(name, sizeof name, "work%ld", n);
  for (; !stop; ++rounds[n]) {
    int ends[2], fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    memset(text, (int)n, sizeof text);
    if (write(fd, text, sizeof text) != sizeof text || pread(fd, text, sizeof text, 0) != sizeof text) abort();
    if (text[9] != n) abort();
    close(fd);
    FILE *stream = fopen(name, "r");
    fgets(text, 20, stream);
    fclose(stream);
    rename(name, "renamed");
    rename("renamed", name);
    pipe(ends);
    close(ends[0]);
    close(ends[1]);
    if (n == 1 && rounds[n] % 32 == 0) system(":");
    if (n == 2 && rounds[n] % 32 == 0) {
      pid_t child = fork();
      if (child == 0) {
        read_much(2);
        _exit(0);
      }
      waitpid(child, NULL, 0);
    }
    if (n == 3) {
      pthread_t other;
      pthread_create(&other, NULL, do_nothing, NULL);
      pthread_join(other, NULL);
    }
  }
  unlink(name);
  return NULL;
}

/* Calls that begin before the memory goes and end after it. */
static int waited[2];
static FILE *waited_stream;
static void *wait_in_read(void *given) {
  char c;
  read(waited[0], &c, 1);
  return given;
}
static void *wait_in_fread(void *given) {
  char c;
  fread(&c, 1, 1, waited_stream);
  return given;
}

static char *map_at(const char *how, char *at, size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
  if (!strcmp(how, "fixed")) return mmap(at, bytes, both, flags | MAP_FIXED, -1, 0);
  if (!strcmp(how, "none")) return mmap(at, bytes, PROT_NONE, flags | MAP_FIXED, -1, 0);
  if (!strcmp(how, "noreplace")) return mmap(at, bytes, both, flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (!strcmp(how, "number")) return (char *)syscall(SYS_mmap, at, bytes, both, flags | MAP_FIXED, -1, 0);
  if (!strcmp(how, "shmat")) {
    int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
    char *attached = shmat(id, at, 0);
    shmctl(id, IPC_RMID, NULL);
    return attached;
  }
  char *from = mmap(NULL, bytes, both, flags, -1, 0);
  return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);
}

/* Takes the tracer's memory while threads record. */
static int taken(const char *how) {
  pthread_t threads[kThreads], waiting[2];
  int stream_ends[2], bad = 0;
  pipe(waited);
  pipe(stream_ends);
  waited_stream = fdopen(stream_ends[0], "r");
  pthread_create(&waiting[0], NULL, wait_in_read, NULL);
  pthread_create(&waiting[1], NULL, wait_in_fread, NULL);
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, work, (void *)i);
  while (!rounds[0] || !rounds[kThreads - 1]) usleep(1000);
  find_ranges();
  for (int i = 0; i < range_count; ++i) {
    char *at = map_at(how, ranges[i].at, ranges[i].bytes);
    if (at != ranges[i].at) bad = 1;
    if (at == ranges[i].at && strcmp(how, "none")) memset(at, kFilled, ranges[i].bytes);
  }
  long before = rounds[0];
  while (rounds[0] < before + 20) usleep(1000);
  write(waited[1], "x", 1);
  write(stream_ends[1], "x", 1);
  for (int i = 0; i < 2; ++i) pthread_join(waiting[i], NULL);
  stop = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < range_count && strcmp(how, "none"); ++i) bad = bad || changed(ranges[i].at, ranges[i].bytes);
  printf("%s\n", bad ? "not all was mapped, or what was there has changed" : "all was mapped and is unchanged");
  return bad;
}

/* What says of memory that is the tracer's that there is none, and leaves it as it is. */
static int left(const char *how) {
  static unsigned char pages[1 << 20];
  int bad = 0;
  open_much(10);
  find_ranges();
  for (int i = 0; i < range_count; ++i) {
    char *at = ranges[i].at;
    size_t n = ranges[i].bytes;
    errno = 0;
    long status = !strcmp(how, "munmap")              ? munmap(at, n)
                  : !strcmp(how, "munmap by number")  ? syscall(SYS_munmap, at, n)
                  : !strcmp(how, "mincore")           ? mincore(at, n, pages)
                  : !strcmp(how, "mprotect")          ? mprotect(at, n, PROT_NONE)
                  : !strcmp(how, "madvise")           ? madvise(at, n, MADV_DONTNEED)
                  : !strcmp(how, "msync")             ? msync(at, n, MS_SYNC)
                  : !strcmp(how, "mlock")             ? mlock(at, n)
                  : mremap(at, n, n, 0) == MAP_FAILED ? -1
                                                      : 0;
    int expected = strstr(how, "munmap") ? 0 : strcmp(how, "mremap") ? ENOMEM : EFAULT;
    if (status != (expected ? -1 : 0) || errno != expected) bad = 1;
  }
  read_much(5000);
  printf("%s\n", bad ? "something was there" : "nothing was there");
  return bad;
}

/* Its own pages on both sides of the tracer's: they alone are seen, and go. */
static int around(const char *how) {
  open_much(10);
  find_ranges();
  char *first = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range_count) {
    char *at = ranges[0].at - 2 * PAGE;
    first = mmap(at, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (first != at) return 2;
  }
  unsigned char pages[4] = {9, 9, 9, 9};
  *first = 1;
  errno = 0;
  int seen = mincore(first, 2 * PAGE, pages), gone = munmap(first, 4 * PAGE);
  printf("mincore %d %d %d, munmap %d\n", seen, pages[0] & 1, pages[1] & 1, gone);
  printf("mincore then %d", mincore(first, PAGE, pages));
  printf(" %d\n", errno);
  read_much(5000);
  return 0;
}

/* The largest part of the address space that can be had in one piece, in TiB. */
static int largest(const char *how) {
  read_much(10);
  size_t tib = 1UL << 40, most = 0;
  for (size_t n = 127; n > 0 && !most; --n) {
    void *at = mmap(NULL, n * tib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) most = n;
    if (at != MAP_FAILED) munmap(at, n * tib);
  }
  printf("more than %zu TiB\n", most / 8 * 8);
  return 0;
}

/* Children of children, each with I/O of its own: no memory stays from one to the next. */
static int chain(const char *how) {
  long first = 0, pages = 0;
  for (int i = 0; i <= 60; ++i) {
    read_much(2);
    FILE *statm = fopen("/proc/self/statm", "r");
    fscanf(statm, "%ld", &pages);
    fclose(statm);
    if (i == 2) first = pages;
    pid_t child = strcmp(how, "raw") ? fork() : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child < 0) return 1;
    if (child > 0) {
      int status;
      waitpid(child, &status, 0);
      _exit(WEXITSTATUS(status));
    }
  }
  dprintf(1, "%s\n", pages == first ? "as large" : "larger");
  _exit(pages != first);
}

/* In a child of fork that has not recorded anything its parent's records are not mapped. */
static int child(const char *how) {
  read_much(10);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) _exit(!strcmp(how, "left") ? left("mincore") : taken("fixed"));
  int status;
  waitpid(pid, &status, 0);
  printf("child %d\n", status);
  read_much(10);
  return status != 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(const char *);
  } kCases[] = {{"freed", freed},     {"taken", taken}, {"left", left},  {"around", around},
                {"largest", largest}, {"chain", chain}, {"child", child}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; ++i) {
    if (!strcmp(argv[1], kCases[i].name)) return kCases[i].run(argc > 2 ? argv[2] : "");
  }
  return 99;
}
