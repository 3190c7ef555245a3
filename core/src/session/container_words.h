// What a command line of Apptainer or Singularity is about to do, and whether its configuration lets a container have
// binds.
#pragma once

#include "base/text.h"

namespace tailrace {

constexpr string_view kApptainer = "APPTAINER", kSingularity = "SINGULARITY";
// Of their variables.
constexpr string_view kContainerPrefixes[] = {kApptainer, kSingularity};

class ContainerCommand {
 public:
  // `exe`: the program's file, absolute.
  ContainerCommand(string_view exe, char *const *argv, char *const *environment);
  // Whether it makes a container that takes binds at places that the image lacks. One that is written to and one whose
  // configuration forbids layers end with an error instead; a running instance has the binds that it was started with.
  bool runs_container() const { return runs_; }
  bool cleans_environment() const { return cleans_; }
  string_view prefix() const { return prefix_; }

 private:
  void read_options(char *const *word);
  bool reads_option(string_view word, char *const *&at);
  bool may_bind(string_view exe) const;

  string_view prefix_;
  bool runs_ = false, cleans_ = false, writes_ = false;
};

}  // namespace tailrace
