"""Planted differences: bold rows, p values of the tests, and rows that too few seeds cannot tell apart."""

import csv
import io
import itertools
import re
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
from sweeps.service.stats.significance import SEEDS_NOTE, WELCH, Outcome, holm
from sweeps.service.tables.baselines import BLIND, BLIND_ALIGNMENT
from sweeps.service.tables.latex import latex
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.table import Seeds, Table
from sweeps.service.tables.text import comma_separated, markdown
from sweeps.service.trials.folder import State
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.sweeps import small
from tests.sweeps.stats.test_comparisons import REAL

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
    n_videos: int = 12,
    videos_differ: bool = True,
    default: str | None = "a",
    unfinished: Mapping[tuple[str, str, int], Unfinished] | None = None,
) -> tuple[Plan, Table]:
    """A sweep whose rows have 0.5 + their advantage, with noise for each seed and split."""
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
        n_videos=n_videos,
        videos_differ=videos_differ,
        unfinished=unfinished,
    )
    return plan, Standing.of(plan).tables["planted"]


def same(row: str, split: str, seed: int, prediction: str) -> float:
    """The same for all rows whose names have the same length."""
    return 0.5 + 0.01 * seed + 0.001 * int(split) + 0.0001 * len(row + prediction)


def bold(table: Table, column: int) -> list[str]:
    return [row.labels[0] for row in table.rows if row.bold[column]]


def against_best(table: Table, column: int) -> dict[str, Outcome]:
    """Row -> its test against the best row of a column."""
    pairs = [(row.name, row.against_best[column]) for row in table.rows]
    return {name: outcome for name, outcome in pairs if outcome is not None}


@pytest.mark.parametrize(("splits", "n_seeds"), [(("1",), 5), (("1", "2", "3", "4"), 5)])
def test_rows_that_differ_by_more_than_noise_are_bold_only_where_they_are_best(
    tmp_path: Path, splits: tuple[str, ...], n_seeds: int
) -> None:
    advantages = {"a": 0.0, "b": 0.2, "c": 0.2, "d": 0.1}
    _, table = planted(tmp_path, advantages, splits=splits, n_seeds=n_seeds, videos_differ=False)
    assert bold(table, 0) == ["b", "c"]
    assert bold(table, 1) == ["b", "c"], "fewer frames of boundary error are better"
    assert "**" in next(line for line in markdown(table).splitlines() if line.startswith("| b |"))
    assert all("**" not in line for line in markdown(table).splitlines() if line.startswith(("| a |", "| d |")))
    assert {outcome.test for outcome in against_best(table, 0).values()} == {WELCH}
    meaning, scope = table.notes.statistics
    assert meaning.startswith("bold in every score: ")
    assert WELCH in meaning
    assert scope == SEEDS_NOTE
    (differences,) = table.notes.differences
    for row, name in ((1, "b"), (2, "c"), (3, "d")):
        pair = table.rows[row].against_default[0]
        assert pair is not None
        assert pair.seeds.significant
        assert f"{name!r} better ({pair.seeds.adjusted_p:.2g})" in differences


def test_where_nothing_differs_no_row_is_bold_and_none_differs_from_the_default(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.0, "c": 0.0}, n_seeds=8, videos_differ=False)
    assert bold(table, 0) == []
    pairs = [row.against_default[0] for row in table.rows[1:3]]
    assert not any(pair is None or pair.seeds.significant for pair in pairs)
    assert table.notes.statistics[0].startswith("no bold in every score: ")
    (differences,) = table.notes.differences
    assert ": none; " in differences


def test_times_are_neither_tested_nor_bold(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.1})
    assert bold(table, 2) == []
    assert [row.p_values[2] for row in table.rows] == [None, None, None, None]


@pytest.mark.parametrize("n_seeds", [1, 2, 4])
def test_fewer_than_five_seeds_give_no_bold_and_no_p_however_clear_the_videos_are(tmp_path: Path, n_seeds: int) -> None:
    """Each row has the same value in each of its videos, 20 points above the next row's."""
    plan, table = planted(tmp_path, {"a": 0.0, "b": 0.2, "c": 0.4}, n_seeds=n_seeds, noise=0.001, n_videos=60)
    assert not any(any(row.bold) for row in table.rows)
    assert {p for row in table.rows for p in row.p_values} == {None}
    (note,) = table.notes.statistics
    assert all(text in note for text in ("every score", f"{n_seeds} seed", "5 seeds"))
    assert table.notes.differences == ()
    lines = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert {line[name] for line in lines for name in line if ".p_" in name} == {""}
    assert {line[name] for line in lines for name in line if name.endswith(".bold")} == {"0"}
    assert "**" not in markdown(table).replace(f"**{table.title}**", "")
    assert "\\textbf" not in latex(table)
    assert len(plan.cells) == 3 * n_seeds


def test_no_table_of_two_seeds_of_one_real_configuration_claims_a_difference(tmp_path: Path) -> None:
    """Five real seeds in all 15 groupings of two against two."""
    with np.load(REAL) as arrays:
        mof, videos = arrays["scores"][:5, 0], arrays["mof_by_video"].shape[1]
    pairs = list(itertools.combinations(range(5), 2))
    groupings = [(a, b) for a, b in itertools.combinations(pairs, 2) if not {*a} & {*b}]
    assert len(groupings) == 15
    for i, grouping in enumerate(groupings):
        seeds = dict(zip("ab", grouping, strict=True))

        def score(row: str, split: str, seed: int, prediction: str, seeds: dict[str, tuple[int, ...]] = seeds) -> float:
            return float(mof[seeds[row][seed - 1]])

        plan = make_sweep(tmp_path / str(i), experiment("ab", "a"), score, n_seeds=2, n_videos=videos)
        table = Standing.of(plan).tables["planted"]
        assert not any(any(row.bold) for row in table.rows)
        assert {p for row in table.rows for p in row.p_values} == {None}
        assert table.notes.differences == ()


def test_p_values_are_those_of_the_tests_without_and_with_holm(tmp_path: Path) -> None:
    """With one split the paper's test is that of Kruskal and Wallis."""
    plan, table = planted(tmp_path, {"a": 0.0, "b": 0.015, "c": 0.1}, n_seeds=6)
    scores: dict[str, list[float]] = {"a": [], "b": [], "c": []}
    results = plan.read_results()
    for cell in plan.cells:
        scores[cell.variant.name].append(results[cell.key].scores["full"]["mof"])
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    tests = {
        "p_seeds": [float(stats.ttest_ind(scores["a"], scores[n], equal_var=False).pvalue) for n in "bc"],
        "p_paper": [float(stats.kruskal(scores["a"], scores[n]).pvalue) for n in "bc"],
    }
    for name, p in tests.items():
        assert rows[0][f"full.mof.{name}"] == ""
        assert [float(row[f"full.mof.{name}"]) for row in rows[1:3]] == pytest.approx(p)
        assert [float(row[f"full.mof.{name}_holm"]) for row in rows[1:3]] == pytest.approx(holm(p))
    assert [row.p_values[0] for row in table.rows[1:3]] == pytest.approx(holm(tests["p_seeds"]))
    summary = table.rows[1].summaries[0]
    assert summary is not None
    assert summary.interval is not None
    low, high = stats.t.interval(0.95, 5, loc=np.mean(scores["b"]), scale=stats.sem(scores["b"]))
    assert list(summary.interval) == [pytest.approx(low), pytest.approx(high)]


def test_a_row_whose_cells_have_no_value_is_neither_bold_nor_tested(tmp_path: Path) -> None:
    lost = {("b", "1", seed): Unfinished("diverged", "loss is inf") for seed in range(1, 6)}
    plan, table = planted(tmp_path, {"a": 0.0, "b": 0.3, "c": 0.0}, unfinished=lost)
    assert bold(table, 0) == []
    assert (table.rows[1].summaries[0], table.rows[1].seeds) == (None, Seeds(0, 5))
    assert table.rows[1].against_best == (None, None, None)
    lost_cells = [cell for cell in plan.cells if cell.variant.name == "b"]
    (note,) = table.notes.missing
    assert note.startswith("5 cells: diverged ")
    assert [f"{cell} (trials/{cell.identity})" in note for cell in lost_cells] == [True, True, True, False, False]
    assert "loss is inf" in note
    assert sum(result.state is State.DIVERGED for result in plan.read_results().values()) == 5


def test_one_row_alone_is_not_bold_and_has_no_notes_about_tests(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0})
    assert bold(table, 0) == []
    assert (table.notes.statistics, table.notes.ranking, table.notes.differences) == ((), (), ())
    assert len(table.notes.data) == 1


def test_without_a_default_row_rows_are_compared_with_the_best_only(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.2}, default=None)
    assert bold(table, 0) == ["b"]
    assert {row.p_values[0] for row in table.rows} == {None}
    assert all(pair is None for row in table.rows for pair in row.against_default)
    assert table.notes.differences == ()
    _, with_default = planted(tmp_path / "with_default", {"a": 0.0, "b": 0.2})
    extra = set(table.notes.statistics) - set(with_default.notes.statistics)
    assert [note.startswith("no default row") for note in extra] == [True]


def test_the_default_row_has_the_settings_of_the_base_and_preferably_shows_full() -> None:
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
    with pytest.raises(InputError) as refusal:
        Experiment(name="x", title="X", label_titles=("Row",), variants=rows, default_row="bel")
    assert "'bel'" in str(refusal.value)
    assert "'bell'" in str(refusal.value)


def test_rows_of_alignment_have_the_true_transcript_with_equal_lengths_as_baseline(tmp_path: Path) -> None:
    aligned = experiment("ab", "a", task="alignment")
    plan = make_sweep(tmp_path, aligned, same)
    table = Standing.of(plan).tables["planted"]
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
    assert [row.labels[0] for row in Standing.of(plan).tables["planted"].rows] == ["a", BLIND]


def test_baselines_and_ceilings_are_computed_from_the_lengths_in_the_store(tmp_path: Path) -> None:
    store = open_store(small.make_store(tmp_path / "store"))
    data = split_data(store, "1", poolings={4, 8})
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
    assert data.ceilings == {str(factor): pytest.approx(count / n_frames) for factor, count in right.items()}
    assert data.blind_alignment["mof"] == pytest.approx(aligned / n_frames)
    assert data.blind_alignment["boundary_error_by_index_frames"] == pytest.approx(np.mean(errors))
    assert data.blind["boundary_error_frames"] > 0
    assert not any(name.endswith("_seconds") for name in data.blind), "the store has no frame rate"


def test_boundary_errors_of_the_baselines_are_also_in_seconds_if_the_store_has_a_frame_rate(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store", dim=1, dtype="float32", vocabulary=("a", "b"), fps=10.0) as writer:
        for i, part in enumerate(("1:train", "1:test")):
            features = np.zeros((20, 1), dtype=np.float32)
            writer.add(f"v{i}", features, transcript=[0, 1], lengths=[4, 16], splits=(part,))
    data = split_data(open_store(tmp_path / "store"), "1")
    assert data.blind["boundary_error_frames"] == pytest.approx(6)
    assert data.blind["boundary_error_seconds"] == pytest.approx(0.6)
    assert data.blind_alignment["boundary_error_by_index_seconds"] == pytest.approx(0.6)


def test_several_splits_rank_the_rows_with_groups_that_do_not_differ(tmp_path: Path) -> None:
    advantages = {"a": 0.0, "b": 0.2, "c": 0.1}
    _, table = planted(tmp_path, advantages, splits=("1", "2", "3", "4"), n_seeds=2, noise=0.001)
    (note,) = table.notes.ranking
    assert re.findall(r"'\w'|\d+(?:\.\d+)?", note) == [
        *("4", "'b'", "1.00", "'c'", "2.00", "'a'", "3.00"),
        *("1.66", "'b'", "'c'", "'c'", "'a'"),
    ]
    assert note.endswith("'b' = 'c'; 'c' = 'a'")


def test_one_split_or_two_rows_are_not_ranked(tmp_path: Path) -> None:
    _, one_split = planted(tmp_path / "a", {"a": 0.0, "b": 0.2, "c": 0.1})
    _, two_rows = planted(tmp_path / "b", {"a": 0.0, "b": 0.2}, splits=("1", "2", "3"))
    assert (one_split.notes.ranking, two_rows.notes.ranking) == ((), ())


def test_too_few_splits_are_ranked_without_a_claim(tmp_path: Path) -> None:
    _, table = planted(tmp_path, {"a": 0.0, "b": 0.2, "c": 0.1}, splits=("1", "2"), n_seeds=2)
    (note,) = table.notes.ranking
    assert "'b' 1.00, 'c' 2.00, 'a' 3.00" in note
    assert all(text in note for text in ("2 splits", "0.135", "3 splits"))
    assert "Nemenyi" not in note


def test_notes_are_listed_by_kind(tmp_path: Path) -> None:
    lost = {("b", "1", 1): Unfinished("failed", "no cake")}
    _, table = planted(tmp_path, {"a": -0.4, "b": 0.2, "c": 0.1}, splits=("1", "2", "3"), n_seeds=6, unfinished=lost)
    notes = table.notes
    about = (notes.data, notes.baselines, notes.statistics, notes.seeds, notes.ranking)
    kinds = (*about, notes.differences, notes.missing)
    assert all(kinds)
    assert list(notes) == [note for kind in kinds for note in kind]
    assert notes.about == tuple(note for kind in about for note in kind)
