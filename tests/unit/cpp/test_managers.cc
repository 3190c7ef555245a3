// Tags from managers' variables: what each manager gives, which one wins, and what a child process keeps of its parent's.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/managers.h"

using namespace tailrace;

namespace {

using Entries = std::vector<std::string>;

std::string found(const Entries &entries, uint32_t *world_size = nullptr) {
  std::vector<char *> pointers;
  for (const std::string &entry : entries) pointers.push_back(const_cast<char *>(entry.c_str()));
  pointers.push_back(nullptr);
  std::string room(kMaxTagsBytes, 0);
  Writer out(room.data(), room.size());
  const uint32_t number = find_managed_tags(pointers.data(), out).world_size;
  if (world_size) *world_size = number;
  return std::string(out.view());
}

uint32_t world_size(const Entries &entries) {
  uint32_t number = 0;
  found(entries, &number);
  return number;
}

std::pair<std::string, std::string> tags(const char *given, const char *inherited, const char *found) {
  auto work = std::make_unique<TagsOfProcess>();
  const ProcessTags tags = tags_of_process(given, inherited, found, *work);
  return {std::string(tags.all), std::string(tags.managed)};
}

TEST(Managers, AnEmptyTagThatWasGivenTakesAwayWhatTheVariablesGive) {
  EXPECT_EQ(tags("workflow=w,stage=,task=", "", "stage=s,task=t,try=2,job=j"),
            std::make_pair(std::string("workflow=w,stage=,task=,job=j"), std::string("job=j")));
}

TEST(Managers, EachGivesItsTags) {
  EXPECT_EQ(found({"SLURM_JOB_ID=7", "SLURM_JOB_NAME=sim", "SLURM_STEP_ID=0", "SLURM_PROCID=3", "HOME=/root"}),
            "stage=sim,task=7.0,job=7,rank=3");
  EXPECT_EQ(found({"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=0"}), "task=7,job=7");
  EXPECT_EQ(found({"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=2"}), "task=7,try=2,job=7");
  EXPECT_EQ(found({"PBS_JOBID=12[4].node", "PBS_JOBNAME=sim"}), "stage=sim,task=12%5B4%5D.node,job=12%5B4%5D.node");
  EXPECT_EQ(found({"LSB_JOBID=9", "LSB_JOBNAME=a b", "LSB_JOBINDEX=0"}), "stage=a%20b,task=9,job=9");
  EXPECT_EQ(found({"LSB_JOBID=9", "LSB_JOBINDEX=2"}), "task=9.2,job=9");
  EXPECT_EQ(found({"JOB_ID=5", "JOB_NAME=x", "SGE_TASK_ID=undefined"}), "stage=x,task=5,job=5");
  EXPECT_EQ(found({"JOB_ID=5", "JOB_NAME=x", "SGE_TASK_ID=8"}), "stage=x,task=5.8,job=5");
  EXPECT_EQ(found({"AIRFLOW_CTX_DAG_ID=d", "AIRFLOW_CTX_TASK_ID=t", "AIRFLOW_CTX_DAG_RUN_ID=manual__1",
                   "AIRFLOW_CTX_TRY_NUMBER=1"}),
            "workflow=d,stage=t,task=manual__1/t,try=0");
  EXPECT_EQ(found({"CYLC_WORKFLOW_ID=w/run1", "CYLC_TASK_NAME=make", "CYLC_TASK_ID=1/make", "CYLC_TASK_TRY_NUMBER=2"}),
            "workflow=w/run1,stage=make,task=1/make,try=1");
  EXPECT_EQ(found({"RP_SESSION_ID=rp.1", "RP_TASK_ID=task.000001", "RP_RANK=0"}),
            "workflow=rp.1,task=task.000001,rank=0");
  EXPECT_EQ(found({"NXF_TASK_WORKDIR=/w/work/ab/cdef01"}), "task=ab/cdef01");
  EXPECT_EQ(found({"NXF_TASK_WORKDIR=/w/work/ab/cdef01/"}), "task=ab/cdef01");
  EXPECT_EQ(found({"NXF_TASK_WORKDIR=x"}), "task=x");
  EXPECT_EQ(found({"NXF_TASK_WORKDIR=/" + std::string(2000, 'w') + "/ab/cdef01"}), "task=ab/cdef01");
  EXPECT_EQ(found({"PARALLEL_SEQ=3", "PARALLEL_PID=77"}), "task=77.3");
  EXPECT_EQ(found({"FLUX_JOB_ID=f1", "FLUX_TASK_RANK=1"}), "job=f1,rank=1");
  EXPECT_EQ(found({"AWS_BATCH_JOB_ID=u:3", "AWS_BATCH_JOB_ATTEMPT=1"}), "task=u:3,try=0,job=u:3");
  EXPECT_EQ(found({"OMPI_COMM_WORLD_RANK=4"}), "rank=4");
}

TEST(Managers, VariablesOfNobodyGiveNothing) {
  EXPECT_EQ(found({}), "");
  EXPECT_EQ(found({"SLURM_JOB_NAME=sim", "SLURM_PROCID=1", "JOB_ID=5", "JOB_NAME=x"}), "");
  EXPECT_EQ(found({"SLURM_JOB_ID=", "SLURM_JOB_IDS=7", "XSLURM_JOB_ID=7"}), "");
}

TEST(Managers, TheInnermostGivesTheTaskAndEachLevelItsOwn) {
  EXPECT_EQ(found({"SLURM_JOB_ID=7", "SLURM_JOB_NAME=sim", "SLURM_PROCID=0", "PMI_RANK=2", "NXF_TASK_WORKDIR=/w/a/b"}),
            "task=a/b,job=7,rank=2");
  EXPECT_EQ(found({"PBS_JOBID=1", "PBS_JOBNAME=p", "AIRFLOW_CTX_TASK_ID=t"}), "stage=t,task=t,job=1");
}

TEST(Managers, TheManagerThatGivesTheRankKnowsHowManyThereAre) {
  EXPECT_EQ(world_size({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4"}), 4u);
  EXPECT_EQ(world_size({"PMI_SIZE=3", "PMI_RANK=0"}), 3u);
  EXPECT_EQ(world_size({"FLUX_JOB_ID=f", "FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "PMI_RANK=1", "PMI_SIZE=9"}), 2u);
  EXPECT_EQ(world_size({"SLURM_JOB_ID=7", "SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=6"}), 6u);
  EXPECT_EQ(world_size({"RP_RANK=0", "RP_RANKS=16"}), 16u);
  // Ranks of mpirun, whose daemons are a step of a job; then those of srun.
  EXPECT_EQ(world_size({"PMIX_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "SLURM_JOB_ID=7", "SLURM_STEP_NUM_TASKS=2"}), 8u);
  EXPECT_EQ(world_size({"PMIX_RANK=5", "SLURM_JOB_ID=7", "SLURM_STEP_NUM_TASKS=6"}), 6u);
  // A batch script, and what no rank goes with.
  EXPECT_EQ(world_size({"SLURM_JOB_ID=7", "SLURM_PROCID=0", "SLURM_NTASKS=8"}), 0u);
  EXPECT_EQ(world_size({"SLURM_JOB_ID=7", "SLURM_STEP_NUM_TASKS=2", "PMI_SIZE=2"}), 0u);
  for (const char *text : {"", "-1", "4x", "4294967296", "99999999999999999999", " 4"}) {
    EXPECT_EQ(world_size({"PMI_RANK=0", std::string("PMI_SIZE=") + text}), 0u) << text;
  }
}

// A file in the test's directory, with this text.
class Ad {
 public:
  explicit Ad(const std::string &text) : path_(testing::TempDir() + "tailrace-job-ad-" + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~Ad() { std::remove(path_.c_str()); }
  std::string entry() const { return "_CONDOR_JOB_AD=" + path_; }

 private:
  std::string path_;
};

std::string found_in_ad(const std::string &text) {
  const Ad ad(text);
  return found({ad.entry()});
}

TEST(Managers, HTCondorsJobAdGivesTags) {
  const Ad ad(
      "Args = \"a = 1\"\nClusterId = 117\nDAGManJobId = 110\nDAGNodeName = \"align 3\"\nMyType = \"Job\"\nProcId = 4\n"
      "Requirements = (TARGET.ClusterId =!= 9)\n");
  EXPECT_EQ(found({ad.entry()}), "workflow=110,stage=align%203,task=117.4,job=117.4");
  // In a pilot job of Slurm; then below a manager that gives a task.
  EXPECT_EQ(found({ad.entry(), "SLURM_JOB_ID=7", "SLURM_JOB_NAME=pilot", "SLURM_PROCID=0"}),
            "workflow=110,stage=align%203,task=117.4,job=117.4,rank=0");
  EXPECT_EQ(found({ad.entry(), "NXF_TASK_WORKDIR=/w/ab/cd"}), "task=ab/cd,job=117.4");
  EXPECT_EQ(found({ad.entry(), "_CONDOR_PROCNO=2"}), "workflow=110,stage=align%203,task=117.4,job=117.4,rank=2");
  EXPECT_EQ(world_size({ad.entry(), "_CONDOR_PROCNO=2", "_CONDOR_NPROCS=8"}), 8u);
}

TEST(Managers, AJobAdOfAnyFormIsReadAsFarAsItGoes) {
  EXPECT_EQ(found_in_ad("clusterid=5\r\n  PROCID =\t0"), "task=5.0,job=5.0");
  EXPECT_EQ(found_in_ad("ProcId = 0\n"), "task=0,job=0");
  EXPECT_EQ(found_in_ad("ClusterId = 5\nDAGNodeName = \"a\\\"b\\\\c=d\"\n"), "stage=a%22b%5Cc%3Dd,task=5,job=5");
  EXPECT_EQ(found_in_ad("ClusterId = undefined\nProcId = 1 + 1\nDAGNodeName = \"open\n"), "");
  EXPECT_EQ(found_in_ad("ClusterId\n= 3\nMyClusterId = 4\nClusterIds = 5\n"), "");
  EXPECT_EQ(found_in_ad(""), "");
  EXPECT_EQ(found_in_ad(std::string(10000, '\0') + "\nClusterId = 6\n"), "task=6,job=6");
  // Lines that are longer than what is read at once, before, with and behind what is looked for.
  const std::string longer(20000, 'x');
  EXPECT_EQ(found_in_ad("Environment = \"" + longer + "\"\nClusterId = 7\nArgs = \"" + longer + "\"\nProcId = 8\n"),
            "task=7.8,job=7.8");
  EXPECT_EQ(found_in_ad("DAGNodeName = \"" + longer + "\"\nClusterId = 9\n" + longer + " ProcId = 1"), "task=9,job=9");
  for (size_t before = 4050; before < 4110; ++before) {
    EXPECT_EQ(found_in_ad(std::string(before, 'y') + "\nClusterId = 1234\nProcId = 56\n"), "task=1234.56,job=1234.56");
  }
  EXPECT_EQ(found({"_CONDOR_JOB_AD=/no/such/file"}), "");
  EXPECT_EQ(found({"_CONDOR_JOB_AD=/"}), "");
  const std::string fifo = testing::TempDir() + "tailrace-job-ad-fifo-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(found({"_CONDOR_JOB_AD=" + fifo}), "");  // without waiting for a writer
  std::remove(fifo.c_str());
}

TEST(Managers, HostileValuesAreEncodedOrLeftOut) {
  EXPECT_EQ(found({"SLURM_JOB_ID=7", "SLURM_JOB_NAME=a=b,c\"%\xc3\xa4"}), "stage=a%3Db%2Cc%22%25%C3%A4,task=7,job=7");
  EXPECT_EQ(found({"SLURM_JOB_ID=7", "SLURM_JOB_NAME=\n\xff"}), "task=7,job=7");
  EXPECT_EQ(found({"SLURM_JOB_ID=7", "SLURM_JOB_NAME=" + std::string(5000, 'x')}),
            "stage=" + std::string(1024, 'x') + ",task=7,job=7");
  EXPECT_EQ(found({"SLURM_JOB_ID=" + std::string(5000, ' '), "SLURM_JOB_NAME=" + std::string(5000, ' ')}).find("job"),
            std::string::npos);
}

TEST(Managers, OnlyWorkersAreInAnotherTaskOnceTheyChangeAVariable) {
  EXPECT_TRUE(is_workers_variable("AIRFLOW_CTX_TASK_ID") && is_workers_variable("AIRFLOW_CTX_DAG_RUN_ID"));
  EXPECT_FALSE(is_workers_variable("SLURM_JOB_NAME") || is_workers_variable("CYLC_TASK_ID"));
  EXPECT_FALSE(is_workers_variable("") || is_workers_variable("AIRFLOW_CTX"));
}

TEST(Managers, TheUsersOwnTagsWin) {
  EXPECT_EQ(tags("stage=mine", "", "stage=sim,task=7,job=7"),
            std::make_pair(std::string("stage=mine,task=7,job=7"), std::string("task=7,job=7")));
  EXPECT_EQ(tags("task=a,x=1", "", "stage=sim,task=7,try=2,job=7"),
            std::make_pair(std::string("stage=sim,task=a,job=7,x=1"), std::string("stage=sim,job=7")));
}

TEST(Managers, AChildTakesItsOwnVariablesBeforeThoseOfItsParent) {
  // A job that submits another one.
  EXPECT_EQ(tags("stage=sim,task=7,job=7", "stage=sim,task=7,job=7", "stage=post,task=8,job=8").first,
            "stage=post,task=8,job=8");
  // A step of the same job.
  EXPECT_EQ(tags("stage=sim,task=7,job=7", "stage=sim,task=7,job=7", "stage=sim,task=7.0,job=7").first,
            "stage=sim,task=7.0,job=7");
  // Its environment was cleared.
  EXPECT_EQ(tags("stage=sim,task=7,job=7", "stage=sim,task=7,job=7", ""),
            std::make_pair(std::string("stage=sim,task=7,job=7"), std::string("stage=sim,task=7,job=7")));
  // A workflow manager's task in a job: nothing of the job's stays but its number.
  EXPECT_EQ(tags("stage=sim,task=7,try=1,job=7", "stage=sim,task=7,try=1,job=7", "task=a/b,job=7").first,
            "task=a/b,job=7");
  // The same where its parent gave it a task of its own, which is not the other one's second try.
  EXPECT_EQ(tags("stage=sim,task=mine,try=2,job=7", "stage=sim,task=7,try=2,job=7", ""),
            std::make_pair(std::string("stage=sim,task=mine,job=7"), std::string("stage=sim,job=7")));
  // An adapter has set the task in between.
  EXPECT_EQ(tags("stage=align,task=3,job=7", "stage=sim,task=7,job=7", "stage=sim,task=7,job=7").first,
            "stage=align,task=3,job=7");
}

TEST(Managers, WhatBreaksTheRulesCountsAsEmpty) {
  EXPECT_EQ(tags("nonsense", "", "job=7").first, "job=7");
  EXPECT_EQ(tags("a=1", "nonsense", "nonsense").first, "a=1");
  std::string many;
  for (int i = 0; i < 64; ++i) many += (i ? ",k" : "k") + std::to_string(i) + "=v";
  EXPECT_EQ(tags(many.c_str(), "", "job=7").second, "");
  EXPECT_EQ(tags(many.c_str(), "", "job=7").first.size(), many.size());
}

}  // namespace
