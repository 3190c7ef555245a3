"""How each workflow manager runs N tasks side by side, traced and not: for managers.py.

A task is `sh -c 'seq 1000 | sort -rn > OUT'`, three processes, run by two workers where the manager lets one choose.
Each function of WAYS takes the number of tasks and the folder to run in, and gives a Way.
Missing says what isn't on PATH.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from support import work_queue
from support.flux_instance import find_flux
from support.managers import (
    SNAKEMAKE_PLUGIN,
    SOURCE,
    Manager,
    airflow_home,
    airflows_on_path,
    all_on_path,
    share_tailrace,
)
from support.slurm_cluster import missing_for_slurm

TASK = "seq 1000 | sort -rn > {}"
TAILRACE = Path(sys.executable).parent / "tailrace"


class Missing(Exception):
    """The manager isn't here."""


@dataclass(frozen=True)
class Way:
    """How a manager runs the workflow. files: to be written before; plain, traced: the words of both commands, one
    after another."""

    files: Mapping[str, str]
    plain: list[str]
    traced: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@cache
def environment_with(name: str, version: str = "") -> Manager:
    """The newest program of that name, or one whose version begins so, in the environments on PATH."""
    there = airflows_on_path() if name == "airflow" else all_on_path(name)
    fitting = [one for one in there if one.version.startswith(version)]
    if not fitting:
        raise Missing(f"no {name} {version}".rstrip())
    return fitting[0]


def need(name: str) -> None:
    if shutil.which(name) is None:
        raise Missing(f"no {name}")


@cache
def adapter(name: str) -> str:
    return subprocess.run([TAILRACE, "adapter", name], capture_output=True, text=True, check=True).stdout.strip()


def run_traced(folder: Path) -> list[str]:
    return [str(TAILRACE), "run", "-o", str(folder / "run"), "--"]


def make(tasks: int, folder: Path) -> Way:
    rules = "\n".join(f"out/{n}:\n\t{TASK.format('$@')}" for n in range(tasks))
    text = f"all: {' '.join(f'out/{n}' for n in range(tasks))}\n{rules}\n"
    need("make")
    words = ["make", "-s", "-j2", "-f", "Makefile"]
    return Way({"Makefile": text}, words, [*run_traced(folder), *words, "-f", adapter("make")])


def makeflow(tasks: int, folder: Path) -> Way:
    text = "".join(f"out/{n}:\n\t{TASK.format(f'out/{n}')}\n" for n in range(tasks))
    need("makeflow")
    words = ["makeflow", "-T", "local", "-j", "2"]
    traced = [*run_traced(folder), *words, "--wrapper", f"{adapter('makeflow')} %%", "flow.mf"]
    return Way({"flow.mf": text}, [*words, "flow.mf"], traced)


def snakemake_9(tasks: int, folder: Path) -> Way:
    return snakemake("9", ["--logger", "tailrace"], tasks, folder)


def snakemake_7(tasks: int, folder: Path) -> Way:
    return snakemake("7", ["--log-handler-script", adapter("snakemake")], tasks, folder)


def snakemake(version: str, how: list[str], tasks: int, folder: Path) -> Way:
    text = f'rule all:\n    input: expand("out/{{n}}", n=range({tasks}))\n'
    text += f'rule one:\n    output: "out/{{n}}"\n    shell: "{TASK.format("{output}")}"\n'
    words = [str(environment_with("snakemake", version).program), "-c2", "-q", "all", "--scheduler", "greedy"]
    shared = share_tailrace(folder / "site", SNAKEMAKE_PLUGIN)
    return Way({"Snakefile": text}, words, [*run_traced(folder), *words, *how], shared)


CWL = """{cwlVersion: v1.2, class: Workflow, requirements: {ScatterFeatureRequirement: {}}, inputs: {n: "int[]"},
outputs: {}, steps: {one: {scatter: n, in: {n: n}, out: [], run: {class: CommandLineTool, inputs: {n: int}, outputs: {},
baseCommand: [sh, -c, "seq 1000 | sort -rn > out"]}}}}"""


def cwl(tasks: int, folder: Path) -> Way:
    return cwl_by("cwltool", "tailrace.cwl", ["--quiet"], tasks, folder)


def toil(tasks: int, folder: Path) -> Way:
    return cwl_by("toil-cwl-runner", "tailrace.toil", ["--no-prepull"], tasks, folder)


def cwl_by(program: str, traced: str, options: list[str], tasks: int, folder: Path) -> Way:
    runner = environment_with(program)
    words = [*options, "flow.cwl", "job.json"]
    files = {"flow.cwl": CWL, "job.json": json.dumps({"n": list(range(tasks))})}
    ways = ([str(runner.program), *words], [str(runner.python), "-m", traced, *words])
    return Way(files, *ways, share_tailrace(folder / "site"))


def nextflow(tasks: int, folder: Path) -> Way:
    text = f'process ONE {{\n input: val n\n output: path "o"\n script: "{TASK.format("o")}"\n}}\n'
    text += f"workflow {{ ONE(Channel.of(0..{tasks - 1})) }}\n"
    need("nextflow")
    words = ["nextflow", "-q", "run", "main.nf"]
    traced = [*run_traced(folder), "nextflow", "-q", "-c", adapter("nextflow"), "run", "main.nf"]
    return Way({"main.nf": text}, words, traced, {"NXF_OFFLINE": "true"})


def luigi(tasks: int, folder: Path) -> Way:
    text = f"""
import subprocess
import luigi

class One(luigi.Task):
    n = luigi.IntParameter()
    def output(self):
        return luigi.LocalTarget(f"out/{{self.n}}")
    def run(self):
        subprocess.run(["sh", "-c", "{TASK.format('out/')}" + str(self.n)], check=True)

class All(luigi.WrapperTask):
    def requires(self):
        return [One(n) for n in range({tasks})]
"""
    words = ["--module", "flow", "All", "--local-scheduler", "--log-level", "ERROR"]
    ways = ([sys.executable, "-m", module, *words] for module in ("luigi", "tailrace.luigi"))
    return Way({"flow.py": text}, *ways, {"PYTHONPATH": "."})


def program(tasks: int, before: str, trace: str, body: str) -> Way:
    """A Python program that traces itself when it has an argument."""
    text = f"""
import sys
{before}

def one(n):
    import subprocess
    subprocess.run(["sh", "-c", "{TASK.format('out/')}" + str(n)], check=True)

def main(count, traced):
{body}

if __name__ == "__main__":
    traced = len(sys.argv) > 1
    if traced:
        {trace}
    main({tasks}, traced)
"""
    return Way({"flow.py": text}, [sys.executable, "flow.py"], [sys.executable, "flow.py", "traced"])


def elsewhere(way: Way, folder: Path) -> Way:
    """The program, whose tasks have other working directories."""
    return replace(way, files={"flow.py": way.files["flow.py"].replace("out/", f"{folder}/out/")})


def by_python_of(manager: str, way: Way, environment: Mapping[str, str]) -> Way:
    """The program, by the Python of another environment."""
    python = str(environment_with(manager).python)
    return Way(way.files, [python, *way.plain[1:]], [python, *way.traced[1:]], environment)


def executorlib(tasks: int, folder: Path) -> Way:
    body = """
    from executorlib import SingleNodeExecutor
    with SingleNodeExecutor(max_workers=2, hostname_localhost=True, block_allocation=True) as executor:
        for future in [executor.submit(one, n) for n in range(count)]:
            future.result()"""
    return program(tasks, "", "import tailrace.executorlib; tailrace.executorlib.trace()", body)


def dask(tasks: int, folder: Path) -> Way:
    body = """
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        if traced:
            tailrace.dask.trace(client)
        client.gather(client.map(one, range(count)))"""
    return program(tasks, "from dask.distributed import Client, LocalCluster", "import tailrace.dask", body)


PARSL_POOL = """HighThroughputExecutor(address="127.0.0.1", encrypted=False, max_workers_per_node=2,
                    provider=LocalProvider(init_blocks=1, max_blocks=1))"""
# A task that doesn't say what it needs has a worker for itself.
PARSL_WORK_QUEUE = """WorkQueueExecutor(address="127.0.0.1", port=@PORT@, worker_options="-t 60 --cores 1",
                    provider=LocalProvider(init_blocks=2, min_blocks=2, max_blocks=2))"""


def parsl(tasks: int, folder: Path) -> Way:
    return parsl_with(PARSL_POOL, tasks)


def parsl_work_queue(tasks: int, folder: Path) -> Way:
    """Each task is a Python of its own, which imports Parsl."""
    if reason := work_queue.why_no_work_queue():
        raise Missing(reason)
    way = parsl_with(PARSL_WORK_QUEUE.replace("@PORT@", str(work_queue.free_port())), tasks)
    return replace(elsewhere(way, folder), environment={"PYTHONPATH": work_queue.python_path(folder)})


def parsl_with(executor: str, tasks: int) -> Way:
    body = f"""
    config = Config(executors=[{executor}], strategy="none")
    with parsl.load(tailrace.parsl.trace(config) if traced else config):
        app = parsl.python_app(one)
        for future in [app(n) for n in range(count)]:
            future.result()"""
    before = """import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor, WorkQueueExecutor
from parsl.providers import LocalProvider"""
    return program(tasks, before, "import tailrace.parsl", body)


def prefect(tasks: int, folder: Path) -> Way:
    body = """
    @prefect.flow
    def all_of_them():
        prefect.task(one).map(range(count)).result()
    all_of_them()"""
    way = program(tasks, "import prefect", "import tailrace.prefect; tailrace.prefect.trace()", body)
    settings = {"PREFECT_HOME": str(folder / "prefect"), "DO_NOT_TRACK": "1"}
    settings["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "120"
    return by_python_of("prefect", way, {**share_tailrace(folder / "site"), **settings})


def ray(tasks: int, folder: Path) -> Way:
    body = """
    ray.init("local", num_cpus=2, include_dashboard=False)
    task = ray.remote(one)
    ray.get([task.remote(n) for n in range(count)])"""
    way = program(tasks, "import ray", "import tailrace.ray; tailrace.ray.trace()", body)
    return by_python_of("ray", elsewhere(way, folder), share_tailrace(folder / "site"))


AIRFLOW = """
import subprocess
from airflow.sdk import DAG, task

@task
def one(n):
    subprocess.run(["sh", "-c", "@TASK@" + str(n)], check=True)

with DAG("w", schedule=None):
    one.expand(n=list(range(@TASKS@)))
"""


def airflow(tasks: int, folder: Path) -> Way:
    """Tasks run one after another in the process of `airflow dags test`."""
    airflow = str(environment_with("airflow").program)
    home = airflow_home(folder / "home")
    environment = {**home, **share_tailrace(folder / "site")}
    subprocess.run([airflow, "db", "migrate"], env={**os.environ, **environment}, capture_output=True, check=True)
    text = AIRFLOW.replace("@TASK@", TASK.format(f"{folder}/out/")).replace("@TASKS@", str(tasks))
    words = [airflow, "dags", "test", "w"]
    return Way({"home/dags/flow.py": text}, words, [*run_traced(folder), *words], environment)


STUDY = """
description: {name: flow, description: tasks}
batch: {type: local, shell: @SHELL@}
study:
    - {name: one, description: d, run: {cmd: "@TASK@"}}
global.parameters:
    N: {values: @NUMBERS@, label: N.%%}
"""


def study(shell: str, tasks: int) -> str:
    text = STUDY.replace("@SHELL@", shell).replace("@NUMBERS@", json.dumps(list(range(tasks))))
    return text.replace("@TASK@", TASK.format("out$(N)"))


def maestro(tasks: int, folder: Path) -> Way:
    words = [str(environment_with("maestro").program), "run", "-fg", "-s", "1", "-y", "-o", "study"]
    return by_study("maestro", words, tasks, folder)


def merlin(tasks: int, folder: Path) -> Way:
    words = [str(environment_with("merlin").program), "run", "--local"]
    return by_study("merlin", words, tasks, folder)


def by_study(manager: str, words: list[str], tasks: int, folder: Path) -> Way:
    files = {"plain.yaml": study("/bin/bash", tasks), "traced.yaml": study(adapter(manager), tasks)}
    traced = [*run_traced(folder), *words, "traced.yaml"]
    return Way(files, [*words, "plain.yaml"], traced, {"HOME": str(folder)})


def flux(tasks: int, folder: Path) -> Way:
    """An instance of its own, whose broker is the parent of all shells."""
    program = find_flux()
    if program is None:
        raise Missing("no flux")
    words = f"{program} submit --quiet --wait --cc=0-{tasks - 1}"
    command = f"sh -c '{TASK.format('out/$FLUX_JOB_CC')}'"
    traced = f'eval "$(tailrace flux paths --format shell)"\n{words} --trace=one --trace-run=run {command}\n'
    traced += "tailrace flux collect run\n"
    files = {"plain.sh": f"{words} {command}\n", "traced.sh": traced}
    return Way(files, *([str(program), "start", "sh", "-e", file] for file in files))


SLURM = """
import shlex
import sys
from pathlib import Path
from support.slurm_cluster import SlurmCluster

tasks, *traced = sys.argv[1:]
cluster = SlurmCluster(Path("cluster").absolute())
try:
    if not traced:
        Path("cluster/plugstack.conf").write_text("")
    words = ["sh", "-c", "@TASK@"]
    cluster.submit(f"--array=0-{int(tasks) - 1}", "-J", "one", "-o", "/dev/null", *traced, "--wrap", shlex.join(words))
    cluster.wait_for_all()
finally:
    cluster.stop()
"""


def slurm(tasks: int, folder: Path) -> Way:
    """A cluster of its own. Its daemons give jobs away to the process that counts."""
    if reason := missing_for_slurm():
        raise Missing(reason)
    text = SLURM.replace("@TASK@", TASK.format("out/$SLURM_ARRAY_TASK_ID"))
    words = [sys.executable, "flow.py", str(tasks)]
    environment = {"PYTHONPATH": str(SOURCE / "tests")}
    return Way({"flow.py": text}, words, [*words, "--trace", "--trace-run=run"], environment)


WAYS: dict[str, Callable[[int, Path], Way]] = {
    "GNU make": make,
    "Makeflow": makeflow,
    "Luigi": luigi,
    "executorlib": executorlib,
    "Dask distributed": dask,
    "Parsl": parsl,
    "Parsl, Work Queue": parsl_work_queue,
    "Flux": flux,
    "Slurm": slurm,
    "cwltool": cwl,
    "Snakemake 7": snakemake_7,
    "Snakemake 9": snakemake_9,
    "Nextflow": nextflow,
    "Maestro": maestro,
    "Merlin": merlin,
    "Prefect": prefect,
    "toil": toil,
    "Ray": ray,
    "Airflow": airflow,
}
"""The managers, by their names in docs/conformance.md."""

MANY = {
    "Dask distributed": 300,
    "Parsl": 300,
    "Nextflow": 200,
    "Prefect": 500,
    "Ray": 500,
    "toil": 60,
    "Airflow": 300,
    "Parsl, Work Queue": 20,
}
"""By how many tasks the larger workflow is larger, where it isn't by 100: a start whose cost varies needs more for the
same deviation, and tasks of some hundred milliseconds need fewer."""
