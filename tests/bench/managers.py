"""What tracing costs a task of each workflow manager: processor time of a whole workflow, traced less untraced.

    python tests/bench/managers.py [--tasks N] [--rounds N] [--only MANAGER...]

    rounds of (untraced, traced) of each manager that is here --> build/conformance/overhead/MANAGER.json
    --> python tools/conformance_docs.py

The workflow has N tasks side by side, each `sh -c 'seq 1000 | sort -rn > OUT'`: three processes. Counted is what the
command and everything that it leaves behind take of the processors until the last of them has ended, with starting
the manager and sealing. A manager that hands tasks to daemons (Flux, Slurm) can't be counted so.
"""

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.managers import airflow_home, airflows_on_path, all_on_path, share_tailrace

RESULTS = ROOT / "build" / "conformance" / "overhead"
TASK = "seq 1000 | sort -rn > {}"
TAILRACE = Path(sys.executable).parent / "tailrace"
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Way:
    """How a manager runs the workflow. files: to be written before; plain, traced: the words of both commands."""

    files: Mapping[str, str]
    plain: list[str]
    traced: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def adapter(name: str) -> str:
    return subprocess.run([TAILRACE, "adapter", name], capture_output=True, text=True, check=True).stdout.strip()


def make(tasks: int, folder: Path) -> Way:
    rules = "\n".join(f"out/{n}:\n\t{TASK.format('$@')}" for n in range(tasks))
    text = f"all: {' '.join(f'out/{n}' for n in range(tasks))}\n{rules}\n"
    words = ["make", "-s", "-j2", "-f", "Makefile"]
    return Way({"Makefile": text}, words, [*run_traced(folder), *words, "-f", adapter("make")])


def makeflow(tasks: int, folder: Path) -> Way:
    text = "".join(f"out/{n}:\n\t{TASK.format(f'out/{n}')}\n" for n in range(tasks))
    words = ["makeflow", "-T", "local", "-j", "2"]
    traced = [*run_traced(folder), *words, "--wrapper", f"{adapter('makeflow')} %%", "flow.mf"]
    return Way({"flow.mf": text}, [*words, "flow.mf"], traced)


def snakemake(tasks: int, folder: Path) -> Way:
    text = f'rule all:\n    input: expand("out/{{n}}", n=range({tasks}))\n'
    text += f'rule one:\n    output: "out/{{n}}"\n    shell: "{TASK.format("{output}")}"\n'
    (newest,) = [one for one in all_on_path("snakemake") if not one.version.startswith("7")][:1]
    words = [str(newest.program), "-c2", "-q", "all", "--scheduler", "greedy"]
    shared = share_tailrace(folder / "site", ROOT / "adapters" / "modules" / "snakemake_logger_plugin_tailrace")
    return Way({"Snakefile": text}, words, [*run_traced(folder), *words, "--logger", "tailrace"], shared)


CWL = """{cwlVersion: v1.2, class: Workflow, requirements: {ScatterFeatureRequirement: {}}, inputs: {n: "int[]"},
outputs: {}, steps: {one: {scatter: n, in: {n: n}, out: [], run: {class: CommandLineTool, inputs: {n: int}, outputs: {},
baseCommand: [sh, -c, "seq 1000 | sort -rn > out"]}}}}"""


def cwl(tasks: int, folder: Path) -> Way:
    return cwl_by("cwltool", "tailrace.cwl", ["--quiet"], tasks, folder)


def toil(tasks: int, folder: Path) -> Way:
    return cwl_by("toil-cwl-runner", "tailrace.toil", ["--no-prepull"], tasks, folder)


def cwl_by(program: str, traced: str, options: list[str], tasks: int, folder: Path) -> Way:
    runner = all_on_path(program)[0]
    words = [*options, "flow.cwl", "job.json"]
    files = {"flow.cwl": CWL, "job.json": json.dumps({"n": list(range(tasks))})}
    ways = ([str(runner.program), *words], [str(runner.python), "-m", traced, *words])
    return Way(files, *ways, share_tailrace(folder / "site"))


def nextflow(tasks: int, folder: Path) -> Way:
    text = f'process ONE {{\n input: val n\n output: path "o"\n script: "{TASK.format("o")}"\n}}\n'
    text += f"workflow {{ ONE(Channel.of(0..{tasks - 1})) }}\n"
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


def parsl(tasks: int, folder: Path) -> Way:
    body = """
    config = Config(executors=[HighThroughputExecutor(address="127.0.0.1", encrypted=False, max_workers_per_node=2,
                    provider=LocalProvider(init_blocks=1, max_blocks=1))], strategy="none")
    with parsl.load(tailrace.parsl.trace(config) if traced else config):
        app = parsl.python_app(one)
        for future in [app(n) for n in range(count)]:
            future.result()"""
    before = """import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider"""
    return program(tasks, before, "import tailrace.parsl", body)


def ray(tasks: int, folder: Path) -> Way:
    body = """
    ray.init("local", num_cpus=2, include_dashboard=False)
    task = ray.remote(one)
    ray.get([task.remote(n) for n in range(count)])"""
    way = program(tasks, "import ray", "import tailrace.ray; tailrace.ray.trace()", body)
    python = str(all_on_path("ray")[0].python)
    # Ray's workers begin elsewhere than the program.
    files = {"flow.py": way.files["flow.py"].replace("out/", f"{folder}/out/")}
    return Way(files, [python, *way.plain[1:]], [python, *way.traced[1:]], share_tailrace(folder / "site"))


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
    airflow = str(airflows_on_path()[0].program)
    home = airflow_home(folder / "home")
    environment = {**home, **share_tailrace(folder / "site")}
    subprocess.run([airflow, "db", "migrate"], env={**os.environ, **environment}, capture_output=True, check=True)
    text = AIRFLOW.replace("@TASK@", TASK.format(f"{folder}/out/")).replace("@TASKS@", str(tasks))
    words = [airflow, "dags", "test", "w"]
    return Way({"home/dags/flow.py": text}, words, [*run_traced(folder), *words], environment)


WAYS: dict[str, Callable[[int, Path], Way]] = {
    "GNU make": make,
    "Makeflow": makeflow,
    "Luigi": luigi,
    "executorlib": executorlib,
    "Dask distributed": dask,
    "Parsl": parsl,
    "cwltool": cwl,
    "Snakemake 9": snakemake,
    "Nextflow": nextflow,
    "toil": toil,
    "Ray": ray,
    "Airflow": airflow,
}


def run_traced(folder: Path) -> list[str]:
    return [str(TAILRACE), "run", "-o", str(folder / "run"), "--"]


def processor_ms(words: list[str], folder: Path, way: Way) -> float:
    """What a command and all that it leaves behind take. Runs in a process of its own, which inherits orphans."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
            environment.update(way.environment)
            with (folder / "log").open("wb") as log:
                done = subprocess.run(words, cwd=folder, env=environment, stdout=log, stderr=log, check=False)
            while True:
                try:
                    os.wait()
                except ChildProcessError:
                    break
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            os.write(writer, f"{(used.ru_utime + used.ru_stime) * 1e3}".encode())
            status = done.returncode
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if status or not text:
        sys.exit(f"{' '.join(words)} failed:\n{(folder / 'log').read_text()}")
    return float(text)


def measured(way_of: Callable[[int, Path], Way], tasks: int, traced: bool) -> float:
    """Milliseconds a task."""
    with tempfile.TemporaryDirectory(prefix="tailrace-managers-") as name:
        folder = Path(name)
        (folder / "out").mkdir()
        way = way_of(tasks, folder)
        for file, text in way.files.items():
            (folder / file).write_text(text)
        return processor_ms(way.traced if traced else way.plain, folder, way) / tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(WAYS), default=list(WAYS))
    given = parser.parse_args()
    programs = {"GNU make": "make", "Makeflow": "makeflow", "Nextflow": "nextflow"}
    elsewhere = {"cwltool": "cwltool", "Snakemake 9": "snakemake", "toil": "toil-cwl-runner", "Ray": "ray"}
    RESULTS.mkdir(parents=True, exist_ok=True)
    for manager in given.only:
        here: object = shutil.which(programs[manager]) if manager in programs else True
        if manager == "Airflow":
            here = airflows_on_path()
        if not (here and (manager not in elsewhere or all_on_path(elsewhere[manager]))):
            print(f"{manager}: not on PATH")
            continue
        rounds = [
            [measured(WAYS[manager], given.tasks, traced) for traced in (False, True)] for _ in range(given.rounds)
        ]
        plain, more = [one[0] for one in rounds], [one[1] - one[0] for one in rounds]
        spread = stdev(more) if len(more) > 1 else 0.0
        row = {"plain_ms": mean(plain), "more_ms": mean(more), "stdev_ms": spread, "tasks": given.tasks}
        (RESULTS / f"{manager}.json").write_text(json.dumps({"manager": manager, **row}))
        print(f"{manager}: {mean(more):.1f} ± {spread:.1f} ms more than {mean(plain):.1f} ms a task", flush=True)


if __name__ == "__main__":
    main()
