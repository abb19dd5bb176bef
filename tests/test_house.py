"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mucon import checkpoint as checkpoints
from tests.helpers.factories import small_videos
from tests.mucon.inference.test_predictions import checkpoint

ROOT = Path(__file__).parents[1]
PACKAGES = ("mucon", "storage", "sweeps")
SERVICES = ("ray", "mlflow", "optuna", "pyarrow")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


MODULES_OF_A_ROOM = 16
MODULES_OF_THE_ROOT = {"mucon": 20, "sweeps": 24}
"""The root of the library has room for the field's vocabulary, and the root of the sweeps for its experiments."""
FILES_WITH_PLAN = 24
"""A tenth of the files of the service."""


def python(code: str, *arguments: str) -> str:
    """Runs code in a fresh process that imports from the repository, and returns its output."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_script_is_named_like_a_module_that_python_can_import():
    """`python sweeps/x.py` puts `sweeps/` first on the path: a `statistics.py` there would break mlflow and torch."""
    ours = set(PACKAGES)
    known = set(sys.stdlib_module_names) | set(importlib.metadata.packages_distributions()) - ours
    folders = [ROOT / name for name in ("sweeps", "benchmarks") if (ROOT / name).is_dir()]
    assert ROOT / "sweeps" in folders
    taken = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in folder.iterdir()
        if path.suffix == ".py" or path.is_dir()
        if path.stem in known and not path.name.startswith("__")
    }
    assert not taken


def test_an_experiment_is_a_value_and_a_main_line():
    for path in sorted((ROOT / "sweeps").glob("*.py")):
        if path.name.startswith("__"):
            continue
        defined = [
            node.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        ]
        assert not defined, f"{path.name} defines {defined}"


def test_no_file_and_no_function_is_too_long():
    """At most 400 lines a file, and 60 a function besides its docstring."""
    problems = []
    for path in SOURCES:
        text = path.read_text()
        if len(text.splitlines()) > 400:
            problems.append(f"{path.relative_to(ROOT)}: {len(text.splitlines())} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = node.body[0]
                documented = ast.get_docstring(node) is not None
                length = node.end_lineno - node.lineno + 1 - documented * (first.end_lineno - first.lineno + 1)
                if length > 60:
                    problems.append(f"{path.relative_to(ROOT)}: {node.name} has {length} lines")
    assert len(SOURCES) > 40
    assert not problems


def test_no_room_has_too_many_modules():
    """A folder with more modules than a person can survey needs rooms of its own."""
    crowded = {}
    for folder in {path.parent for path in SOURCES}:
        room = str(folder.relative_to(ROOT))
        modules = [path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")]
        if len(modules) > MODULES_OF_THE_ROOT.get(room, MODULES_OF_A_ROOM):
            crowded[room] = len(modules)
    assert not crowded


def test_a_plan_and_its_standing_enter_few_files_of_the_service():
    """A value that most files receive is no interface: what they need of it can be passed instead."""
    files = []
    for path in (ROOT / "sweeps" / "service").rglob("*.py"):
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Name, ast.Attribute, ast.alias)):
                names.add(getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None))
        if names & {"Plan", "Standing"}:
            files.append(str(path.relative_to(ROOT)))
    assert "sweeps/service/driver.py" in files
    assert len(files) <= FILES_WITH_PLAN, sorted(files)


def test_the_packages_import_each_other_in_one_direction():
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        pytest.skip("import-linter is not installed (pip install -e '.[dev]')")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_library_starts_without_what_only_some_of_it_needs():
    modules = ("mucon", "mucon.training.loop", "mucon.evaluation", "mucon.recipes", "mucon.videos", "mucon.cli")
    code = f"import sys\nfor name in {modules}: __import__(name)\nprint(*sys.modules)"
    loaded = set(python(code).split())
    assert {"torch", *modules} <= loaded
    assert not loaded & {*SERVICES, "numba", "matplotlib", "scipy"}


START = """
import sys
from sweeps.service.cli import main
experiment, words = sys.argv[1], sys.argv[2:]
if experiment:
    experiment = __import__(f"sweeps.{experiment}", fromlist=["EXPERIMENT"]).EXPERIMENT
try:
    status = main(experiment or None, words)
except SystemExit as end:
    status = end.code
print()
print(status, *sys.modules)
"""


@pytest.mark.parametrize(
    ("status", "experiment", "words"),
    [
        (0, "", ["--help"]),
        (0, "", ["run", "--help"]),
        (2, "", ["lst"]),
        (2, "", ["report", "--result", "results", "a", "b"]),
        (2, "", ["run", "ablation_mask"]),
        (0, "", ["run", "ablation_masks", "--help"]),
        (0, "ablation_masks", ["--help"]),
        (0, "qualitative", ["--help"]),
        (2, "comparison", ["--sed", "3"]),
    ],
)
def test_a_sweeps_command_line_starts_without_what_only_a_run_needs(status: int, experiment: str, words: list[str]):
    ended, *loaded = python(START, experiment, *words).splitlines()[-1].split()
    assert int(ended) == status
    heavy = {*SERVICES, "torch", "numba", "scipy", "matplotlib", "yaml", "rich"}
    has_experiment = experiment or words[:2] == ["run", "ablation_masks"]
    assert not heavy & set(loaded)
    assert has_experiment or "numpy" not in loaded


PREDICT_WITHOUT_SERVICES = f"""
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {SERVICES}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

sys.meta_path.insert(0, Missing())
import numpy
from pathlib import Path
from mucon import checkpoint, inference
from mucon.videos import Video
found = checkpoint.load(Path(sys.argv[1]))
video = Video.from_arrays("v", numpy.load(sys.argv[2]))
for name, segmentation in inference.predict(found, video.features()).segmentations.items():
    print(name, *segmentation.to_frame_labels())
try:
    import pyarrow
except ModuleNotFoundError:
    print("pyarrow is missing")
"""


def test_a_model_loads_and_predicts_where_the_services_are_not_installed(tmp_path: Path):
    video, trained = small_videos(1)[0], checkpoint(end=-1e3)
    checkpoints.save(tmp_path / "checkpoint", trained)
    np.save(tmp_path / "features.npy", video.read())
    *lines, last = python(
        PREDICT_WITHOUT_SERVICES, str(tmp_path / "checkpoint"), str(tmp_path / "features.npy")
    ).splitlines()
    assert last == "pyarrow is missing"
    assert [line.split()[0] for line in lines] == ["frames", "segments", "full"]
    assert {len(line.split()) - 1 for line in lines} == {video.n_frames}


def test_nothing_unpickles():
    """Weights are safetensors; numpy never unpickles; pickle.load is not used, torch.load once and for tensors only."""
    loads = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("pickle.load", "pickle.loads", "pickle.Unpickler"), path
                if called == "torch.load":
                    loads.append(path.relative_to(ROOT))
                    assert [ast.unparse(k.value) for k in node.keywords if k.arg == "weights_only"] == ["True"], path
                allowed = [k for k in node.keywords if k.arg == "allow_pickle"]
                assert all(ast.unparse(k.value) == "False" for k in allowed), path
    assert loads == [Path("mucon/methods/published_weights.py")]


BANNED = re.compile(r"\b(told|tells|anew|of one's own|the commonest|shall|nought)\b|that is none|\bis none (?:in|of)\b")


def test_words_of_the_old_style_are_gone() -> None:
    """See the style section of CONTRIBUTING.md, which alone quotes them."""
    texts = [*SOURCES, ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "storage").glob("*.md")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BANNED.search(line)
    ]
    assert not found


def is_sentence(text: str) -> bool:
    """At least five words with spaces between them, in one line."""
    return len(re.findall(r"(?<![\w.-])[A-Za-z]{2,}(?![\w-])", text)) >= 5 and "\n" not in text.strip()


def test_at_most_ten_assertions_compare_a_sentence() -> None:
    """Tests assert rule, place and value of a problem; its sentence may change."""
    sentences = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            compared = (
                [node.test]
                if isinstance(node, ast.Assert)
                else [node.value]
                if isinstance(node, ast.keyword) and node.arg == "match"
                else []
            )
            sentences += [
                f"{path.relative_to(ROOT)}:{one.lineno}: {one.value}"
                for root in compared
                for one in ast.walk(root)
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and is_sentence(one.value)
            ]
    assert len(sentences) <= 10, sentences
