/* What libc writes and reads of its own on streams: complaints to stderr, which the test puts into a file, and tables
 * out of files. messages WHAT */
#undef NDEBUG
#define _GNU_SOURCE
#include <argp.h>
#include <assert.h>
#include <err.h>
#include <errno.h>
#include <error.h>
#include <execinfo.h>
#include <fmtmsg.h>
#include <getopt.h>
#include <grp.h>
#include <gshadow.h>
#include <malloc.h>
#include <mntent.h>
#include <netdb.h>
#include <pwd.h>
#include <shadow.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>
#include <wchar.h>

void __assert(const char *, const char *, int);
void __stack_chk_fail(void);

static void options(void) {
  char *wrong[] = {"messages", "-a", "-zq", "--wrong", "--file", "--no=5", "rest", NULL};
  struct option names[] = {{"file", required_argument, NULL, 'f'}, {"no", no_argument, NULL, 'n'}, {0}};
  while (getopt_long(7, wrong, "a", names, NULL) != -1) {
  }
  optind = 0;
  while (getopt_long_only(7, wrong, "a", names, NULL) != -1) {
  }
  optind = 0;
  while (getopt(7, wrong, "a:") != -1) {
  }
  optind = 0, opterr = 0;
  while (getopt(7, wrong, "a:") != -1) {
  }
  optind = 0, opterr = 1;
  while (getopt(7, wrong, ":a:") != -1) {
  }
}

static void said(void) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_signo = SIGSEGV;
  psiginfo(&info, "signal");
  herror("host");
  fmtmsg(MM_PRINT, "label:messages", MM_WARNING, "text", "action", "tag:1");
  malloc_stats();
  malloc_info(0, stdout);
  void *frames[4];
  backtrace_symbols_fd(frames, backtrace(frames, 4), 2);
  setvbuf(stderr, NULL, _IOFBF, 4096);
  psiginfo(&info, "buffered");
  fputs("and more\n", stderr);
  herror("host");
}

static void tables(void) {
  struct passwd user = {"ada", "x", 7, 8, "Ada", "/home/ada", "/bin/sh"}, *one;
  char *members[] = {"ada", NULL};
  struct group group = {"all", "x", 9, members};
  struct spwd shadow = {"ada", "*", 1, 2, 3, 4, 5, 6, 7};
  struct sgrp gshadow = {"all", "*", members, members};
  struct mntent mount = {"none", "/mnt", "tmpfs", "rw", 0, 0}, place;
  char text[1000];
  FILE *f = fopen("table", "w+");
  for (int i = 0; i < 200; ++i) putpwent(&user, f);
  rewind(f);
  while (fgetpwent(f)) {
  }
  rewind(f);
  while (fgetpwent_r(f, &user, text, sizeof text, &one) == 0) {
  }
  fclose(f);
  f = fopen("groups", "w+");
  putgrent(&group, f), rewind(f), fgetgrent(f), fclose(f);
  f = fopen("shadow", "w+");
  putspent(&shadow, f), rewind(f), fgetspent(f), fclose(f);
  f = fopen("gshadow", "w+");
  putsgent(&gshadow, f), rewind(f), fgetsgent(f), fclose(f);
  f = setmntent("mounts", "a+");
  addmntent(f, &mount), addmntent(f, &mount), rewind(f);
  while (getmntent_r(f, &place, text, sizeof text)) {
  }
  rewind(f);
  while (getmntent(f)) {
  }
  endmntent(f);
}

static void help(int argc, char **argv) {
  static const struct argp_option known[] = {{"known", 'k', "VALUE", 0, "A known option"}, {0}};
  struct argp argp = {known, NULL, "REST", "Says what it can, at some length"};
  printf("first\n");
  argp_parse(&argp, argc, argv, 0, NULL, NULL);
}

static void logged(void) {
  openlog("messages", LOG_PERROR | LOG_PID, LOG_USER);
  for (int i = 0; i < 5; i++) errno = ENOENT, syslog(LOG_DEBUG, "%d: %m", i);
  write(2, "between\n", 8);
  syslog(LOG_DEBUG, "its own end\n");
  setlogmask(LOG_UPTO(LOG_ERR));
  syslog(LOG_DEBUG, "masked");
  closelog();
  openlog(NULL, LOG_PERROR | LOG_CONS, LOG_USER);
  syslog(LOG_DEBUG, "masked still");
  setlogmask(LOG_UPTO(LOG_DEBUG));
  syslog(LOG_DEBUG, "without a name");
  fprintf(stderr, "the end\n");
}

/* What a program says into a buffer of stderr's, and dies with. */
static void buffered(void) {
  setvbuf(stderr, NULL, _IOFBF, 200);
  for (int i = 0; i < 20; ++i) {
    fprintf(stderr, "%d\n", i);
    errno = ENOENT;
    perror("perror");
    warn("%d", i);
    warnx("%d", i);
    error(0, i, "error");
    psignal(SIGINT, "psignal");
  }
  err(0, "the end");
}

/* Texts in a file that is not encoded as the locale has them. */
static void translated(void) {
  wchar_t text[100];
  FILE *out = fopen("utf-16", "w,ccs=UTF-16LE");
  fputws(L"a line\n", out), fputwc(L'x', out), fwprintf(out, L"%d\n", 17);
  fclose(out);
  FILE *in = fopen("utf-16", "r,ccs=UTF-16LE");
  fgetws(text, 100, in), fgetwc(in);
  fclose(in);
}

/* What is written to memory is written to no file: not to the one that is descriptor 0. */
static void memory(void) {
  char text[100], *grown;
  size_t bytes;
  wchar_t *wide;
  for (int i = 0; i < 3; ++i) {
    FILE *out = open_memstream(&grown, &bytes);
    fprintf(out, "%d", i), fputs("text", out), putc('x', out), fflush(out), rewind(out);
    fclose(out);
    out = open_wmemstream(&wide, &bytes);
    fputws(L"wide", out);
    fclose(out);
    out = fmemopen(text, sizeof text, "w+");
    fputs("more", out), rewind(out), fgets(text, 3, out);
    fclose(out);
  }
  fgets(text, sizeof text, stdin);
  puts(text);
}

/* Without a terminal, and then with what is left of the input. */
static void asked(void) {
  char line[100];
  setsid();
  printf("%s\n", getpass("Password: "));
  while (fgets(line, sizeof line, stdin)) fputs(line, stdout);
}

int main(int argc, char **argv) {
  if (!strcmp(argv[1], "options")) options();
  if (!strcmp(argv[1], "said")) said();
  if (!strcmp(argv[1], "tables")) tables();
  if (!strcmp(argv[1], "assert")) assert(argc == 77);
  if (!strcmp(argv[1], "assert_error")) assert_perror(ENOENT);
  if (!strcmp(argv[1], "assert_old")) __assert("argc == 77", "messages.c", 7);
  if (!strcmp(argv[1], "smashed")) puts("before"), fflush(stdout), __stack_chk_fail();
  if (!strcmp(argv[1], "logged")) logged();
  if (!strcmp(argv[1], "buffered")) buffered();
  if (!strcmp(argv[1], "translated")) translated();
  if (!strcmp(argv[1], "memory")) memory();
  if (!strcmp(argv[1], "asked")) asked();
  if (!strcmp(argv[1], "argp")) help(argc - 1, argv + 1);
  return 0;
}
