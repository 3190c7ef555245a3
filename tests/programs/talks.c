// Processes that talk to each other: argv[1] names the kind of sockets. One sends `kSent` bytes, its pid first, and the
// other sends `kAnswered` back, so that the directions differ in their sums. The answering process
// prints both pids.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSent = 30000, kAnswered = 700 };
static char buffer[kSent];

static void check(int good, const char *what) {
  if (good) return;
  perror(what);
  exit(1);
}

// A pipe that says that the server is there.
static int ready[2];
static void is_ready(void) { check(write(ready[1], "r", 1) == 1, "write"); }
static void until_ready(void) {
  char c;
  check(read(ready[0], &c, 1) == 1, "read");
}

static void take(int fd, size_t n) {
  for (size_t at = 0; at < n;) {
    ssize_t got = recv(fd, buffer + at, n - at, 0);
    check(got > 0, "recv");
    at += (size_t)got;
  }
}
static void give(int fd, size_t n) {
  for (size_t at = 0; at < n;) {
    ssize_t sent = write(fd, buffer + at, n - at);
    check(sent > 0, "write");
    at += (size_t)sent;
  }
}

// Before the question, and after it.
static void sign(void) {
  int pid = getpid();
  memcpy(buffer, &pid, sizeof pid);
}
static void tell(void) {
  int asker;
  memcpy(&asker, buffer, sizeof asker);
  dprintf(1, "%d %d\n", asker, (int)getpid());
}

static void asks(int fd) {
  sign();
  give(fd, kSent);
  take(fd, kAnswered);
  close(fd);
}
static void answers(int fd) {
  take(fd, kSent);
  tell();
  give(fd, kAnswered);
  check(read(fd, buffer, 1) == 0, "end");
  close(fd);
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}
static int port_of(int fd) {
  struct sockaddr_in a;
  socklen_t n = sizeof a;
  check(getsockname(fd, (struct sockaddr *)&a, &n) == 0, "getsockname");
  return ntohs(a.sin_port);
}

static int listener(int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0, "setsockopt");
  struct sockaddr_in a = loopback(port);
  check(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 4) == 0, "listen");
  return fd;
}
// From `from`, if it isn't 0; closed by a reset, so that the addresses can be had again at once.
static int connected(int port, int from, int nonblocking) {
  int fd = socket(AF_INET, SOCK_STREAM | (nonblocking ? SOCK_NONBLOCK : 0), 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  struct sockaddr_in a = loopback(from), to = loopback(port);
  int bound = 0;
  /* Somebody else on this machine may have the port for a moment. */
  for (int i = 0; from && !bound && i < 3000; ++i) {
    bound = bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
    if (!bound) usleep(10000);
  }
  check(!from || bound, "bind");
  int ret = connect(fd, (struct sockaddr *)&to, sizeof to);
  check(ret == 0 || (nonblocking && errno == EINPROGRESS), "connect");
  if (nonblocking) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    check(poll(&p, 1, -1) == 1, "poll");
    fcntl(fd, F_SETFL, 0);
  }
  return fd;
}

static void tcp(int nonblocking) {
  int server = listener(0);
  if (fork() == 0) {
    int port = port_of(server);
    close(server);
    asks(connected(port, 0, nonblocking));
    exit(0);
  }
  answers(accept(server, NULL, NULL));
}

// Two processes connect one after the other from one port and by one descriptor number: two connections.
static void again(void) {
  int server = listener(0), from = 0;
  for (int i = 0; i < 2; ++i) {
    int ports[2];
    check(pipe(ports) == 0, "pipe");
    if (fork() == 0) {
      int port = port_of(server);
      close(server);
      int fd = connected(port, from, 0), mine = port_of(fd);
      check(write(ports[1], &mine, sizeof mine) == sizeof mine, "write");
      sign();
      give(fd, kSent);
      take(fd, kAnswered);
      struct linger hard = {.l_onoff = 1};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      close(fd);
      exit(0);
    }
    pid_t answering = fork();
    if (answering == 0) {
      int fd = accept(server, NULL, NULL);
      take(fd, kSent);
      tell();
      give(fd, kAnswered);
      while (recv(fd, buffer, 1, 0) > 0) {
      }
      exit(0);
    }
    check(read(ports[0], &from, sizeof from) == sizeof from, "read");
    close(ports[0]);
    close(ports[1]);
    while (wait(NULL) > 0) {
    }
  }
}

// One process asks two others, one after the other, by one descriptor number.
static void twice(void) {
  int servers[2] = {listener(0), listener(0)}, ports[2] = {port_of(servers[0]), port_of(servers[1])};
  for (int i = 0; i < 2; ++i) {
    if (fork() == 0) {
      answers(accept(servers[i], NULL, NULL));
      exit(0);
    }
  }
  close(servers[0]);
  close(servers[1]);
  int first = connected(ports[0], 0, 0);
  asks(first);
  int second = connected(ports[1], 0, 0);
  check(second == first, "the same number");
  asks(second);
}

static struct sockaddr_un named(const char *path) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  strcpy(a.sun_path, path);
  return a;
}

static void by_path(int type) {
  int server = socket(AF_UNIX, type, 0);
  struct sockaddr_un a = named("talk.sock");
  check(bind(server, (struct sockaddr *)&a, sizeof a) == 0 && listen(server, 4) == 0, "listen");
  if (fork() == 0) {
    close(server);
    int fd = socket(AF_UNIX, type, 0);
    check(connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "connect");
    asks(fd);
    exit(0);
  }
  answers(accept(server, NULL, NULL));
}

static void pair(void) {
  int ends[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  if (fork() == 0) {
    close(ends[0]);
    asks(ends[1]);
    exit(0);
  }
  close(ends[1]);
  answers(ends[0]);
}

// A question and its answer as messages, each to an address.
static void udp(void) {
  int server = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in any = {.sin_family = AF_INET};
  check(bind(server, (struct sockaddr *)&any, sizeof any) == 0, "bind");
  if (fork() == 0) {
    struct sockaddr_in to = loopback(port_of(server));
    close(server);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    sign();
    check(sendto(fd, buffer, kSent, 0, (struct sockaddr *)&to, sizeof to) == kSent, "sendto");
    check(recv(fd, buffer, sizeof buffer, 0) == kAnswered, "recv");
    exit(0);
  }
  struct sockaddr_in from;
  struct iovec part = {buffer, sizeof buffer};
  struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
  check(recvmsg(server, &message, 0) == kSent, "recvmsg");
  tell();
  part.iov_len = kAnswered;
  check(sendmsg(server, &message, 0) == kAnswered, "sendmsg");
}

static void unix_datagrams(void) {
  int server = socket(AF_UNIX, SOCK_DGRAM, 0);
  struct sockaddr_un a = named("one.sock"), b = named("other.sock");
  check(bind(server, (struct sockaddr *)&a, sizeof a) == 0, "bind");
  if (fork() == 0) {
    close(server);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    check(bind(fd, (struct sockaddr *)&b, sizeof b) == 0, "bind");
    check(connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "connect");
    is_ready();
    sign();
    check(send(fd, buffer, kSent, 0) == kSent, "send");
    check(read(fd, buffer, sizeof buffer) == kAnswered, "read");
    exit(0);
  }
  until_ready();
  socklen_t n = sizeof b;
  check(recvfrom(server, buffer, sizeof buffer, 0, (struct sockaddr *)&b, &n) == kSent, "recvfrom");
  tell();
  check(sendto(server, buffer, kAnswered, 0, (struct sockaddr *)&b, n) == kAnswered, "sendto");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  check(pipe(ready) == 0, "pipe");
  if (strcmp(what, "tcp") == 0)
    tcp(0);
  else if (strcmp(what, "nonblocking") == 0)
    tcp(1);
  else if (strcmp(what, "again") == 0)
    again();
  else if (strcmp(what, "twice") == 0)
    twice();
  else if (strcmp(what, "unix") == 0)
    by_path(SOCK_STREAM);
  else if (strcmp(what, "seqpacket") == 0)
    by_path(SOCK_SEQPACKET);
  else if (strcmp(what, "pair") == 0)
    pair();
  else if (strcmp(what, "udp") == 0)
    udp();
  else if (strcmp(what, "datagrams") == 0)
    unix_datagrams();
  else
    return 2;
  while (wait(NULL) > 0) {
  }
  return 0;
}
