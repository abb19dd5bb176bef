"""What a search costs besides its trainings: optuna, the study on disk and the decisions.

- `SAMPLER, 200 points, 2000 earlier trials`: seconds of `next` and `ended` per training, in a search of 200 points and
  up to 3 seeds on 4 slots whose study begins with 2,000 known trials (`--trials` and `--known` change the numbers). The
  reference is what a training of 60 seconds on one of 4 slots takes of the search, 15 seconds, so that `ratio` is the
  share of the search that is not training. `total` and `share` are sums over the search, with the opening of the study;
  `cpu_total` and `cpu_share` count the seconds of the processor, which hardly depend on other work.
- `open, ...`: seconds until a killed search of that size continues.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness import record

from sweeps.service.run.source import Exhausted
from sweeps.service.search.points import Job, Measured
from sweeps.service.search.queue import Known, SearchQueue
from sweeps.service.search.study import Study
from sweeps.service.spec.search import Choice, Integer, LogUniform, Search, Space, Uniform

NAME = "search_overhead"
SLOTS = 4
TRAINING_SECONDS = 60.0
SPACE: Space = {
    "training.learning_rate": LogUniform(1e-4, 1e-1),
    "training.weight_decay": LogUniform(1e-6, 1e-2),
    "model.dropout": Uniform(0.0, 0.5, step=0.05),
    "model.width": Integer(16, 128, step=16),
    "mask.shape": Choice(("box", "bell", "trapezoid")),
    "mask.sharpness": Uniform(0.1, 10.0, when={"mask.shape": ("bell", "trapezoid")}),
    "loss.smoothing": LogUniform(1e-3, 1.0),
    "loss.length": Uniform(0.0, 2.0),
}
BASE = {
    **{"training.learning_rate": 1e-2, "training.weight_decay": 1e-4, "model.dropout": 0.25, "model.width": 64},
    **{"mask.shape": "box", "mask.sharpness": 1.0, "loss.smoothing": 0.1, "loss.length": 1.0},
}


def measured(settings: Mapping[str, object], seed: int) -> Measured:
    """Scores of a simulated training."""
    noise = random.Random(f"{sorted(settings.items())}{seed}")
    rate = settings["training.learning_rate"]
    assert isinstance(rate, float)
    return Measured((0.7 - abs(rate - 0.003) + noise.gauss(0, 0.02),))


def earlier(count: int) -> Iterator[Known]:
    """Finished trials of another sweep, spread over the space."""
    draw = random.Random(1)
    for i in range(count):
        numbers = {
            **{
                "training.learning_rate": 10 ** draw.uniform(-4, -1),
                "training.weight_decay": 10 ** draw.uniform(-6, -2),
            },
            **{"model.dropout": 0.05 * draw.randrange(11), "model.width": 16 * draw.randint(1, 8)},
            **{"mask.shape": draw.choice(("box", "bell", "trapezoid")), "mask.sharpness": draw.uniform(0.1, 10)},
            **{"loss.smoothing": 10 ** draw.uniform(-3, 0), "loss.length": draw.uniform(0, 2)},
        }
        yield Known(f"earlier {i}", numbers, {1: measured(numbers, 1)})


def opened(folder: Path, search: Search, known: int) -> SearchQueue:
    return SearchQueue(
        search,
        Study(folder / "study.journal", search),
        lambda settings: json.dumps(settings, sort_keys=True),
        base=BASE,
        known=list(earlier(known)),
    )


def run(queue: SearchQueue) -> list[float]:
    """Seconds of the queue per training; the oldest of the running trainings ends first."""
    spent: list[float] = []
    running: list[Job] = []
    before = time.perf_counter()
    while True:
        try:
            job = queue.next() if len(running) < SLOTS else None
        except Exhausted:
            return spent
        if job is not None:
            running.append(job)
            continue
        job = running.pop(0)
        queue.ended(job, measured(job.point.settings, job.seed))
        spent.append(time.perf_counter() - before)
        before = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samplers", nargs="+", default=["tpe", "cmaes", "nsga2", "random"])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--known", type=int, default=2000)
    options = parser.parse_args()
    reference = TRAINING_SECONDS / SLOTS
    for sampler in options.samplers:
        search = Search(name=NAME, title=NAME, space=SPACE, trials=options.trials, sampler=sampler)
        case = f"{options.trials} points, {options.known} earlier trials"
        with tempfile.TemporaryDirectory() as folder:
            start, started = time.perf_counter(), time.process_time()
            queue = opened(Path(folder), search, options.known)
            opening = time.perf_counter() - start
            spent = run(queue)
            cpu = time.process_time() - started
            pairs = [(one, reference) for one in spent]
            of = f"a training of {TRAINING_SECONDS:g} s on one of {SLOTS} slots"
            total, whole = opening + sum(spent), reference * len(spent)
            sums = {"total": round(total, 2), "share": round(total / whole, 5)}
            cpu_sums = {"cpu_total": round(cpu, 2), "cpu_share": round(cpu / whole, 5)}
            record(NAME, f"{sampler}, {case}", pairs, of=of, **sums, **cpu_sums)
            start = time.perf_counter()
            opened(Path(folder), search, options.known)
            again = time.perf_counter() - start
            record(NAME, f"{sampler}, open, {case}", [(again, reference)], of=of)


if __name__ == "__main__":
    main()
