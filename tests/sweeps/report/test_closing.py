"""What a sweep prints at its end: the best row, where the report is, commands, and the notes last."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from sweeps.service.plan.sweep_folder import Links, write_links
from sweeps.service.report.report import present
from sweeps.service.tables.standing import Standing
from tests.helpers.planted_pages import planted_page

SERVE = "mlflow server --host 127.0.0.1 --port 5000 --backend-store-uri sqlite:////data/results/of/a/lab/mlflow.db"
RUNS = "http://127.0.0.1:5000/#/experiments/1/runs?workflowType=machine_learning"


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Standing:
    plan = planted_page(tmp_path_factory.mktemp("closing"))
    write_links(plan.folder, Links(sweep=f"{RUNS}/parent", runs=RUNS, serve=SERVE))
    return Standing.of(plan)


def printed(standing: Standing, *, terminal: bool) -> str:
    """What `present` prints below the table, without control codes."""
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None)
    present(standing, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return re.sub(r"\x1b\[[0-9;]*m", "", text).rpartition("┘\n")[2]


def test_the_end_of_a_sweep_names_the_best_row_first_and_the_notes_last(standing: Standing) -> None:
    lines = printed(standing, terminal=False).splitlines()
    folder = standing.plan.folder
    page = folder / "planted_page.html"
    (best, shown_or_not, choice, report, *rest) = lines
    assert shown_or_not.split()[:3] == ["no", "difference", "shown"]
    row, trial = best.split("; ")
    assert row.split() == ["best", "mean:", "hundred,", "MoF", "99.6±0.1", "(2", "seeds)"]
    assert trial.startswith("best trial: ")
    assert choice.split()[:2] == ["choice:", "the"]
    assert report.split() == ["report:", str(page)]
    assert page.exists()
    heads = [line.strip().partition(":")[0] for line in rest]
    order = [heads.index(head) for head in ("figures", "LaTeX", "MLflow", "start", "best trial", "evaluate", "predict")]
    assert order == sorted(order)
    shown = dict(line.strip().split(maxsplit=1) for line in rest[: order[-1]] if len(line.split()) > 1)
    assert (shown["MLflow:"], shown["start:"]) == (RUNS, SERVE)
    for head, suffix in (("figures:", "png"), ("LaTeX:", "tex")):
        assert Path(shown[head]) == folder / f"planted_page.{suffix}"
        assert Path(shown[head]).exists()
    (table,) = standing.tables.values()
    assert lines[-len([*table.notes.about, *table.notes.missing]) :] == [*table.notes.about, *table.notes.missing]


def test_on_a_terminal_lines_end_between_words_and_commands_continue_after_a_backslash(standing: Standing) -> None:
    plain, wrapped = (printed(standing, terminal=terminal) for terminal in (False, True))
    assert wrapped.replace("\\\n", " ").split() == plain.split(), "no word is cut"
    for line in wrapped.splitlines():
        assert len(line) <= 80 or " " not in line.partition(": ")[2].strip() or "'" in line
    command = re.search(r"start:(.*?)\nbest trial", wrapped, re.DOTALL)
    assert command is not None
    assert " ".join(command[1].replace("\\\n", " ").split()) == SERVE
