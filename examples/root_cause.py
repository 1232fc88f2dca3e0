"""The root cause of an incident: which part of a system began to behave differently, and what only followed.

    python examples/root_cause.py                           # simulated: a web shop whose database slows down
    python examples/root_cause.py metrics.csv state         # a table of your own: its path and the column of states

One state is the usual one (baseline, control, …), the others are incidents. Exit code 3: not to be trusted.
"""

import sys

import numpy as np
import pandas as pd

import bacadi
from bacadi import answers

CAUSE = "db_latency"


def simulated(seed: int = 0, minutes: int = 400) -> pd.DataFrame:
    """Traffic drives load and latencies; in the incident the database is slow for a reason of its own."""
    rng = np.random.default_rng(seed)
    state = np.repeat(["baseline", "incident"], [minutes, minutes // 4])
    broken = state == "incident"
    traffic = 100 + 10 * rng.normal(size=len(state))
    cpu = 0.5 * traffic + 3 * rng.normal(size=len(state))
    cache_misses = 0.3 * traffic + 3 * rng.normal(size=len(state))
    db_latency = 0.4 * cache_misses + 2 * rng.normal(size=len(state)) + 25 * broken
    api_latency = 0.8 * db_latency + 0.3 * cpu + 2 * rng.normal(size=len(state))
    errors = 0.5 * api_latency + 2 * rng.normal(size=len(state))
    columns = dict(traffic=traffic, cpu=cpu, cache_misses=cache_misses, db_latency=db_latency)
    return pd.DataFrame(columns | dict(api_latency=api_latency, errors=errors, state=state))


def main(path: str | None = None, context: str = "state") -> bacadi.Posterior:
    data = bacadi.prepare(simulated() if path is None else path, context)
    posterior = bacadi.fit(data)
    print(posterior.verdict())
    for incident in posterior.contexts:
        print(answers.changed(posterior, incident))  # which mechanism changed, ranked by log odds
        print(answers.context_did(posterior, incident))  # what was hit, what only followed
    return posterior


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]).attrs.get("converged") else 3)
