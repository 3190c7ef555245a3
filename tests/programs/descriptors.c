/* Descriptors whose numbers are used again, and fcntl's less common commands: descriptors WHAT. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static void say(const char *what, long ret) { printf("%s %ld %s\n", what, ret, ret < 0 ? strerror(errno) : ""); }

/* A data loader's pattern: a file's descriptor is copied, made a stream, closed with it; a socket gets the number. */
static void used_again(void) {
  for (int i = 0; i < 30; ++i) {
    int fd = open("file", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int copy = dup(fd);
    FILE *f = fdopen(copy, "w");
    fputs("in file\n", f);
    fclose(f);
    int ends[2], both[2];
    if (i % 2) {
      socketpair(AF_UNIX, SOCK_STREAM, 0, both);
    } else {
      pipe(both);
      int t = both[0];
      both[0] = both[1], both[1] = t;
    }
    char buffer[100];
    write(both[0], "phantom bytes", 13);
    read(both[1], buffer, sizeof buffer);
    close(both[0]);
    close(both[1]);
    close(fd);
    DIR *dir = opendir(".");
    int number = dirfd(dir);
    closedir(dir);
    int counter = eventfd(0, 0);
    if (number != counter && i == 0) puts("number not used again");
    long long one = 1;
    write(counter, &one, sizeof one);
    close(counter);
    f = freopen("other", "w", fopen("file", "r"));
    fputs("other\n", f);
    fclose(f);
    dup2(open("file", O_RDONLY), 77);
    close(77);
    pipe(ends);
    dup2(ends[1], 77);
    write(77, "pipe", 4);
    close(ends[0]), close(ends[1]), close(77);
    closefrom(3);
  }
}

static void commands(void) {
  int fd = open("locked", O_RDWR | O_CREAT, 0600), ends[2];
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
  say("ofd set", fcntl(fd, F_OFD_SETLK, &lock));
  say("ofd get", fcntl(open("locked", O_RDWR), F_OFD_GETLK, &lock));
  printf("%d %d\n", lock.l_type, (int)lock.l_pid);
  lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
  say("set", fcntl(fd, F_SETLK, &lock));
  pipe(ends);
  say("set pipe size", fcntl(ends[0], F_SETPIPE_SZ, 8192));
  say("get pipe size", fcntl(ends[1], F_GETPIPE_SZ));
  say("get flags", fcntl(fd, F_GETFL) & O_ACCMODE);
  say("set flags", fcntl(fd, F_SETFL, O_APPEND));
  struct f_owner_ex owner = {F_OWNER_PID, getpid()};
  say("set owner", fcntl(fd, F_SETOWN_EX, &owner));
  say("get owner", fcntl(fd, F_GETOWN_EX, &owner));
  say("duplicate", fcntl(fd, F_DUPFD, 90));
  say("bad", fcntl(999, F_DUPFD, 0));
  say("bad command", fcntl(fd, 9999, 0));
  say("null lock", fcntl(fd, F_SETLK, NULL));
  say("dup2 self", dup2(fd, fd));
  say("dup3 self", dup3(fd, fd, 0));
  say("dup2 bad", dup2(-1, fd));
  say("still open", write(fd, "x", 1));
  say("close bad", close(12345));
  say("close -1", close(-1));
  say("descriptor", open("next", O_CREAT | O_RDWR, 0640));
}

int main(int argc, char **argv) {
  if (!strcmp(argv[argc - 1], "used_again")) used_again();
  if (!strcmp(argv[argc - 1], "commands")) commands();
  return 0;
}
