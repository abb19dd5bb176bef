"""Planted differences: bold where it should be and only there, p values as the tests give them, and words where they
can say nothing."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from mucon.baselines import equal_lengths
from mucon.config import TrainConfig
from mucon.errors import InputError
from mucon.segments import Segmentation
from storage import StoreWriter, open_store
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.recordings import split_data
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.baselines import BLIND, BLIND_ALIGNMENT
from sweeps.service.tables.table import Table
from sweeps.service.tables.text import comma_separated, markdown
from sweeps.service.trials.folder import State
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.sweeps import small

COLUMNS = (
    Column(title="MoF", metric="mof"),
    Column(title="boundary", metric="boundary_error_frames", unit="frames"),
    Column(title="s/video", metric="inference_seconds", unit="seconds"),
)


def experiment(
    names: Iterable[str], default: str | None, task: Literal["segmentation", "alignment"] = "segmentation"
) -> Experiment:
    return Experiment(
        name="planted",
        title="Planted differences",
        label_titles=("Row",),
        variants=tuple(
            Variant(labels=(name,), settings={"loss.smoothing": i}, task=task) for i, name in enumerate(names)
        ),
        columns=COLUMNS,
        default_row=default,
    )


def planted(
    results: Path,
    advantages: Mapping[str, float],
    *,
    noise: float = 0.02,
    splits: tuple[str, ...] = ("1",),
    n_seeds: int = 5,
    videos_differ: bool = True,
    default: str | None = "a",
    unfinished: Mapping[tuple[str, str, int], Unfinished] | None = None,
) -> tuple[Plan, Table]:
    """A sweep whose rows have 0.5 + their advantage, each seed and split with noise of its own."""
    random = np.random.default_rng(7)
    drawn: dict[tuple[str, str, int], float] = {}

    def mof(row: str, split: str, seed: int, prediction: str) -> float:
        shift = drawn.setdefault((row, split, seed), float(random.uniform(-noise, noise)))
        return 0.5 + advantages[row] + shift + 0.05 * int(split)

    shape = experiment(advantages, default)
    plan = make_sweep(
        results,
        shape,
        mof,
        splits=splits,
        n_seeds=n_seeds,
        videos_differ=videos_differ,
        unfinished=unfinished,
    )
    return plan, plan.tables(plan.known())["planted"]


def same(row: str, split: str, seed: int, prediction: str) -> float:
    """The same for every row of equally long a name."""
    return 0.5 + 0.01 * seed + 0.001 * int(split) + 0.0001 * len(row + prediction)


def bold(table: Table, column: int) -> list[str]:
    return [row.labels[0] for row in table.rows if row.bold[column]]


@pytest.mark.parametrize(("splits", "n_seeds"), [(("1",), 5), (("1", "2", "3", "4"), 3)])
def test_rows_that_differ_by_more_than_noise_are_bold_only_where_they_are_best(
    tmp_path: Path, splits: tuple[str, ...], n_seeds: int
) -> None:
    advantages = {"a": 0.0, "b": 0.2, "c": 0.2, "d": 0.1}
    _, table = planted(tmp_path, advantages, splits=splits, n_seeds=n_seeds, videos_differ=False)
    assert bold(table, 0) == ["b", "c"]
    assert bold(table, 1) == ["b", "c"], "fewer frames of boundary error are better"
    assert "**" in next(line for line in markdown(table).splitlines() if line.startswith("| b |"))
    assert all("**" not in line for line in markdown(table).splitlines() if line.startswith(("| a |", "| d |")))
    assert any(note.startswith("bold: ") and "Friedman with replicates" in note for note in table.notes)
    assert any("seeds inside a split are pseudo-replicates" in note for note in table.notes)


def test_where_nothing_differs_every_row_is_bold_and_none_is_told_from_the_default(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.0, "c": 0.0}, videos_differ=False)
    assert bold(table, 0) == ["a", "b", "c"]
    assert any(note.endswith("no row differs") for note in table.notes)


def test_times_are_neither_tested_nor_bold(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.1})
    assert bold(table, 2) == []
    assert [row.p_values[2] for row in table.rows] == [None, None, None, None]


def test_with_too_few_seeds_the_videos_decide_and_the_note_says_so(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.2, "c": 0.2}, n_seeds=2, noise=0.001)
    assert "b" in bold(table, 0) or "c" in bold(table, 0)
    assert "a" not in bold(table, 0)
    notes = "\n".join(table.notes)
    assert "by Wilcoxon signed-rank over test videos" in notes
    assert "2 seeds on 1 split are too few: the smallest attainable p is 0.121" in notes
    pair = table.rows[1].against_default[0]
    assert pair is not None
    assert (pair.seeds.p, pair.seeds.adjusted_p) == (None, None)
    assert pair.videos is not None
    assert pair.videos.direction == 1
    assert table.rows[1].p_values[0] == pair.videos.adjusted_p


def test_p_values_are_those_of_the_tests_without_and_with_holm(tmp_path: Path) -> None:
    """With one split the paper's test is that of Kruskal and Wallis."""
    plan, table = planted(tmp_path, {"a": 0.0, "b": 0.015, "c": 0.1}, n_seeds=6)
    scores: dict[str, list[float]] = {"a": [], "b": [], "c": []}
    for cell, known in ((cell, plan.known()[cell.key]) for cell in plan.cells):
        assert known.scores is not None
        scores[cell.variant.name].append(known.scores["full"]["mof"])
    p = {name: float(stats.kruskal(scores["a"], scores[name]).pvalue) for name in ("b", "c")}
    smaller, larger = sorted(p.values())
    adjusted = {smaller: min(1.0, 2 * smaller), larger: max(min(1.0, 2 * smaller), larger)}
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert rows[0]["full.mof.p_seeds"] == ""
    for place, name in ((1, "b"), (2, "c")):
        assert float(rows[place]["full.mof.p_seeds"]) == pytest.approx(p[name])
        assert float(rows[place]["full.mof.p_seeds_holm"]) == pytest.approx(adjusted[p[name]])
        assert table.rows[place].p_values[0] == pytest.approx(adjusted[p[name]])
        assert float(rows[place]["full.mof.p_videos"]) <= float(rows[place]["full.mof.p_videos_holm"])
    summary = table.rows[1].summaries[0]
    assert summary is not None
    assert summary.interval is not None
    low, high = stats.t.interval(0.95, 5, loc=np.mean(scores["b"]), scale=stats.sem(scores["b"]))
    assert list(summary.interval) == [pytest.approx(low), pytest.approx(high)]


def test_a_row_whose_cells_have_no_value_is_neither_bold_nor_tested(tmp_path: Path) -> None:
    lost = {("b", "1", seed): Unfinished("diverged", "loss is inf") for seed in range(1, 6)}
    plan, table = planted(tmp_path, {"a": 0.0, "b": 0.3, "c": 0.0}, unfinished=lost)
    assert bold(table, 0) == ["a", "c"]
    assert (table.rows[1].summaries[0], table.rows[1].seeds) == (None, "0 of 5")
    assert len(table.missing) == 5
    assert all("is diverged and not averaged: loss is inf" in note for note in table.missing)
    assert sum(cell.state is State.DIVERGED for cell in plan.known().values()) == 5


def test_one_row_alone_is_not_bold_and_has_no_note_of_tests(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0})
    assert bold(table, 0) == []
    assert not any("bold" in note or "against" in note for note in table.notes)


def test_without_a_default_row_rows_are_compared_with_the_best_only(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.2}, default=None)
    assert bold(table, 0) == ["b"]
    assert {row.p_values[0] for row in table.rows} == {None}
    assert "no row has the settings of the base alone: rows are compared with the best one only" in table.notes


def test_the_default_row_is_the_one_with_the_bases_settings_and_of_those_the_one_about_full() -> None:
    rows = (
        Variant(labels=("bell",), settings={"mask.shape": "bell"}),
        Variant(labels=("frames",), prediction="frames"),
        Variant(labels=("box",), settings={"mask.shape": "box"}, prediction="full"),
    )
    shape = Experiment(name="x", title="X", label_titles=("Row",), variants=rows)
    assert shape.with_default_row(TrainConfig(), {}).default_row == "box"
    assert shape.with_default_row(TrainConfig(), {"training.epochs": "3"}).default_row == "box"
    assert shape.with_default_row(TrainConfig().override("mask.shape", "bell"), {}).default_row == "bell"
    bell = Experiment(name="x", title="X", label_titles=("Row",), variants=rows[:1])
    assert bell.with_default_row(TrainConfig(), {}).default_row is None
    named = Experiment(name="x", title="X", label_titles=("Row",), variants=rows, default_row="bell")
    assert named.with_default_row(TrainConfig(), {}).default_row == "bell"
    with pytest.raises(InputError, match=r"x has no 'bel' .did you mean 'bell'"):
        Experiment(name="x", title="X", label_titles=("Row",), variants=rows, default_row="bel")


def test_rows_of_alignment_stand_over_the_true_transcript_with_equal_lengths(tmp_path: Path) -> None:
    aligned = experiment("ab", "a", task="alignment")
    plan = make_sweep(tmp_path, aligned, same)
    table = plan.tables(plan.known())["planted"]
    assert [row.labels[0] for row in table.rows] == ["a", "b", BLIND_ALIGNMENT, "ceiling of frames, pooling x16"]
    shown = [None if summary is None else summary.mean for summary in table.rows[2].summaries]
    assert shown == [0.25, 20.0, None]


def test_a_table_without_mof_has_no_ceiling(tmp_path: Path) -> None:
    shape = Experiment(
        name="planted",
        title="X",
        label_titles=("Row",),
        variants=(Variant(labels=("a",)),),
        columns=COLUMNS[1:2],
    )
    plan = make_sweep(tmp_path, shape, same)
    assert [row.labels[0] for row in plan.tables(plan.known())["planted"].rows] == ["a", BLIND]


def test_what_no_prediction_is_above_and_what_sees_no_feature_come_from_the_stores_lengths(tmp_path: Path) -> None:
    store = open_store(small.make_store(tmp_path / "store"))
    found = split_data(store, "1", {4, 8})
    right = {4: 0, 8: 0}
    aligned, n_frames, errors = 0, 0, []
    for name in store.split("1", "test"):
        record = store.record(name)
        assert record.transcript is not None
        assert record.lengths is not None
        truth = Segmentation.of(record.transcript, record.lengths)
        labels = truth.to_frame_labels()
        n_frames += len(labels)
        equal = equal_lengths(record.transcript, len(labels))
        aligned += int((equal.to_frame_labels() == labels).sum())
        errors += np.abs(np.cumsum(equal.lengths)[:-1] - np.cumsum(truth.lengths)[:-1]).tolist()
        for factor in right:
            n_latent = len(labels) // factor
            latent = [t * n_latent // len(labels) for t in range(len(labels))]
            for cell in range(n_latent):
                inside = [label for label, where in zip(labels.tolist(), latent, strict=True) if where == cell]
                right[factor] += max(inside.count(label) for label in inside)
    assert found.ceilings == {str(factor): pytest.approx(count / n_frames) for factor, count in right.items()}
    assert found.blind_alignment["mof"] == pytest.approx(aligned / n_frames)
    assert found.blind_alignment["boundary_error_by_index_frames"] == pytest.approx(np.mean(errors))
    assert found.blind["boundary_error_frames"] > 0
    assert not any(name.endswith("_seconds") for name in found.blind), "the store does not say its frames a second"


def test_boundary_errors_of_the_baselines_are_in_seconds_too_where_the_store_knows_them(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store", dim=1, dtype="float32", vocabulary=("a", "b"), fps=10.0) as writer:
        for i, part in enumerate(("1:train", "1:test")):
            features = np.zeros((20, 1), dtype=np.float32)
            writer.add(f"v{i}", features, transcript=[0, 1], lengths=[4, 16], splits=(part,))
    found = split_data(open_store(tmp_path / "store"), "1")
    assert found.blind["boundary_error_frames"] == pytest.approx(6)
    assert found.blind["boundary_error_seconds"] == pytest.approx(0.6)
    assert found.blind_alignment["boundary_error_by_index_seconds"] == pytest.approx(0.6)


def test_several_splits_rank_the_rows_and_say_which_are_not_told_apart(tmp_path: Path) -> None:
    advantages = {"a": 0.0, "b": 0.2, "c": 0.1}
    _, table = planted(tmp_path, advantages, splits=("1", "2", "3", "4"), n_seeds=2, noise=0.001)
    (note,) = [note for note in table.notes if note.startswith("mean ranks over 4 splits in MoF")]
    assert (
        "'b' 1.00, 'c' 2.00, 'a' 3.00; critical difference 1.66 (Nemenyi), not told apart: 'b' = 'c'; 'c' = 'a'" in note
    )


def test_one_split_or_two_rows_are_not_ranked(tmp_path: Path) -> None:
    _, one_split = planted(tmp_path / "a", {"a": 0.0, "b": 0.2, "c": 0.1})
    _, two_rows = planted(tmp_path / "b", {"a": 0.0, "b": 0.2}, splits=("1", "2", "3"))
    assert not [note for table in (one_split, two_rows) for note in table.notes if note.startswith("mean ranks")]


def test_too_few_splits_are_ranked_without_a_claim(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.2, "c": 0.1}, splits=("1", "2"), n_seeds=2)
    (note,) = [note for note in table.notes if note.startswith("mean ranks over 2 splits")]
    assert "which differ is not known: one value on each split, 2 in all, is too few" in note
