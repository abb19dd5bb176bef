"""The card of an exported model: what it was trained on, how well it works, and what it is not for, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mucon.checkpoint_files import Saved
from mucon.configuration import flatten, setting_text
from mucon.export.scores import Interval, Score
from mucon.identity.contract import Contract
from mucon.method import training_of
from mucon.methods import method_named
from mucon.metrics.catalogue import METRICS, Metric

if TYPE_CHECKING:
    from mucon.export.folder import Member

BY_NAME = {metric.name: metric for metric in METRICS}
LIMITS = """\
- Recordings whose features were computed in another way or at another frame rate: its predictions are then meaningless.
  `mucon predict` warns about features that are far from those of training.
- Actions outside of the list below: every frame gets one of these labels.
- Decisions about people, such as medical ones, without a check by a person: no score here measures that use.
- A comparison with other programs, unless they are scored on the same recordings with the same metrics."""


def card(
    saved: Saved,
    contract: Contract,
    name: str,
    members: Sequence[Member],
    scores: Sequence[Score],
    selection: str = "",
) -> str:
    """The text of the card.

    Args:
        saved: the exported checkpoint.
        contract: what it expects of features.
        name: heading.
        members: the trainings whose weights it contains.
        scores: its scores.
        selection: how the model was chosen among others; empty if it was not.
    """
    parts = [f"# {name}", _summary(saved, members), "## Features", _features(contract)]
    parts += [
        "## Training data",
        _data(saved),
        "## Trainings",
        "\n".join(_trainings(saved, members)),
        "## Scores",
        *_scores(scores),
        *filter(None, [selection]),
    ]
    parts += ["## What it is not for", LIMITS, "## Actions", _actions(saved), "## Use", USE]
    return "\n\n".join([*parts, "## Licence", LICENCE]) + "\n"


USE = """\
```
python -c 'import mucon; print(mucon.load("FOLDER").predict("FEATURES.npy").segments)'
mucon predict FOLDER FEATURES.npy
mucon evaluate FOLDER --store STORE
mucon export --check FOLDER
```"""
LICENCE = """\
The program is licensed under Apache-2.0. The licence of the weights depends on that of the training data.

Licence of the training data: (to be filled in)"""


def _summary(saved: Saved, members: Sequence[Member]) -> str:
    what = f"an ensemble of {len(members)} models" if len(members) > 1 else "a model"
    return (
        f"This folder contains {what} for temporal action segmentation, trained with the method `{saved.method}` of "
        f"mucon. It assigns one of {saved.vocabulary.n_actions} actions to every frame of a recording with "
        f"{saved.size['dim']} features per frame."
    )


def _data(saved: Saved) -> str:
    data = saved.trained_on
    if data is None:
        return "The checkpoint does not record its training data."
    return (
        f"- split: {data.source.split or 'unknown'}\n"
        f"- recordings: {len(data.recordings)}, digest of the recordings `{data.fingerprint}`"
    )


def _features(contract: Contract) -> str:
    """What the model expects of features; `contract.json` has the statistics of each dimension."""
    times = {"frames per second": contract.fps, "seconds of the window of a frame": contract.window}
    statistics = contract.statistics
    known = "unknown" if statistics is None else f"of {statistics.frames} frames, in `contract.json`"
    return "\n".join(
        [
            f"- features per frame: {contract.dim}",
            f"- type: {contract.dtype}, normalisation: {contract.normalisation}",
            *(f"- {name}: {'unknown' if value is None else f'{value:g}'}" for name, value in times.items()),
            f"- statistics of the training features: {known}",
        ]
    )


def _trainings(saved: Saved, members: Sequence[Member]) -> Iterator[str]:
    config = method_named(saved.method).config.from_dict(saved.config)
    labelled = training_of(config).labelled
    kind = {0.0: "transcripts only (weak supervision)", 1.0: "frame labels (full supervision)"}
    yield f"- supervision: {kind.get(labelled, f'frame labels of {100 * labelled:g} % of the recordings')}"
    changed = {path: value for path, value in flatten(config.differences()).items() if path != "seed"}
    settings = ", ".join(f"`{path}={setting_text(value)}`" for path, value in changed.items())
    yield f"- settings that differ from the defaults: {settings or 'none'}"
    yield "\n| run | seed | digest of the weights |\n|---|---|---|"
    yield from (f"| {one.run} | {one.seed} | `{one.weights_sha256[:16]}` |" for one in members)


def _scores(scores: Sequence[Score]) -> Iterator[str]:
    if not scores:
        yield "None recorded. `mucon evaluate FOLDER --store STORE` computes them."
        return
    first = scores[0]
    tasks = {(score.split, score.part, score.task) for score in scores}
    yield f"On {'; '.join(f'part {part} of split {split} ({task})' for split, part, task in sorted(tasks))}."
    rows = ["| prediction | metric | this model | mean over recordings | mean over seeds |", "|---|---|---|---|---|"]
    for score in scores:
        metric = BY_NAME[score.metric]
        cells = [f"{_text(score.value, metric)}", _interval(score.over_recordings, metric, "recordings")]
        cells.append(_interval(score.over_seeds, metric, "seeds"))
        rows.append(f"| {score.prediction} | {metric.title} | {' | '.join(cells)} |")
    yield "\n".join(rows)
    yield (
        "In brackets: 95 % intervals, over recordings by the bootstrap, over seeds by Student's t from 5 seeds on. "
        "Intervals over recordings take recordings as independent; several of one person are not."
    )
    yield f"Runs: {', '.join(first.runs)}."


def _interval(interval: Interval | None, metric: Metric, counted: str) -> str:
    if interval is None:
        return ""
    ends = ""
    if interval.low is not None and interval.high is not None:
        ends = f" [{_text(interval.low, metric)}, {_text(interval.high, metric)}]"
    return f"{_text(interval.mean, metric)}{ends} ({interval.n} {counted})"


def _text(value: float, metric: Metric) -> str:
    digits = 3 if metric.decimals is None else metric.decimals
    return f"{metric.scale * value:.{digits}f}"


def _actions(saved: Saved) -> str:
    background = set(saved.vocabulary.background)
    return "\n".join(f"- {name}{' (background)' * (name in background)}" for name in saved.vocabulary.actions)
