"""Workflow and resource managers: the one table of what is known of each.

    MANAGERS --> `tailrace managers`, `tailrace adapter`, `tailrace declare` (integrations/managers.py)
             --> files and servers of managers (analyzer/edges/file_classes.py)
             --> core/src/format/managers.def and docs/managers.md (tools/managers_docs.py)

Plain data below the analyzer and the adapters, since neither may import the other. Not in the adapters' folders: some
managers without an adapter have variables and files, too, and the order of the rows matters. A package of others brings
its adapter by an entry point (docs/new-manager.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """What is known of a manager.

    title: as it writes itself. Of its adapter, which is the package tailrace.NAME:
        name: "" where there is none.
        use: the one line to type.
        tested: the oldest and the newest version that the adapter's tests ran with.
        distribution, ask: the Python distribution with its version, or the commands one of which tells it.
        loads: the file of the package that the manager loads (`tailrace adapter NAME`).
        importer: whether tailrace.NAME.importer reads what the manager leaves on disk.

    Its files, by patterns of paths:
        own_files: what it keeps for itself: logs, locks, records, caches, the scripts by which it starts tasks. What
            tasks write in its directories (Snakemake's shadow directories, Nextflow's work directories, those of Work
            Queue's tasks) is data.
        task_files: files of tasks in a directory of `own_files`.
        servers: names of its servers, in which nobody else's code runs: the databases, logs and states that they write
            are their own, wherever the user has put them. Not those that write what tasks print or move their files
            (flux-shell, slurmstepd, condor_shadow, workers).

    The variables by which it tells a task what it is:
        mark: the others count only where this one is set.
        tags: the value of each tag, made of {VARIABLE}, and of
            {VARIABLE:not TEXT}: the text means "not set"
            {VARIABLE:end}: the last two names of a path
            {VARIABLE:-1}: a number whose first is 1, in a tag whose first is 0
            {NAME:ad}: an attribute of the ClassAd in the file that `mark` names
        world_size: variables with the number of ranks, of several the first that is set. It is no tag: on each line it
            would say nothing.
        workers: its workers run one task after another and set the variables in themselves. Those of other managers are
            not looked at after a program's start: sbatch sets the job name of the job that it submits in itself.
    """

    title: str
    name: str = ""
    use: str = ""
    tested: tuple[str, str] = ("", "")
    distribution: str = ""
    ask: tuple[str, ...] = ()
    loads: str = ""
    importer: bool = False
    own_files: tuple[str, ...] = ()
    task_files: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    mark: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    world_size: tuple[str, ...] = ()
    workers: bool = False


MANAGERS = (
    Row(
        "Airflow",
        "airflow",
        use="tailrace run -o run -- airflow dags test DAG",
        tested=("3.3.2", "3.3.2"),
        distribution="apache-airflow",
        importer=True,
        own_files=(r"/airflow\.(cfg|db(-\w+)?)$",),
        mark="AIRFLOW_CTX_TASK_ID",
        tags={
            "workflow": "{AIRFLOW_CTX_DAG_ID}",
            "stage": "{AIRFLOW_CTX_TASK_ID}",
            "task": "{AIRFLOW_CTX_DAG_RUN_ID}/{AIRFLOW_CTX_TASK_ID}",
            "try": "{AIRFLOW_CTX_TRY_NUMBER:-1}",
        },
        workers=True,
    ),
    Row(
        "cwltool (CWL)",
        "cwl",
        use="python -m tailrace.cwl workflow.cwl job.yml",
        tested=("3.3.20260925135507", "3.3.20260925135507"),
        ask=("cwltool --version",),
        importer=True,
    ),
    Row(
        "Cylc",
        mark="CYLC_TASK_ID",
        tags={
            "workflow": "{CYLC_WORKFLOW_ID}",
            "stage": "{CYLC_TASK_NAME}",
            "task": "{CYLC_TASK_ID}",
            "try": "{CYLC_TASK_TRY_NUMBER:-1}",
        },
    ),
    Row(
        "Dask distributed",
        "dask",
        use="client = tailrace.dask.trace(Client(...))",
        tested=("2024.12.1", "2026.8.0"),
        distribution="distributed",
        own_files=(r"/dask-(scratch|worker)-space[^/]*/([^/]+\.(dirlock|lock)$|[^/]+/(storage|shuffle-[^/]+)(/|$))",),
    ),
    Row(
        "executorlib",
        "executorlib",
        use="tailrace.executorlib.trace()",
        tested=("1.11.0", "1.11.0"),
        distribution="executorlib",
    ),
    Row(
        "GNU make",
        "make",
        use='make -f Makefile -f "$(tailrace adapter make)"',
        tested=("4.3", "4.3"),
        ask=("make --version",),
        loads="tailrace.mk",
    ),
    Row(
        "Luigi",
        "luigi",
        use="python -m tailrace.luigi --module MODULE TASK",
        tested=("3.8.1", "3.8.1"),
        distribution="luigi",
    ),
    Row(
        "Maestro",
        "maestro",
        use='batch: {shell: "$(tailrace adapter maestro)"}',
        tested=("1.2.1", "1.2.1"),
        ask=("maestro --version",),
        loads="shell",
        importer=True,
    ),
    Row(
        "Makeflow",
        "makeflow",
        use='makeflow --wrapper "$(tailrace adapter makeflow) %%" FLOW',
        tested=("8.0.0", "8.0.0"),
        ask=("makeflow --version",),
        loads="wrapper",
        importer=True,
    ),
    Row(
        "Merlin",
        "merlin",
        use='batch: {shell: "$(tailrace adapter merlin)"}',
        tested=("1.13.0", "1.13.0"),
        ask=("merlin --version",),
        loads="shell",
        importer=True,
        own_files=(r"/MERLIN_(FINISHED|STATUS\.json)$",),
    ),
    Row(
        "Parsl",
        "parsl",
        use="parsl.load(tailrace.parsl.trace(config))",
        tested=("2025.12.8", "2026.10.26"),
        distribution="parsl",
        own_files=(r"/runinfo/[0-9]{3,}/", r"/parsl\.log$", r"/\.parsl/"),
        task_files=("/task_logs/",),
    ),
    Row(
        "Prefect",
        "prefect",
        use="tailrace.prefect.trace()",
        tested=("3.8.8", "3.8.8"),
        distribution="prefect",
    ),
    Row(
        "RADICAL-Pilot",
        mark="RP_TASK_ID",
        tags={"workflow": "{RP_SESSION_ID}", "task": "{RP_TASK_ID}"},
    ),
    Row(
        "Ray",
        "ray",
        use="tailrace.ray.trace()",
        tested=("2.60.0", "2.60.0"),
        distribution="ray",
        # Its store of objects, which has its full size from the start.
        own_files=(r"^/dev/shm/plasma\w+$",),
        servers=("raylet", "gcs_server"),
    ),
    Row(
        "Snakemake",
        "snakemake",
        use="snakemake --logger tailrace",
        tested=("7.32.4", "9.27.1"),
        ask=("snakemake --version",),
        loads="log_handler.py",
        importer=True,
        own_files=(r"/\.snakemake/(auxiliary|incomplete|iocache|locks|log|metadata|scripts|tmp[^/]*)/",),
    ),
    Row(
        "toil (CWL)",
        "toil",
        use="python -m tailrace.toil workflow.cwl job.yml",
        tested=("9.6.0", "9.6.0"),
        ask=("toil-cwl-runner --version",),
        own_files=(
            r"/files-flat/file-[0-9a-f]{32}/stream(\.[0-9a-f-]+\.tmp)?$",  # promised values
            r"/toilwf-[0-9a-f]+/(deferred/|.*/worker_log\.txt$)",
        ),
    ),
    Row(
        "Work Queue, TaskVine",
        own_files=(
            # The workers' caches; Parsl's functions, arguments and results in their tasks' directories.
            r"/worker-\d+-\d+/(cached?/|worker\.stdout|trash/[^/]+$|((t|task|func|libr)\.\d+|trash/[^/]+)"
            r"/(function|map|argument|result|exec_parsl_function\.py|library_(code\.py|info\.clpk)|\.taskvine\.stdout"
            r"|file-\d+-[0-9a-f]{32}-[^/]+)$)",
            r"/function_data/\d{4,}/(function|map|result)$",
            r"-\d{20}-[^/]+/\d{4,}/(function|map|argument|result)$",
            r"/vine-(logs/[^/]+$|library-cache/)",
        ),
        servers=("catalog_server",),
    ),
    Row(
        "Nextflow",
        "nextflow",
        use='nextflow -c "$(tailrace adapter nextflow)" run PIPELINE',
        tested=("24.10.0", "25.04.4"),
        ask=("nextflow -v",),
        loads="tailrace.config",
        importer=True,
        own_files=(
            r"/nxf-\d+/",
            r"/\.nextflow/",
            r"/\.nextflow\.log[.0-9]*$",
            r"/\.command\.(begin|env|err|log|out|run|sh|tailrace|trace)$",
            r"/\.exitcode$",
        ),
        mark="NXF_TASK_WORKDIR",
        tags={"task": "{NXF_TASK_WORKDIR:end}"},  # the task's hash: ab/cdef0123...
    ),
    Row(
        "GNU parallel",
        mark="PARALLEL_SEQ",
        tags={"task": "{PARALLEL_PID}.{PARALLEL_SEQ}"},  # the number counts the jobs of one call of parallel
    ),
    Row(
        "Flux",
        "flux",
        use="flux submit --trace CMD",
        tested=("0.88.0", "0.88.0"),
        ask=("flux --version",),
        servers=("flux-broker", "flux-module-exec"),
        mark="FLUX_JOB_ID",
        tags={"job": "{FLUX_JOB_ID}", "rank": "{FLUX_TASK_RANK}"},  # stage and task come from the jobtap plugin
        world_size=("FLUX_JOB_SIZE",),
    ),
    Row(
        "PMIx, Open MPI",
        mark="PMIX_RANK",
        tags={"rank": "{PMIX_RANK}"},
        # PMIx has none. That of a Slurm step whose tasks are mpirun's daemons comes last.
        world_size=("OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"),
    ),
    Row(
        "Open MPI",
        mark="OMPI_COMM_WORLD_RANK",
        tags={"rank": "{OMPI_COMM_WORLD_RANK}"},
        world_size=("OMPI_COMM_WORLD_SIZE",),
    ),
    Row(
        "MPICH, MVAPICH, Intel MPI",
        mark="PMI_RANK",
        tags={"rank": "{PMI_RANK}"},
        world_size=("PMI_SIZE",),
    ),
    Row(
        "RADICAL-Pilot's ranks",
        mark="RP_RANK",
        tags={"rank": "{RP_RANK}"},
        world_size=("RP_RANKS",),
    ),
    # Also in a pilot job of Slurm or another one.
    Row(
        "HTCondor",
        servers=tuple(f"condor_{name}" for name in ("collector", "master", "negotiator", "schedd", "startd")),
        mark="_CONDOR_JOB_AD",
        tags={
            "workflow": "{DAGManJobId:ad}",
            "stage": "{DAGNodeName:ad}",
            "task": "{ClusterId:ad}.{ProcId:ad}",
            "job": "{ClusterId:ad}.{ProcId:ad}",
            "rank": "{_CONDOR_PROCNO}",
        },
        world_size=("_CONDOR_NPROCS",),
    ),
    Row(
        "Slurm",
        "slurm",
        use="srun --trace CMD",
        tested=("22.05.8", "22.05.8"),
        ask=("sinfo --version", "slurmd -V"),  # the first tells none where it finds no configuration
        importer=True,
        servers=("slurmctld", "slurmd", "slurmdbd"),
        mark="SLURM_JOB_ID",
        tags={
            "stage": "{SLURM_JOB_NAME}",
            "task": "{SLURM_JOB_ID}.{SLURM_STEP_ID}",
            "try": "{SLURM_RESTART_COUNT:not 0}",
            "job": "{SLURM_JOB_ID}",
            "rank": "{SLURM_PROCID}",
        },
        # Not SLURM_NTASKS: a batch script has that, too, and is one process.
        world_size=("SLURM_STEP_NUM_TASKS",),
    ),
    Row(
        "PBS",
        servers=("pbs_server", "pbs_comm", "pbs_sched"),
        mark="PBS_JOBID",
        tags={"stage": "{PBS_JOBNAME}", "task": "{PBS_JOBID}", "job": "{PBS_JOBID}"},
    ),
    Row(
        "LSF",
        mark="LSB_JOBID",
        tags={"stage": "{LSB_JOBNAME}", "task": "{LSB_JOBID}.{LSB_JOBINDEX:not 0}", "job": "{LSB_JOBID}"},
    ),
    Row(
        "Grid Engine",
        mark="SGE_TASK_ID",  # "undefined" outside of array jobs; JOB_ID alone may be anybody's
        tags={"stage": "{JOB_NAME}", "task": "{JOB_ID}.{SGE_TASK_ID:not undefined}", "job": "{JOB_ID}"},
    ),
    Row(
        "AWS Batch",
        mark="AWS_BATCH_JOB_ID",
        tags={"task": "{AWS_BATCH_JOB_ID}", "try": "{AWS_BATCH_JOB_ATTEMPT:-1}", "job": "{AWS_BATCH_JOB_ID}"},
    ),
)
"""The innermost first: a workflow manager's task runs inside of a resource manager's job. A process gets its workflow,
stage, task and try from the variables of the first manager that gives a task, and its job and rank from the first that
gives one."""

ADAPTERS = {row.name: row for row in sorted(MANAGERS, key=lambda row: row.name) if row.name}
"""The rows of managers with an adapter, by its name."""
