"""The cells of a table: every row on every split with every seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mucon.config import TrainConfig
from mucon.errors import InputError
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A trial in its place in the table."""

    variant: Variant
    split: str
    seed: int
    identity: str
    evaluation: str

    @property
    def key(self) -> str:
        """The trial's `key`."""
        return f"{self.identity}-{self.evaluation}"

    def __str__(self) -> str:
        return f"{self.variant.name}, split {self.split}, seed {self.seed}"


def expand(
    experiment: Experiment,
    *,
    base: TrainConfig,
    settings: Mapping[str, object],
    seeds: Sequence[int],
    splits: Sequence[str],
    fingerprint: Callable[[str, TrainConfig], str],
    store: str,
) -> dict[Cell, Trial]:
    """Every row of an experiment on every split with every seed.

    Args:
        experiment: the table.
        base: the configuration under the rows.
        settings: of the command line; they win over the rows'.
        seeds: one trial each.
        splits: names.
        fingerprint: of a split's data for a configuration.
        store: absolute path of the store.

    Returns:
        Cell -> trial, seed by seed, so that a sweep that is stopped early has every row with few seeds rather than few
        rows with every seed.

    Raises:
        InputError: an unknown setting, a wrong value, or two rows that become one trial.
    """
    if "seed" in settings:
        raise InputError(f"a sweep gives each trial its seed, --set seed={settings['seed']} cannot: use --seeds")
    configs = [(variant, base.with_values({**variant.settings, **settings})) for variant in experiment.variants]
    made: dict[Cell, Trial] = {}
    for seed in seeds:
        for split in splits:
            for variant, config in configs:
                seeded = config.override("seed", seed)
                found = fingerprint(split, seeded)
                trial = Trial.of(seeded, split=split, data_fingerprint=found, store=store, task=variant.task)
                cell = Cell(
                    variant=variant, split=split, seed=seed, identity=trial.identity, evaluation=trial.evaluation
                )
                made[cell] = trial
    problems = list(_merged_rows(list(made), settings))
    if problems:
        raise InputError(problems)
    return made


def _merged_rows(made: Sequence[Cell], settings: Mapping[str, object]) -> Iterator[str]:
    first: dict[tuple[str, str | None], Variant] = {}
    told: set[tuple[str, str]] = set()
    for cell in made:
        other = first.setdefault((cell.key, cell.variant.prediction), cell.variant)
        if other is not cell.variant and (other.name, cell.variant.name) not in told:
            told.add((other.name, cell.variant.name))
            same = sorted(set(settings) & (set(other.settings) | set(cell.variant.settings)))
            because = f" with --set {' '.join(f'{path}={settings[path]}' for path in same)}" if same else ""
            yield (
                f"rows of a table are different trials, {other.name!r} and {cell.variant.name!r} become the same"
                f"{because}: leave out what makes them equal, or train that one row with `mucon train`"
            )
