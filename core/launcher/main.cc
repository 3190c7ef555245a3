// The `tailrace` command: has `tailrace run` and `tailrace tag` done by the launcher, within milliseconds, and leaves
// everything else to the Python program beside it (tailrace-python), by exec and before anything was done.
//
// The launcher is in libtailrace-plugin.so of the same installation (command_line.h), which this program loads: a copy
// of it, and of the C++ library, would be an eighth of a wheel. So nothing here needs the C++ library.
//
// Starting Python took 50 of the 55 ms of `tailrace run -- true`; now it takes 3. Rejected: a shell script, which would
// not know its Python; a start of Python with fewer imports, 10 ms at best; CLI11 and a JSON library, for five options.
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "command_line.h"

namespace {

using tailrace::launcher::kNotDone;

constexpr const char kLibrary[] = "libtailrace.so";
constexpr const char kPlugin[] = "libtailrace-plugin.so";

struct Path {
  char text[PATH_MAX] = "";

  // Sets it; leaves it empty where there is no room.
  __attribute__((format(printf, 2, 3))) void set(const char *format, ...) {
    va_list values;
    va_start(values, format);
    const int length = std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (length < 0 || static_cast<size_t>(length) >= sizeof text) text[0] = 0;
  }
  bool is_empty() const { return text[0] == 0; }
  bool is_file() const {
    struct stat status;
    return !is_empty() && ::stat(text, &status) == 0 && S_ISREG(status.st_mode);
  }
  // Cuts the last name off.
  void up() {
    char *slash = std::strrchr(text, '/');
    if (slash == nullptr) slash = text;
    *slash = 0;
  }
};

// The directory of this file, wherever a link to it is. Without /proc (a chroot) by the name that was executed.
Path own_directory() {
  Path path;
  const ssize_t n = ::readlink("/proc/self/exe", path.text, sizeof path.text - 1);
  path.text[n > 0 ? n : 0] = 0;
  const auto *executed = reinterpret_cast<const char *>(::getauxval(AT_EXECFN));
  if (n <= 0 && (executed == nullptr || ::realpath(executed, path.text) == nullptr)) path.text[0] = 0;
  path.up();
  return path;
}

// Folders with an installation's libraries.
struct Found {
  Path first;
  int count = 0;

  void add(const Path &folder) {
    Path library;
    library.set("%s/%s", folder.text, kLibrary);
    if (!library.is_file()) return;
    if (count++ == 0) first = folder;
  }
};

void add_python_folder(const char *lib, const char *version, Found &found) {
  for (const char *packages : {"site-packages", "dist-packages"}) {
    Path folder;
    folder.set("%s/%s/%s/tailrace/lib", lib, version, packages);
    found.add(folder);
    if (*TAILRACE_PYTHON_FOLDER != 0 && found.count != 0) return;
  }
}

// In the folders of Python's versions: in that of this build, as everything in a wheel is, or in all that there are
// where the wheel is for the stable ABI.
void add_python_folders(const char *lib, Found &found) {
  if (*TAILRACE_PYTHON_FOLDER != 0) return add_python_folder(lib, TAILRACE_PYTHON_FOLDER, found);
  DIR *directory = ::opendir(lib);
  if (directory == nullptr) return;
  while (const dirent *entry = ::readdir(directory)) {
    if (std::strncmp(entry->d_name, "python3.", 8) == 0) add_python_folder(lib, entry->d_name, found);
  }
  ::closedir(directory);
}

// The libraries' folder in the installation that this command belongs to: `bin` lies beside the folders of a prefix. Of
// several versions of Python that have one, in lib, each is counted.
Found installed_libraries(const Path &bin) {
  Path prefix = bin;
  prefix.up();
  Found found;
  for (const char *name : {"lib", "lib64"}) {
    if (found.count != 0) break;
    Path lib;
    lib.set("%s/%s", prefix.text, name);
    add_python_folders(lib.text, found);
  }
  for (const char *name : {"tailrace/lib", TAILRACE_LIBRARY_FOLDER}) {
    Path folder;
    folder.set("%s/%s", prefix.text, name);
    if (found.count == 0) found.add(folder);
  }
  return found;
}

[[noreturn]] void hand_over(const Path &bin, char **arguments) {
  Path program;
  program.set("%s/tailrace-python", bin.text);
  if (!bin.is_empty()) ::execv(program.text, arguments);
  std::fprintf(stderr,
               "tailrace: only `tailrace run` and `tailrace tag` work without tailrace's Python part (%s: %s): "
               "pip install tailrace\n",
               program.text, std::strerror(errno));
  ::_exit(1);
}

}  // namespace

int main(int count, char **arguments) {
  const Path bin = own_directory();
  const bool is_run = count > 2 && std::strcmp(arguments[1], "run") == 0;
  const bool is_tag = count > 2 && std::strcmp(arguments[1], "tag") == 0;
  if (!is_run && !is_tag) hand_over(bin, arguments);
  const Found found = installed_libraries(bin);
  // With several versions of Python, tailrace-python knows which library is its own; tags are the same in all.
  if (found.count == 0 || (is_run && found.count != 1)) hand_over(bin, arguments);
  Path plugin, library;
  plugin.set("%s/%s", found.first.text, kPlugin);
  library.set("%s/%s", found.first.text, kLibrary);
  void *loaded = plugin.is_empty() ? nullptr : ::dlopen(plugin.text, RTLD_NOW | RTLD_LOCAL);
  void *entry = loaded != nullptr ? ::dlsym(loaded, tailrace::launcher::kCommandLine) : nullptr;
  if (entry == nullptr) {
    std::fprintf(stderr, "tailrace: its launcher can't be loaded: %s\n", ::dlerror());
    hand_over(bin, arguments);
  }
  const int code = reinterpret_cast<tailrace::launcher::CommandLine *>(entry)(count, arguments, library.text);
  if (code == kNotDone) hand_over(bin, arguments);
  return code;
}
