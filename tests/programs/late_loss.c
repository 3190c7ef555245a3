/* After the records were sealed at the process's end, a thread without a journal reads: late_loss FILE READS
 *
 * The thread can't have a journal, since files may not be so large from then on.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *path;
static int reads;

static void *read_late(void *unused) {
  char byte;
  int fd = open(path, O_RDONLY);
  for (int i = 0; i < reads; ++i) {
    if (pread(fd, &byte, 1, 0) < 0) abort();
  }
  return unused;
}

static void late(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, read_late, NULL) || pthread_join(thread, NULL)) abort();
}

int main(int argc, char **argv) {
  struct rlimit small = {20 * 1024, 20 * 1024};
  if (argc < 3) return 2;
  path = argv[1];
  reads = atoi(argv[2]);
  signal(SIGXFSZ, SIG_IGN);
  close(open(path, O_RDONLY));
  if (setrlimit(RLIMIT_FSIZE, &small) || at_quick_exit(late)) abort();
  quick_exit(0);
}
