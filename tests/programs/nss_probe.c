/* A module of the name service (glibc's manual, "Extending NSS") that reads probe.txt in the working directory: once by
 * read, once by a stream, and knows one user. */
#include <errno.h>
#include <fcntl.h>
#include <nss.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum nss_status _nss_probe_getpwnam_r(const char *name, struct passwd *user, char *buf, size_t n, int *error) {
  char all[5000];
  int fd = open("probe.txt", O_RDONLY);
  read(fd, all, sizeof all);
  close(fd);
  FILE *in = fopen("probe.txt", "r");
  char *line = fgets(buf, n, in);
  fclose(in);
  if (!line || strcmp(name, "probe")) return NSS_STATUS_NOTFOUND;
  memset(user, 0, sizeof *user);
  user->pw_name = user->pw_passwd = user->pw_dir = user->pw_shell = "probe";
  line[strcspn(line, "\n")] = 0;
  user->pw_gecos = line;
  return NSS_STATUS_SUCCESS;
}
