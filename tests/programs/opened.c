/* Opens files in every way that their name may depend on, each twice, and prints what the kernel calls the descriptor.
 * Lines that begin with ~ are opens after another process has put a link in the place of a directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_name(const char *mark, int fd) {
  char link[64], name[8192];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long n = fd < 0 ? -1 : syscall(SYS_readlink, link, name, sizeof name - 1);
  name[n < 0 ? 0 : n] = 0;
  printf("%s%s\n", mark, name);
}

static void shown(int fd) {
  print_name("", fd);
  close(fd);
}

static void twice_at(int directory, const char *path, int flags) {
  for (int i = 0; i < 2; ++i) shown(openat(directory, path, flags, 0600));
}

static void twice(const char *path, int flags) { twice_at(AT_FDCWD, path, flags); }

static void make(const char *path) { shown(open(path, O_WRONLY | O_CREAT, 0600)); }

static void in_another_process(int (*change)(const char *, const char *), const char *a, const char *b) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(change(a, b) != 0);
  waitpid(child, NULL, 0);
}

static void plain(const char *top) {
  char path[4096];
  snprintf(path, sizeof path, "%s/d/f", top);
  make(path);
  twice(path, O_RDONLY);
  for (const char **way = (const char *[]){"//d///f", "/./d/./f", "/d/../d/f", "/d/e/../f", "/d", "/d/", "/d/.", "/d/e",
                                           "", "/d/e/..", NULL};
       *way; ++way) {
    snprintf(path, sizeof path, "%s%s", top, *way);
    twice(path, O_RDONLY);
  }
  for (const char **way = (const char *[]){"d/f", "./d/f", "d//f", "d/../d/f", ".", "..", "./", "d", "f", NULL}; *way;
       ++way)
    twice(*way, O_RDONLY);
  twice("d/f", O_RDONLY | O_NOFOLLOW);
  snprintf(path, sizeof path, "%s/d/new", top);
  shown(open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
  snprintf(path, sizeof path, "%s/d/madeXXXXXX", top);
  shown(mkstemp(path));
  snprintf(path, sizeof path, "%s/d/f", top);
  FILE *stream = fopen(path, "r");
  print_name("", fileno(stream));
  fclose(stream);
  DIR *entries = opendir("d");
  print_name("", dirfd(entries));
  closedir(entries);
}

static void below_descriptors(void) {
  int d = open("d", O_RDONLY | O_DIRECTORY);
  print_name("", d);
  for (const char **way = (const char *[]){"f", "./f", "e/../f", "e/g", "..", ".", NULL}; *way; ++way)
    twice_at(d, *way, O_RDONLY | O_CREAT * (strcmp(*way, "e/g") == 0));
  in_another_process(rename, "d", "moved");
  twice_at(d, "f", O_RDONLY);
  rename("moved", "d");
  twice_at(d, "f", O_RDONLY);
  struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_IN_ROOT};
  for (int i = 0; i < 2; ++i) shown((int)syscall(SYS_openat2, d, "/f", &how, sizeof how));
  close(d);
}

static void links(void) {
  symlink("d", "to_d");
  symlink("d/f", "to_f");
  symlink("f", "d/to_f");
  link("d/f", "hard");
  for (const char **way =
           (const char *[]){"to_d/f", "to_f", "d/to_f", "to_d/to_f", "to_d/", "to_d", "hard", "to_d/e/../f", NULL};
       *way; ++way)
    twice(*way, O_RDONLY);
  twice("to_f", O_PATH | O_NOFOLLOW);
  /* The same path, the same file, another name. */
  symlink("hard", "swap");
  twice("swap", O_RDONLY);
  unlink("swap");
  symlink("d/f", "swap");
  twice("swap", O_RDONLY);
  /* A directory is moved and a link takes its place. */
  twice("d/e/g", O_RDONLY);
  rename("d/e", "d/was_e");
  symlink("was_e", "d/e");
  twice("d/e/g", O_RDONLY);
}

static void nameless(const char *top) {
  char path[4096];
  snprintf(path, sizeof path, "%s/d", top);
  twice(path, O_TMPFILE | O_RDWR);
  twice(path, O_TMPFILE | O_RDWR | O_NOFOLLOW);
  for (int i = 0; i < 2; ++i) shown(memfd_create("d/f", 0));
  int gone = open("gone", O_RDWR | O_CREAT, 0600);
  print_name("", gone);
  snprintf(path, sizeof path, "/proc/self/fd/%d", gone);
  twice(path, O_RDONLY);
  unlink("gone");
  twice(path, O_RDONLY);
  close(gone);
  int kept = open("d/f", O_RDONLY);
  print_name("", kept);
  for (const char **way = (const char *[]){"/proc/self/fd/%d", "/dev/fd/%d", "/proc/thread-self/fd/%d", NULL}; *way;
       ++way) {
    snprintf(path, sizeof path, *way, kept);
    twice(path, O_RDONLY);
  }
  snprintf(path, sizeof path, "/proc/%d/fd", getpid());
  twice(path, O_RDONLY);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), kept);
  twice(path, O_RDONLY);
  close(kept);
  twice("/dev/null", O_RDWR);
  twice("/proc/self/status", O_RDONLY);
  twice("/proc/self/ns/mnt", O_RDONLY);
  twice("/", O_RDONLY);
}

static void deep(void) {
  char step[201];
  memset(step, 'd', 200);
  step[200] = 0;
  int top = open(".", O_RDONLY);
  print_name("", top);
  /* Not so deep that the kernel itself has no name for it. */
  for (int i = 0; i < 18; ++i) mkdir(step, 0700), chdir(step);
  make("deep");
  twice("deep", O_RDONLY);
  fchdir(top);
  close(top);
}

static void elsewhere(const char *top) {
  char path[4096];
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return;
  mkdir("bound", 0700);
  twice("bound", O_RDONLY);
  mount("d", "bound", NULL, MS_BIND, NULL);
  snprintf(path, sizeof path, "%s/bound/f", top);
  twice(path, O_RDONLY);
  twice("bound/f", O_RDONLY);
  umount("bound");
  mkdir("d/root", 0700);
  chdir("d");
  make("root/f");
  mkdir("root/proc", 0700);
  if (mount("proc", "root/proc", "proc", 0, NULL) != 0) return;
  int outside = open(".", O_RDONLY);
  print_name("", outside);
  if (chroot("root") != 0) return;
  twice_at(outside, "f", O_RDONLY);
  twice("f", O_RDONLY);
  chdir("/");
  twice("f", O_RDONLY);
  twice("/f", O_RDONLY);
  twice_at(outside, "f", O_RDONLY);
}

int main(void) {
  char top[4096];
  getcwd(top, sizeof top);
  mkdir("d", 0700);
  mkdir("d/e", 0700);
  make("f");
  plain(top);
  below_descriptors();
  links();
  nameless(top);
  deep();
  twice("d/was_e/g", O_RDONLY);
  in_another_process(rename, "d/was_e", "d/kept");
  in_another_process(symlink, "kept", "d/was_e");
  for (int i = 0; i < 2; ++i) {
    int fd = open("d/was_e/g", O_RDONLY);
    print_name("~", fd);
    close(fd);
  }
  elsewhere(top);
  return 0;
}
