"""A sweep as one Parquet file: its tables come back to the last digit, and a bad file is refused."""

from __future__ import annotations

import io
import json
import math
import resource
import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from sweeps.service.cli import main, parser
from sweeps.service.commands.exchange import export_results
from sweeps.service.exchange import writing
from sweeps.service.exchange.layout import CONTENT_KEY, DIGEST_KEY, digest_of
from sweeps.service.exchange.rebuilt import rebuild
from sweeps.service.exchange.writing import shared_plan
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.report.search.findings import Findings
from sweeps.service.search.points import read_history, write_history
from sweeps.service.spec.seeds import SeedRule
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.text import for_terminal
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_pages import EXPERIMENT, MOF, planted_page
from tests.helpers.planted_sweeps import EVALUATION, PREDICTIONS, make_sweep
from tests.helpers.refusals import refused
from tests.helpers.trial_folders import append_epoch
from tests.sweeps.conftest import Finished
from tests.sweeps.search.test_points import HISTORY
from tests.test_docs import code_blocks

PAGE = Path(__file__).parents[3] / "docs" / "results-file.md"


@dataclass(frozen=True)
class Exported:
    """A sweep that was exported and whose results folder is gone.

    Attributes:
        file: the results file.
        reported: file name -> content of the report in the results folder.
        printed: its tables on a terminal.
        again: content of a second export.
    """

    file: Path
    reported: dict[str, bytes]
    printed: str
    again: bytes


def call(*words: object) -> int:
    """Runs a command and lets its errors pass, for `with refused(...)`."""
    options = parser().parse(list(map(str, words)))
    status: int = options.run(options)
    return status


def on_terminal(standing: Standing) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    for table in standing.tables.values():
        console.print(for_terminal(table, console))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("exported")
    results = ResultsFolder.at(folder / "results")
    plan = planted_page(results.path)
    for cell in plan.cells:
        trial = results.trial(cell.identity)
        if trial.result_path(EVALUATION).exists():
            segments = {"transcript": ["rest", "pour"], "lengths": [60, 40]}
            for name in PREDICTIONS:
                trial.write_predictions(EVALUATION, name, {f"video-{i:02}": segments for i in range(12)})
        config = {"loss": {"smoothing": 0.1}, "training": {"warm_start": str(Path.home() / "models" / "first")}}
        trial.trial_path.unlink()
        trial.write_trial({"config": {**config, "mask": {"shape": "box"}, "seed": cell.seed}})
    assert call("report", plan.name, "--results", results.path) == 0
    standing = Standing.of(read_plan(results, plan.name))
    files = [folder / "first.parquet", folder / "second.parquet"]
    for file in files:
        assert call("export-results", plan.name, "--to", file, "--results", results.path) == 0
    reported = {path.name: path.read_bytes() for path in plan.folder.iterdir() if path.is_file()}
    shutil.rmtree(results.path)
    return Exported(files[0], reported, on_terminal(standing), files[1].read_bytes())


def test_tables_and_figures_come_back_to_the_last_byte_from_the_file_alone(exported: Exported, tmp_path: Path) -> None:
    assert call("report", "--from", exported.file, "--out", tmp_path / "out") == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert {Path(name).suffix for name in written} == {".md", ".csv", ".tex", ".parquet", ".png", ".svg", ".json"}
    assert written == {name: exported.reported[name] for name in written}
    assert on_terminal(rebuild(exported.file, with_figures=False).standing) == exported.printed


def test_the_examples_of_the_docs_run_on_the_file(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copyfile(exported.file, tmp_path / "ablation_masks.parquet")
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    (queries,) = code_blocks(page, "sql")
    for query in queries.split(";")[:-1]:
        assert duckdb.sql(query).fetchall(), query
    best = duckdb.sql(queries.partition(";")[0]).fetchall()[0]
    assert best == ("hundred", 2, 99.6)
    examples = code_blocks(page, "python")
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, "example", "exec"), {})
        assert capsys.readouterr().out


def test_equal_results_give_equal_bytes_and_no_place_of_this_machine(exported: Exported) -> None:
    content = exported.file.read_bytes()
    assert content == exported.again
    file = pq.ParquetFile(exported.file)
    plan = shared_plan(
        {"store": "/data/tug", "tables": [{"rows": [{"settings": {"a": str(Path.home())}}], "settings": []}]}
    )
    assert plan == {"store": "tug", "tables": [{"rows": [{"settings": {"a": "~"}}], "settings": []}]}
    texts = [str(row) for row in file.read().to_pylist()] + [file.metadata.metadata[CONTENT_KEY].decode()]
    assert not [text for text in texts if str(Path.home()) in text or str(exported.file.parent) in text]
    assert any("~/models/first" in text for text in texts)


def test_settings_and_provenance_are_typed_columns(exported: Exported) -> None:
    table = pq.read_table(exported.file, filters=[("kind", "=", "trials")])
    types = {name: str(table.schema.field(name).type) for name in table.schema.names}
    assert types["config.loss.smoothing"] == "double"
    assert types["config.mask.shape"] == "string"
    assert types["labels"] == "list<element: string>"
    rows = table.to_pylist()
    assert {(row["state"], row["reason"] is None) for row in rows} >= {("finished", True), ("failed", False)}
    finished = next(row for row in rows if row["state"] == "finished")
    assert finished["host"]
    assert finished["version.torch"]
    assert finished["epochs"] == 4
    videos = pq.read_table(exported.file, filters=[("kind", "=", "videos")]).to_pylist()
    assert videos[0]["full.runs"] == [
        {"action": "rest", "start": 0, "length": 60},
        {"action": "pour", "start": 60, "length": 40},
    ]


def test_every_field_of_a_result_that_tables_use_is_in_the_file() -> None:
    """A new field needs a column, or a reason why tables do not use it."""
    in_file = {"state", "reason", "scores", "undefined", "n_videos"}
    unused = {"failed_code", "stamp", "attempt"}
    assert {field.name for field in fields(CellResult)} == in_file | unused


def forged(source: Path, target: Path, change: Callable[[dict[str, Any]], object] = dict, drop: str = "") -> Path:
    """A copy of a results file with another document and the digest that belongs to it."""
    with pq.ParquetFile(source) as file:
        content = json.loads(file.metadata.metadata[CONTENT_KEY])
        change(content)
        whole = json.dumps(content).encode()
        names = [name for name in file.schema_arrow.names if name != drop]
        schema = pa.schema([file.schema_arrow.field(name) for name in names])
        with target.open("w+b") as out, pq.ParquetWriter(out, schema) as writer:
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group, columns=names))
            end = out.tell()
            digest = digest_of(out, end, whole)
            out.seek(end)
            writer.add_key_value_metadata({CONTENT_KEY: whole, DIGEST_KEY: digest.encode()})
    return target


def test_a_copy_with_a_right_digest_is_read(exported: Exported, tmp_path: Path) -> None:
    copy = forged(exported.file, tmp_path / "copy.parquet")
    assert on_terminal(rebuild(copy, with_figures=True).standing) == exported.printed


def _table(content: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = content["plan"]["tables"][0]
    return table


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("version", lambda content: content.update(format_version=2)),
        ("version", lambda content: content["plan"].update(format_version=3)),
        ("damaged", lambda content: content.pop("plan")),
        ("damaged", lambda content: content["plan"].update(name="../../outside")),
        ("damaged", lambda content: _table(content).update(name="../outside")),
        ("damaged", lambda content: _table(content).update(name="/tmp/outside")),
        ("damaged", lambda content: content["plan"].update(store=["x"])),
        ("damaged", lambda content: content["plan"].update(splits={})),
        ("damaged", lambda content: content["plan"]["splits"]["1"].update(blind={"mof": "high"})),
        ("damaged", lambda content: content["plan"]["splits"]["1"].update(n_more=1)),
        ("damaged", lambda content: _table(content)["cells"].pop()),
        ("damaged", lambda content: _table(content)["cells"][0].__setitem__(0, -1)),
        ("damaged", lambda content: _table(content)["cells"][0].__setitem__(2, "1")),
        ("damaged", lambda content: _table(content)["columns"][0].update(unit="miles")),
        ("damaged", lambda content: _table(content)["columns"][0].update(metric=["mof"])),
        ("damaged", lambda content: _table(content)["rows"][0].update(labels=["\x1b[31m"])),
        ("damaged", lambda content: content["rows"].update(videos=0)),
        ("damaged", lambda content: content["imported"].append({"table": 1})),
    ],
)
def test_a_hostile_file_is_one_error_and_writes_nothing(
    exported: Exported, tmp_path: Path, rule: str, change: Callable[[dict[str, Any]], object]
) -> None:
    file = forged(exported.file, tmp_path / "hostile.parquet", change)
    with refused(rule, str(file), n=1):
        call("report", "--from", file, "--out", tmp_path / "in" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.parquet"]


@pytest.mark.parametrize("column", ["kind", "state", "undefined", "identity"])
def test_a_file_without_a_column_that_tables_need_is_refused(exported: Exported, tmp_path: Path, column: str) -> None:
    file = forged(exported.file, tmp_path / "hostile.parquet", drop=column)
    with refused("damaged", str(file), n=1) as refusal:
        call("report", "--from", file)
    assert column in str(refusal.values[0])


def test_a_damaged_file_is_one_error(exported: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, file = exported.file.read_bytes(), tmp_path / "file.parquet"
    for damage in (content[:-9], content[: len(content) // 2], b"", content[:400] + b"?" + content[401:], b"PAR1" * 9):
        file.write_bytes(damage)
        with refused("damaged", str(file), n=1):
            call("report", "--from", file)
    with refused("missing", "none.parquet", n=1):
        call("report", "--from", tmp_path / "none.parquet")
    with refused("unreadable", str(tmp_path), n=1):
        call("report", "--from", tmp_path)
    pq.write_table(pa.table({"kind": ["trials"]}), file)
    with refused("type", str(file), "metadata", n=1):
        call("report", "--from", file)
    assert main(None, ["report", "--from", str(file)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_options_that_exclude_each_other_are_refused(exported: Exported, tmp_path: Path) -> None:
    for words, place in (
        ([], "--from"),
        (["masks", "--from", exported.file], "--from"),
        (["masks", "--out", tmp_path / "out"], "--out"),
    ):
        with refused("conflict", place, n=1):
            call("report", *words)
    with refused("type", "--to"):
        call("export-results", "masks", "--to", tmp_path / "masks.csv")


@pytest.fixture
def light(tmp_path: Path) -> Plan:
    """A sweep without figures and predictions; its journals have 8 metrics of 4 epochs."""
    plan = make_sweep(tmp_path / "results", EXPERIMENT, lambda row, _, seed, __: MOF[row] + 0.002 * seed, n_seeds=2)
    for cell in plan.cells:
        for step in range(1, 5):
            append_epoch(plan.results.trial(cell.identity).path, step, cell.seed)
    return plan


def test_a_damaged_trial_is_left_out_and_named(light: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    trial = light.results.trial(light.cells[0].identity)
    trial.journal_path.write_text('{"kind": 1}\n')
    file = light.results.path / "sweep.parquet"
    line = ["export-results", light.name, "--to", str(file), "--results", str(light.results.path), "--json"]
    assert main(None, line) == 3
    printed = json.loads(capsys.readouterr().out)
    assert [line for line in printed["left_out"] if str(trial.journal_path) in line]
    standing = rebuild(file, with_figures=True).standing
    assert on_terminal(standing) == on_terminal(Standing.of(light))
    assert "journal.jsonl" in "".join(standing.tables[light.name].notes.missing)


@pytest.mark.parametrize("of", [{"seed_rule": SeedRule(least=2, most=2)}, {"part": "validation"}])
def test_tables_of_every_kind_of_plan_come_back(light: Plan, of: dict[str, Any]) -> None:
    plan = replace(light, **of)
    plan.write()
    file = light.results.path / "sweep.parquet"
    assert call("export-results", plan.name, "--to", file, "--results", plan.results.path) == 3
    (found,) = rebuild(file, with_figures=False).standing.tables.values()
    (table,) = Standing.of(plan).tables.values()
    assert found == table
    assert found != Standing.of(light).tables[light.name]


def test_the_points_of_a_search_are_in_the_file_and_printed_from_it(
    light: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_history(light.folder, HISTORY)
    file = tmp_path / "search.parquet"
    assert call("export-results", light.name, "--to", file, "--results", light.results.path) == 3
    assert list(rebuild(file, with_figures=False).write(tmp_path / "out"))[-1].name == "search.json"
    assert read_history(tmp_path / "out") == HISTORY
    assert main(arguments=["report", "--from", str(file)]) == 0
    printed = capsys.readouterr().out
    assert f"search: {Findings(history=HISTORY).progress}" in printed
    assert all(f"fresh:    point {number}, " in printed for number in HISTORY.fresh)
    hostile = forged(file, tmp_path / "hostile.parquet", lambda content: content["search"].update(points=[1]))
    with refused("damaged", str(hostile), n=1):
        rebuild(hostile, with_figures=False)


def test_a_disk_without_room_leaves_the_earlier_file_and_nothing_else(light: Plan, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "sweep.parquet"
    file.write_bytes(b"earlier")
    tables = {part.experiment.name: (part.experiment, part.cells) for part in light.parts}
    results = light.read_results()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, hard))
    try:
        with refused("unwritable", str(file), n=1):
            writing.write_results(file, {"plan": light.to_dict()}, light.name, tables, results, light.results.reading)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(path.name, path.read_bytes()) for path in file.parent.iterdir()] == [("sweep.parquet", b"earlier")]


def test_few_trials_are_in_memory_while_a_sweep_is_written(light: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    original = (writing._write_group, ResultsFolder.reading)

    def write(writer: Any, schema: Any, kind: str, columns: Any) -> int:
        steps.append(kind)
        return original[0](writer, schema, kind, columns)

    def read(results: ResultsFolder, identity: str) -> TrialReading:
        steps.append("read")
        return original[1](results, identity)

    monkeypatch.setattr(export_results, "READINGS", 1)
    monkeypatch.setattr(writing, "METRICS_PER_GROUP", 40)
    monkeypatch.setattr(writing, "VIDEOS_PER_GROUP", 24)
    monkeypatch.setattr(writing, "_write_group", write)
    monkeypatch.setattr(ResultsFolder, "reading", read)
    file = light.results.path / "sweep.parquet"
    call("export-results", light.name, "--to", file, "--results", light.results.path)
    for kind in ("metrics", "videos"):
        assert "read" in steps[steps.index(kind) : len(steps) - steps[::-1].index(kind)]
    assert on_terminal(rebuild(file, with_figures=True).standing) == on_terminal(Standing.of(light))


def test_a_sweep_that_was_trained_comes_back_from_its_file_without_results_and_store(
    finished_sweep: Finished, tmp_path: Path
) -> None:
    results, file = tmp_path / "results", tmp_path / "masks.parquet"
    shutil.copytree(finished_sweep.results, results)
    assert call("export-results", "ablation_masks", "--to", file, "--results", results) == 0
    shutil.rmtree(results)
    assert call("report", "--from", file, "--out", tmp_path / "out") == 0
    reported = finished_sweep.results / "sweeps" / "ablation_masks"
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.name != "figures.json"}
    assert len(written) == 8
    assert written == {name: (reported / name).read_bytes() for name in written}
    videos = pq.read_table(file, filters=[("kind", "=", "videos")]).to_pylist()
    assert {sum(run["length"] for run in video["full.runs"]) - video["n_frames"] for video in videos} == {0}
    by_trial: dict[str, list[float]] = {}
    for video in videos:
        by_trial.setdefault(video["identity"], []).append(video["full.matching_score"])
    trials = pq.read_table(file, filters=[("kind", "=", "trials")]).to_pylist()
    for trial in trials:
        assert math.isclose(trial["full.matching_score"], statistics.fmean(by_trial[trial["identity"]]))
        assert (trial["config.training.epochs"], trial["config.backbone.pool_after"]) == (3, [1, 2])
        assert trial["started"] <= trial["ended"]
