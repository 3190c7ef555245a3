// See options.h.
#include "options.h"

#include "policy.h"

namespace tailrace::slurm {
namespace {

enum Value { kTrace = 1, kTraceTag, kTraceRun, kNoTrace };

Options *g_options;

// KEY=VALUE,KEY=VALUE with whatever the values contain, but a comma.
void quote_pairs(string_view given, Writer &out) {
  while (!given.empty()) {
    size_t end = given.find(',');
    if (end == string_view::npos) end = given.size();
    const string_view pair = slice(given, 0, end);
    const size_t equals = pair.find('=');
    if (out.size()) out << ',';
    quote_tag_text(slice(pair, 0, equals == string_view::npos ? pair.size() : equals), out);
    if (equals != string_view::npos) quote_tag_text(slice(pair, equals + 1, pair.size() - equals - 1), out << '=');
    given.remove_prefix(end < given.size() ? end + 1 : end);
  }
}

// Of a job that is submitted, a fault is an error; on its nodes it can't be one any more.
int refuse(const char *option, const Writer &fault, bool remote) {
  if (!remote) slurm_error("%s: %.*s", option, static_cast<int>(fault.size()), fault.view().data());
  return remote ? 0 : -1;
}

int take_stage(string_view given, bool remote) {
  g_options->traced = true;
  char text[sizeof g_options->stage + 16], sentence[512];
  Writer tags(text, sizeof text), fault(sentence, sizeof sentence);
  g_options->stage[0] = 0;
  if (given.empty()) return 0;
  quote_tag_text(given, tags << "stage=");
  if (tags.overflowed() || !check_tags(tags.view(), fault)) return refuse("--trace", fault, remote);
  Writer stage(g_options->stage, sizeof g_options->stage);
  quote_tag_text(given, stage);
  stage.c_str();
  return 0;
}

int take_tags(string_view given, bool remote) {
  char sentence[512];
  Writer tags(g_options->tags, sizeof g_options->tags), fault(sentence, sizeof sentence);
  quote_pairs(given, tags);
  tags.c_str();
  if (!tags.overflowed() && check_tags(tags.view(), fault)) return 0;
  g_options->tags[0] = 0;
  if (tags.overflowed()) fault << "the tags are longer than 8192 bytes";
  return refuse("--trace-tag", fault, remote);
}

int take_run(string_view given, bool remote) {
  char sentence[128];
  Writer run(g_options->run, sizeof g_options->run), fault(sentence, sizeof sentence);
  (run << given).c_str();
  if (!run.overflowed() && !given.empty()) return 0;
  g_options->run[0] = 0;
  return refuse("--trace-run", fault << "give the path of a directory", remote);
}

int take(int value, const char *argument, int remote) {
  // Slurm hands an option without its value on to a job's steps as this text.
  const bool has_value = argument && string_view(argument) != "(null)";
  const string_view given = has_value ? string_view(argument) : string_view();
  switch (value) {
    case kTrace: return take_stage(given, remote);
    case kTraceTag: return take_tags(given, remote);
    case kTraceRun: return take_run(given, remote);
    default: g_options->refused = true; return 0;
  }
}

// Slurm keeps the addresses, and wants to write to the texts.
char g_trace[] = "trace", g_trace_tag[] = "trace-tag", g_trace_run[] = "trace-run", g_no_trace[] = "no-trace";
char g_stage[] = "STAGE", g_pairs[] = "KEY=VALUE,...", g_directory[] = "DIR";
char g_about_trace[] = "Trace the job's I/O with tailrace, as a task of STAGE (default: the job's name)";
char g_about_tag[] = "Add tags to all events of a traced job (workflow, task, or any other key)";
char g_about_run[] = "Run directory of a traced job (default: tailrace-runs/NAME-JOBID, or as the facility configured)";
char g_about_no[] = "Do not trace the job where all jobs are traced";

spank_option g_table[] = {
    {g_trace, g_stage, g_about_trace, 2, kTrace, take},
    {g_trace_tag, g_pairs, g_about_tag, 1, kTraceTag, take},
    {g_trace_run, g_directory, g_about_run, 1, kTraceRun, take},
    {g_no_trace, nullptr, g_about_no, 0, kNoTrace, take},
};

}  // namespace

void register_options(spank_t spank, Options &into) {
  g_options = &into;
  for (spank_option &option : g_table) spank_option_register(spank, &option);
}

}  // namespace tailrace::slurm
