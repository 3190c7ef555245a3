// What a step is: by the words of the plugin and by its environment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tailrace::slurm {

struct StepFacts {
  std::map<std::string, std::string> words;  // of the plugin: key -> value
  std::vector<std::string> command;
  std::map<std::string, std::string> settings;  // TAILRACE_... that the facility chose

  std::string id;      // of the job, as its tasks are told
  std::string job;     // the same as Slurm writes it: 12; 12_3 of an array
  std::string family;  // the number that all tasks of an array share
  std::string label;   // of the step: 12, 12.0, 12_3.interactive
  int tries = 0;       // before this one, of a job that was requeued
  bool is_script = false;
  bool is_first_node = true;
  // Of the job in which the step runs, where its script is traced, too; and of the program that has submitted it.
  bool in_traced_job = false;
  std::string known_run, parent, outer_tags;

  std::string tags;  // canonical; ranks come from variables
  std::string stage, task, workflow;
  bool is_declared_elsewhere = false;  // the task is another manager's, or the job's

  std::string word(const char *key) const;
  // The run directory, perhaps relative.
  std::string run() const;
};

// Reads them. Throws Fault when the tags break the rules.
StepFacts read_step(int count, char **words);
// The value of a variable of the job; empty without one.
std::string variable(const char *name);

}  // namespace tailrace::slurm
