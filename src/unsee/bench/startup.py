"""Start-up: how long `unsee --help` takes, in starts of the interpreter itself."""

import os
import resource
import subprocess
import sys
import tempfile
from statistics import median

from unsee.bench.result import Limit, Result
from unsee.bench.timing import machine, ratio

MOST = 3.0
STARTS = {
    "the interpreter alone": "pass",
    "unsee --help": "import sys; from unsee.cli import main; sys.exit(main(['--help']))",
    "unsee forget --help": "import sys; from unsee.cli import main; sys.exit(main(['forget', '--help']))",
    "import unsee": "import unsee",
}


def run(command: str, *, quick: bool = False) -> Result:
    """Start each in turn, in a process of its own, and compare the processors' time they took."""
    here, rounds = machine(), 1 if quick else 15
    seconds: dict[str, list[float]] = {name: [] for name in STARTS}
    with tempfile.TemporaryDirectory() as cache:
        # Compiled once, as installed packages are, wherever this runs.
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds + 1):
            for name, code in STARTS.items():
                took = _started(code, env)
                if number:
                    seconds[name].append(took)
    alone = next(iter(STARTS))
    rows = [
        {
            "start": name,
            "ms of processor time": round(1e3 * median(times), 1),
            "in starts of the interpreter": round(ratio(seconds, name, alone), 2),
        }
        for name, times in seconds.items()
    ]
    limit = Limit(
        "unsee --help to the interpreter's own start", rows[1]["in starts of the interpreter"], MOST
    )
    return Result("startup", command, here, [limit], {"Starts": rows}, quick)


def _started(code: str, env: dict[str, str]) -> float:
    """Return the processor time of one start, of user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
