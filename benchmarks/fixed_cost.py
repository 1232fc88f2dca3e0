"""The fixed cost of a default fit: CPU seconds of the whole command but for sampling, here and in other checkouts.

    python benchmarks/fixed_cost.py DATA --context COLUMN --observational LABEL [--repeats 7] [--against CHECKOUT/src]

Every run is a process of its own, by turns here and there, so that the load of a shared machine meets both; a first
run of each, which is not counted, compiles for Python and Numba. Sampling is the loop over sweeps less the first
advance of every replica, which loads compiled code.

Prints the median CPU seconds of the whole command and of all but sampling per checkout, and the ratio of the latter to
that of the last.
"""

import argparse
import os
import resource
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
# Where the loop over sweeps is: module, class and method, of this version and of 41905ca.
LOOPS = ("bacadi.inference.mcmc.run", "TemperingRun", "_sweep"), ("bacadi.inference.tempering", "_Run", "go")


def run_command(arguments: list[str]) -> None:
    """Run the command line in this process; the last line of its output is the CPU seconds of sampling."""
    spent = {"loop": 0.0, "first": 0.0}
    begun = set[int]()

    def clocked(function: Callable, clock: Callable[[], float], entry: str) -> Callable:
        def wrapped(self, *args):
            if entry == "first" and id(self) in begun:
                return function(self, *args)
            begun.add(id(self))
            begin = clock()
            result = function(self, *args)
            spent[entry] += clock() - begin
            return result

        return wrapped

    name, loop, method = LOOPS[find_spec("bacadi.inference.tempering") is not None]
    module = import_module(name)
    setattr(getattr(module, loop), method, clocked(getattr(getattr(module, loop), method), time.process_time, "loop"))
    module.Replica.advance = clocked(module.Replica.advance, time.thread_time, "first")
    sys.argv = ["bacadi", *arguments]
    try:
        runpy.run_module("bacadi", run_name="__main__")
    finally:
        print(spent["loop"] - spent["first"])


def measured(source: Path, arguments: list[str], bytecode: str) -> tuple[float, float]:
    """CPU seconds of one run: the whole command, and all but sampling."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--run", *arguments, "--out", f"{folder}/run", "--quiet"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return whole, whole - float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--context", required=True)
    parser.add_argument("--observational", required=True)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--against", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    arguments = ["fit", given.data, "--context", given.context, "--observational", given.observational]
    sources = [SOURCE, *given.against]
    with tempfile.TemporaryDirectory() as bytecode:
        runs = [[measured(source, arguments, bytecode) for source in sources] for _ in range(given.repeats + 1)]
    last = 0.0
    for source, *of_arm in reversed(list(zip(sources, *runs[1:], strict=True))):
        whole, fixed = (statistics.median(values) for values in zip(*of_arm, strict=True))
        last = last or fixed
        print(f"{source}: {whole:.2f} CPU-s, all but sampling {fixed:.2f}, ratio {fixed / last:.2f}", flush=True)


if __name__ == "__main__":
    run_command(sys.argv[2:]) if sys.argv[1:2] == ["--run"] else main()
