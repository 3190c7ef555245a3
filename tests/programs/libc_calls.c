/* Calls that libc answers from files of its own. "module" asks a name service module (nss_probe.c) that reads by libc's
 * public functions, as sssd's and others' do. */
#define _GNU_SOURCE
#include <grp.h>
#include <locale.h>
#include <netdb.h>
#include <nss.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>
#include <utmpx.h>

int ruserpass(const char *, const char **, const char **);
int ruserok(const char *, int, const char *, const char *);
int iruserok(unsigned, int, const char *, const char *);

static void *ask(void *unused) {
  struct addrinfo *found;
  if (getaddrinfo("localhost", "http", NULL, &found) == 0) freeaddrinfo(found);
  getpwnam("root");
  return unused;
}

int main(int argc, char **argv) {
  const char *mode = argv[1];
  char text[100];
  time_t now = time(NULL);
  if (!strcmp(mode, "users")) {
    while (getpwent()) {
    }
    endpwent();
    getpwuid(0);
    getgrgid(0);
    initgroups("root", 0);
  } else if (!strcmp(mode, "network")) {
    ask(NULL);
    getservbyname("ssh", "tcp");
    getprotobyname("udp");
    gethostbyname("localhost");
  } else if (!strcmp(mode, "time")) {
    setenv("TZ", "Europe/Berlin", 1);
    for (int i = 0; i < 1000; i++) localtime(&now);
    setenv("TZ", "Asia/Tokyo", 1);
    tzset();
    strftime(text, sizeof text, "%c", localtime(&now));
  } else if (!strcmp(mode, "log")) {
    setenv("TZ", "Europe/Berlin", 1);
    for (int i = 0; i < 3; i++) syslog(LOG_DEBUG, "message %d", i);
    localtime(&now);
  } else if (!strcmp(mode, "gmtime")) {
    setenv("TZ", "Europe/Berlin", 1);
    for (int i = 0; i < 1000; i++) gmtime(&now);
  } else if (!strcmp(mode, "timegm")) {
    struct tm broken = {.tm_year = 120};
    setenv("TZ", "Europe/Berlin", 1);
    timegm(&broken);
  } else if (!strcmp(mode, "timelocal")) {
    struct tm broken = {.tm_year = 120};
    setenv("TZ", "Europe/Berlin", 1);
    timelocal(&broken);
  } else if (!strcmp(mode, "strptime")) {
    struct tm broken = {.tm_year = 120};
    setenv("TZ", "Europe/Berlin", 1);
    strptime("2020", "%Y", &broken);
    strftime(text, sizeof text, "%Y", &broken);
    strptime("1600000000", "%s", &broken);
  } else if (!strcmp(mode, "logins")) {
    struct utmp entry = {.ut_type = USER_PROCESS, .ut_line = "pts/7", .ut_id = "7", .ut_user = "ada"};
    struct utmpx other;
    memcpy(&other, &entry, sizeof other);
    fclose(fopen("entries", "w"));
    utmpname("entries");
    pututline(&entry);
    setutent();
    strcpy(entry.ut_id, "8");
    pututline(&entry);
    pututxline(&other);
    updwtmp("entries", &entry);
    updwtmpx("entries", &other);
  } else if (!strcmp(mode, "remote")) {
    const char *name = NULL, *password = NULL;
    FILE *known = fopen(".netrc", "w");
    fputs("machine localhost login ada password secret\n", known);
    fclose(known);
    chmod(".netrc", 0600);
    setenv("HOME", ".", 1);
    ruserpass("localhost", &name, &password);
    printf("%s %s\n", name, password);
    ruserok("localhost", 0, "root", "root");
    iruserok(0x0100007f, 0, "root", "root");
  } else if (!strcmp(mode, "locale")) {
    setlocale(LC_ALL, "xx_YY.UTF-8");
    sysconf(_SC_NPROCESSORS_ONLN);
  } else if (!strcmp(mode, "stack")) {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_t other;
    pthread_create(&other, NULL, (void *(*)(void *))pause, NULL);
    pthread_setname_np(other, "named");
    pthread_getname_np(other, text, sizeof text);
  } else if (!strcmp(mode, "semaphore")) {
    sprintf(text, "/tailrace-%d", getpid());
    sem_open(text, 0x40 /* O_CREAT */, 0600, 1);
    sem_unlink(text);
  } else if (!strcmp(mode, "threads")) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  } else if (!strcmp(mode, "module")) {
    __nss_configure_lookup("passwd", "probe files");
    for (int i = 0; i < 3; i++) {
      struct passwd *found = getpwnam("probe");
      printf("%s\n", found ? found->pw_gecos : "nobody");
    }
    getpwuid(0);
  }
  return 0;
}
