"""How often `--seeds auto:3..15` errs, and how many seeds it needs: simulated sweeps with known differences.

- `errors`: 1,000 sweeps for each noise, number of rows, true difference and deviation over seeds, in points. `wrong` is
  the share of sweeps in which any row ends with an interval without its true difference, such as a row that is called
  better, worse or equivalent although it is not. The reference is the fixed design of 15 seeds. `real` noise resamples
  the MoF of 20 trainings on tug that differ only in the seed.
- `missed collapse`: the rows besides the default one lose 30 points with every tenth seed.
- `scale`: mean seeds for several scales of the mixture, by the true difference in deviations of the differences.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeps.service.stats.sequential import Decision, critical_t, row_seeds
from sweeps.service.stats.significance import LEVEL

LEAST, MOST, MARGIN = 3, 15, 1.0
SEEDS = np.arange(1, MOST + 1)
Floats = NDArray[np.float64]
REAL = Path(__file__).parents[1] / "tests" / "data" / "tug_seeds.npz"


def normal(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Equal deviations in all rows."""
    return random.normal(size=shape)


def unequal(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """The default row varies a third as much as the others."""
    noise = random.normal(size=shape)
    noise[0] /= 3
    return noise


def skewed(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Scores below a ceiling: a gamma distribution of shape 2, turned round; the default row varies half as much."""
    noise: Floats = -(random.gamma(2, size=shape) - 2) / np.sqrt(2)
    noise[0] /= 2
    return noise


def outliers(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """One seed in twenty of any row is eight deviations lower."""
    noise: Floats = random.normal(size=shape) - 8 * ((random.random(shape) < 0.05) - 0.05)
    return noise


def real(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """MoF of 20 real trainings, resampled, in their deviations."""
    with np.load(REAL) as arrays:
        scores = arrays["scores"][:, 0]
    drawn: Floats = (random.choice(scores, size=shape) - scores.mean()) / scores.std()
    return drawn


def collapsing(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Every tenth seed of the rows besides the default one is 30 deviations lower."""
    noise = random.normal(size=shape)
    noise[1:] -= 30 * ((random.random((shape[0] - 1, shape[1])) < 0.1) - 0.1)
    return noise


def simulated(
    noise: Callable[[np.random.Generator, tuple[int, int]], Floats],
    *,
    rows: int,
    difference: float,
    deviation: float,
    sweeps: int,
) -> dict[str, object]:
    """Runs the rule on simulated sweeps.

    Args:
        noise: returns noise of mean 0 and deviation 1, `[1 + rows, 15]`, the default row first.
        rows: number of rows besides the default one.
        difference: true difference of each of them, in points.
        deviation: of a row over seeds, in points.
        sweeps: number of sweeps.
    """
    random = np.random.default_rng([rows, round(10 * difference), round(10 * deviation)])
    wrong, seeds, decisions = 0, [], Counter[Decision]()
    for _ in range(sweeps):
        scores = deviation * noise(random, (1 + rows, MOST))
        scores[1:] += difference
        default, *others = [dict(zip(SEEDS.tolist(), row.tolist(), strict=True)) for row in scores]
        found = [row_seeds(row, default, least=LEAST, most=MOST, margin=MARGIN, level=LEVEL / rows) for row in others]
        wrong += any(not one.interval[0] <= difference <= one.interval[1] for one in found)
        seeds += [one.needed for one in found]
        decisions.update(one.decision for one in found)
    return {
        "noise": noise.__name__,
        "rows": rows,
        "difference": difference,
        "deviation": deviation,
        "sweeps": sweeps,
        "wrong": wrong / sweeps,
        "seeds": round(float(np.mean(seeds)), 2),
        "fixed_seeds": MOST,
        **{str(decision): round(count / decisions.total(), 3) for decision, count in sorted(decisions.items())},
    }


def seeds_by_scale(scale: float, *, rows: int, sweeps: int) -> dict[str, object]:
    """Mean seeds until 0 is excluded, for several differences in deviations of the differences."""
    factors = np.array([critical_t(int(n), LEVEL / rows, scale) for n in SEEDS])
    found = {}
    for effect in (1.0, 1.5, 2.0, 3.0, 5.0):
        values = np.random.default_rng(1).normal(effect, size=(sweeps, MOST))
        means = values.cumsum(axis=1) / SEEDS
        squares = (values**2).cumsum(axis=1) - SEEDS * means**2
        errors = np.sqrt(squares[:, LEAST - 1 :] / (SEEDS - 1)[LEAST - 1 :] / SEEDS[LEAST - 1 :])
        excludes = np.abs(means[:, LEAST - 1 :]) > factors[LEAST - 1 :] * errors
        stops = np.where(excludes.any(axis=1), excludes.argmax(axis=1) + LEAST, MOST)
        found[f"{effect:g}"] = round(float(stops.mean()), 2)
    return {"scale": scale, "rows": rows, "seeds_by_effect": found}


def main() -> None:
    """Prints a JSON line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=1000, help="simulated sweeps of each case (default: 1000)")
    sweeps = parser.parse_args().sweeps

    def line(case: str, values: dict[str, object]) -> None:
        print(json.dumps({"benchmark": "sequential_seeds", "case": case, **values}), flush=True)

    for noise in (normal, unequal, skewed, outliers, real):
        for rows in (1, 4):
            for difference, deviation in ((0.0, 0.3), (0.0, 2.0), (1.0, 1.0), (3.0, 1.0), (10.0, 2.0)):
                line("errors", simulated(noise, rows=rows, difference=difference, deviation=deviation, sweeps=sweeps))
    line("missed collapse", simulated(collapsing, rows=1, difference=0.0, deviation=1.0, sweeps=sweeps))
    for rows in (1, 4):
        for scale in (1.0, 2.0, 3.0, 4.0, 8.0, 16.0):
            line("scale", seeds_by_scale(scale, rows=rows, sweeps=sweeps))


if __name__ == "__main__":
    main()
