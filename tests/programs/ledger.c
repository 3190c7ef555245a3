/* Processes whose account the kernel keeps to the byte: each mode does I/O that a ledger gets wrong easily. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[100000];

static int create(const char *name) { return open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600); }

/* A system call that no library function stands for. */
static long raw_write(int fd, const void *from, size_t n) {
#if defined(__x86_64__)
  long ret;
  __asm__ volatile("syscall" : "=a"(ret) : "a"(SYS_write), "D"(fd), "S"(from), "d"(n) : "rcx", "r11", "memory");
  return ret;
#else
  register long number __asm__("x8") = SYS_write, ret __asm__("x0") = fd, b __asm__("x1") = (long)from;
  register long c __asm__("x2") = (long)n;
  __asm__ volatile("svc 0" : "+r"(ret) : "r"(number), "r"(b), "r"(c) : "memory");
  return ret;
#endif
}

/* Reads text.txt by stdio: back and forth, little of each buffer, flushed now and then, and leaves some unread. */
static void seek_about(void) {
  char some[100];
  FILE *in = fopen("text.txt", "r");
  for (long i = 0; i < 50; i++) {
    fseek(in, i * 7919 % 40000, SEEK_SET);
    fread(some, 1, sizeof some, in);
    fseek(in, -50, SEEK_CUR);
    fread(some, 1, 10, in);
    if (i % 7 == 0) fflush(in);
    fseek(in, 3, SEEK_CUR);
    getc(in);
  }
  fgets(some, sizeof some, in);
  fclose(in);
  in = fopen("text.txt", "r");
  fgets(some, sizeof some, in);
}

extern pid_t __wait(int *), __waitpid(pid_t, int *, int);
static atomic_int reaped;

static void *wait_for_all(void *number) {
  siginfo_t info;
  for (;;) {
    pid_t got = 0;
    switch ((long)number) {
      case 0: got = wait(NULL); break;
      case 1: got = waitpid(-1, NULL, 0); break;
      case 2: got = waitpid(0, NULL, 0); break;
      case 3: got = wait4(-1, NULL, 0, NULL); break;
      case 4: got = waitid(P_ALL, 0, &info, WEXITED) < 0 ? -1 : info.si_pid; break;
      default: got = reaped % 2 ? __wait(NULL) : __waitpid(-1, NULL, 0);
    }
    if (got < 0) return NULL;
    reaped++;
  }
}

static atomic_int over;

/* Writes on and on, with pauses. */
static void *keep_writing(void *unused) {
  int fd = open("/dev/null", O_WRONLY);
  while (!over) {
    write(fd, block, 700);
    usleep(1000);
  }
  return unused;
}

static void *write_once(void *unused) {
  write(open("/dev/null", O_WRONLY), block, 900);
  return unused;
}

int main(int argc, char **argv) {
  const char *mode = argv[1];
  if (!strcmp(mode, "raw")) {
    int fd = create("raw.out");
    write(fd, block, 1000);
    raw_write(fd, block, sizeof block);
  } else if (!strcmp(mode, "kill")) {
    int fd = create("kill.out");
    for (int i = 0; i < 10; i++) write(fd, block, sizeof block);
    kill(getpid(), SIGKILL);
  } else if (!strcmp(mode, "kill_child")) {
    if (fork() == 0) execl(argv[0], argv[0], "kill", (char *)0);
    wait(NULL);
  } else if (!strcmp(mode, "chain")) {
    int left = atoi(argv[2]);
    char name[32], rest[16];
    sprintf(name, "chain%d.out", left);
    sprintf(rest, "%d", left - 1);
    write(create(name), block, 1000 * left);
    if (left) execl(argv[0], argv[0], "chain", rest, (char *)0);
  } else if (!strcmp(mode, "seek")) {
    seek_about();
  } else if (!strcmp(mode, "stdio_fork")) {
    FILE *in = fopen("text.txt", "r"), *out = fopen("stdio.out", "w");
    char line[100];
    fgets(line, sizeof line, in);
    fputs("from the parent\n", out);
    if (fork() == 0) {
      fgets(line, sizeof line, in);
      fputs("from the child\n", out);
      exit(0);
    }
    wait(NULL);
  } else if (!strcmp(mode, "unreaped")) {
    int end[2];
    char byte;
    pipe(end);
    if (fork() == 0) {
      write(create("child.out"), block, 5000);
      _exit(0);
    }
    close(end[1]);
    read(end[0], &byte, 1); /* until the child has ended */
    write(create("parent.out"), block, 3000);
  } else if (!strcmp(mode, "daemon")) {
    if (fork() == 0) {
      setsid();
      if (fork() == 0) {
        write(create("daemon.out"), block, 70000);
        rename("daemon.out", "daemon.done");
      }
      _exit(0);
    }
    wait(NULL);
  } else if (!strcmp(mode, "waiters")) {
    /* Threads that wait for whom they get, each by its own call; every child's bytes are its own. */
    enum { WAITERS = 6, CHILDREN = 60 };
    pthread_t waiters[WAITERS];
    for (int i = 0; i < CHILDREN; i++)
      if (fork() == 0) {
        write(open("/dev/null", O_WRONLY), block, 1000 * (i + 1));
        raise(SIGKILL);
      }
    for (long i = 0; i < WAITERS; i++) pthread_create(&waiters[i], NULL, wait_for_all, (void *)i);
    for (int i = 0; i < WAITERS; i++) pthread_join(waiters[i], NULL);
    printf("%d\n", (int)reaped);
  } else if (!strcmp(mode, "busy") || !strcmp(mode, "churn")) {
    /* Children are waited for while other threads write, or come and go. */
    enum { WRITERS = 3, CHILDREN = 40 };
    pthread_t writers[WRITERS], passing;
    for (int i = 0; i < WRITERS; i++) pthread_create(&writers[i], NULL, keep_writing, NULL);
    for (int i = 0; i < CHILDREN; i++) {
      pid_t child = fork();
      if (child == 0) {
        write(open("/dev/null", O_WRONLY), block, 1000 * (i + 1));
        raise(SIGKILL);
      }
      if (!strcmp(mode, "churn")) pthread_create(&passing, NULL, write_once, NULL);
      waitpid(child, NULL, 0);
      if (!strcmp(mode, "churn")) pthread_join(passing, NULL);
    }
    over = 1;
    for (int i = 0; i < WRITERS; i++) pthread_join(writers[i], NULL);
  } else if (!strcmp(mode, "turns")) {
    /* A stream that turns from reading to writing and back: seeks read ahead, and writes give it back. */
    FILE *f = fopen("turns.out", "w+");
    for (int i = 0; i < 4; i++) fwrite(block, 1, 2880, f);
    for (int at = 0; at < 9000; at += 719) {
      fseek(f, at, SEEK_SET);
      if (at % 5) fread(block, 1, 100, f), fseek(f, 0, SEEK_CUR);
      if (at % 4) fputc('x', f);
      fwrite(block, 1, 50, f);
      if (at % 3) fprintf(f, "%d", at);
    }
    fseek(f, 0, SEEK_END);
    fseek(f, 0, SEEK_END);
    fseek(f, 0, 77);
    fseek(f, -3000, SEEK_CUR);
    while (fread(block, 1, 500, f) == 500) {
    }
    fseek(f, 0, SEEK_CUR);
    fputc('y', f);
    fclose(f);
  } else if (!strcmp(mode, "waits")) {
    /* Every form, and what must not change: no child, none ended yet, a bad option. */
    int status = 0;
    siginfo_t info;
    printf("%d\n", (int)waitpid(-1, &status, 0));
    int begin[2];
    pipe(begin);
    pid_t child = fork();
    if (child == 0) {
      char byte;
      close(begin[1]);
      read(begin[0], &byte, 1); /* until the parent has found it running */
      write(create("one.out"), block, 100);
      _exit(3);
    }
    printf("%d %d\n", (int)waitpid(child, &status, WNOHANG), (int)waitpid(-1, &status, 0x4000000));
    close(begin[1]);
    waitpid(child, &status, 0);
    printf("%d\n", status);
    if (fork() == 0) _exit(4);
    memset(&info, 0, sizeof info);
    waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
    printf("%d %d\n", info.si_code, info.si_status);
    memset(&info, 0, sizeof info);
    printf("%d %d\n", waitid(P_ALL, 0, &info, WEXITED), info.si_status);
    child = fork();
    if (child == 0) {
      raise(SIGSTOP);
      _exit(5);
    }
    waitpid(0, &status, WUNTRACED);
    printf("%d\n", WIFSTOPPED(status));
    kill(child, SIGCONT);
    wait4(child, &status, 0, NULL);
    printf("%d\n", WEXITSTATUS(status));
    printf("%d\n", waitid(P_PID, 1 << 30, &info, WEXITED));
  }
  return 0;
}
