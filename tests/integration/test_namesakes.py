"""Functions of a program's own libraries that have the names of libc's, with other parameters."""

import subprocess
from pathlib import Path

from support.commands import run_cli

LIBRARY = r"""
#include <stdarg.h>
#include <stdio.h>
int error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vprintf(format, args);
  va_end(args);
  return n;
}
double warn(double a, const char *b, double c, int d, int e, int f, int g, int h, int i) {
  printf("%g %s %g %d %d %d %d %d %d\n", a, b, c, d, e, f, g, h, i);
  return a + c;
}
int err(const char *text) { return puts(text); }
int errx(void) { return 8; }
"""
PROGRAM = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
int error(const char *, ...), err(const char *), errx(void);
double warn(double, const char *, double, int, int, int, int, int, int);
static int from_small;
static void call(void) { from_small = errx(); }
/* At the very end of a stack, behind which nothing can be read. */
static void call_at_the_end(void) {
  static ucontext_t here, there;
  char *stack = mmap(0, 17 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(stack + 16 * 4096, 4096, PROT_NONE);
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = 16 * 4096;
  there.uc_link = &here;
  makecontext(&there, call, 0);
  swapcontext(&here, &there);
}
int main(void) {
  call_at_the_end();
  int n = error("%s %d %g %d %d %d %d\n", "text", 2, 2.5, 4, 5, 6, 7);
  double sum = warn(1.5, "b", 2.5, 4, 5, 6, 7, 8, 9);
  printf("%d %g %d %d %d\n", n, sum, err("mine") >= 0, errx(), from_small);
  return 0;
}
"""


def test_a_librarys_own_error_is_called_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "names.c").write_text(LIBRARY)
    (tmp_path / "program.c").write_text(PROGRAM)
    compiled = ["cc", "-fno-builtin", "-w", "-o"]
    subprocess.run([*compiled, "libnames.so", "-shared", "-fPIC", "names.c"], cwd=tmp_path, check=True)
    words = [*compiled, "program", "program.c", "-L.", "-lnames", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(words, cwd=tmp_path, check=True)
    plain = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    traced = run_cli("run", "-q", "-o", tmp_path / "run", "--", tmp_path / "program")
    assert (traced.returncode, traced.stdout) == (0, plain.stdout), traced.stderr
    assert plain.stdout.endswith("19 4 1 8 8\n")
