"""Services that tests share: each starts once per run, for the first test that needs it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.services import MLflowServer, PostgreSQL
from tests.sweeps import small

# these tests run several processes in parallel; more threads than cores would slow them down
os.environ.setdefault("OMP_NUM_THREADS", "1")
# a sweep of one test does not wait for the cores of another's, which may hang on purpose
os.environ["MUCON_CORES"] = tempfile.mkdtemp(prefix="mucon-cores-")
# on a busy machine a slow example is no failure
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure() -> None:
    """SIGTERM ends the services of a run as Ctrl-C does.

    Also restores SIGINT for the processes that tests start: a shell's background job ignores it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["MUCON_CORES"], ignore_errors=True)


SHARED = {
    "finished_sweep": "sweep",
    "postgresql": "mlflow",
    "mlflow_server": "mlflow",
    "empty_mlflow_database": "mlflow",
}
"""Fixtures that take long to make -> group of the tests that use them."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No search for garbage while the tests are collected, whose objects stay: it took a third of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# xdist 3.8 ignores groups with pytest 9.2 (pytest-xdist issue 1386): services are then started in each process.
@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the test processes one has all tests with the same shared service, so that it is started once."""
    for item in items:
        group = next((group for name, group in SHARED.items() if name in getattr(item, "fixturenames", ())), None)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL server with an empty database for MLflow."""
    server = PostgreSQL()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def mlflow_server(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MLflowServer]:
    """An MLflow server on the PostgreSQL server."""
    server = MLflowServer(postgresql.uri, tmp_path_factory.mktemp("mlflow-server"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def empty_mlflow_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite database with MLflow's tables; tests copy it, because creating it takes seconds."""
    from sweeps.service.track.server import set_environment

    set_environment()
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow-database") / "mlflow.db"
    uri = f"sqlite:///{path}"
    MlflowClient(uri, uri).search_experiments()
    return path


@pytest.fixture(scope="session")
def tiny_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with which a trial takes about a second."""
    return small.make_store(tmp_path_factory.mktemp("tiny") / "store")


@pytest.fixture
def new_mlflow_uri(empty_mlflow_database: Path) -> Callable[[Path], str]:
    """Creates an MLflow database in a folder and returns its address."""

    def create(folder: Path) -> str:
        folder.mkdir(exist_ok=True)
        shutil.copyfile(empty_mlflow_database, folder / "mlflow.db")
        return f"sqlite:///{folder}/mlflow.db"

    return create


@pytest.fixture
def mlflow_uri(new_mlflow_uri: Callable[[Path], str], tmp_path: Path) -> str:
    """Address of a new MLflow database in a file."""
    return new_mlflow_uri(tmp_path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test marked `repeated(ci=3, soak=20)` that often; it may ask for the number of the `repetition`."""
    marker = metafunc.definition.get_closest_marker("repeated")
    if marker is not None:
        times = marker.kwargs["soak" if os.environ.get("MUCON_SOAK") else "ci"]
        if "repetition" not in metafunc.fixturenames:
            metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(times), scope="module")
