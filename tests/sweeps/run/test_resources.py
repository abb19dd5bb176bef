"""Where trials run: on this machine with and without a GPU, and on a cluster that has been asked or not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mucon import device as devices
from sweeps.ablation_masks import EXPERIMENT
from sweeps.service.cli import main
from sweeps.service.run import resources as placing
from sweeps.service.run.executor.ray_environment import set_ray_environment
from sweeps.service.run.resources import Placement, Resources, place_trials
from tests.helpers.refusals import refused

ON_CPU, ON_GPU = Resources(cpus=1, gpus=0), Resources(cpus=2, gpus=0.25)
GPU_NODES = {"head": (4.0, 0.0), "worker": (16.0, 2.0)}
CPU_NODES = {"head": (4.0, 0.0)}

Gpus = Callable[[int], None]


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    """Lets this machine seem to have GPUs and eight cores, and no cluster."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(placing, "usable_cpus", lambda: 8)

    def seem(n: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: n > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: n)

    return seem


@pytest.fixture
def cluster(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster, and no GPU on this machine."""
    gpus(0)
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")


@pytest.mark.parametrize(
    ("n_gpus", "device", "share", "placed"),
    [
        (0, "auto", "auto", ("cpu", ON_CPU)),
        (1, "auto", "auto", ("cuda", ON_GPU)),
        (1, "cpu", "auto", ("cpu", ON_CPU)),
        (1, "auto", "0", ("cpu", ON_CPU)),
        (1, "cuda", "auto", ("cuda", ON_GPU)),
        (1, "cuda", "0.5", ("cuda", Resources(cpus=2, gpus=0.5))),
    ],
)
def test_this_machine(gpus: Gpus, n_gpus: int, device: str, share: str, placed: tuple[str, Resources]) -> None:
    gpus(n_gpus)
    placement = place_trials(device, "auto", share)
    assert (placement.device, placement.each) == placed
    assert placement.slots


@pytest.mark.parametrize(
    ("nodes", "device", "share", "placed"),
    [
        (GPU_NODES, "auto", "auto", ("cuda", ON_GPU, 8)),
        (GPU_NODES, "cuda", "auto", ("cuda", ON_GPU, 8)),
        (GPU_NODES, "cpu", "auto", ("cpu", ON_CPU, 20)),
        (GPU_NODES, "auto", "1", ("cuda", Resources(cpus=2, gpus=1), 2)),
        (GPU_NODES, "auto", "0", ("cpu", ON_CPU, 20)),
        (CPU_NODES, "auto", "auto", ("cpu", ON_CPU, 4)),
        (None, "auto", "auto", ("auto", ON_CPU, None)),
        (None, "cuda", "auto", ("cuda", ON_GPU, None)),
        (None, "auto", "0.5", ("cuda", Resources(cpus=2, gpus=0.5), None)),
        (None, "auto", "0", ("cpu", ON_CPU, None)),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_a_cluster(
    nodes: dict[str, tuple[float, float]] | None, device: str, share: str, placed: tuple[str, Resources, int | None]
) -> None:
    placement = place_trials(device, "auto", share, nodes)
    assert (placement.device, placement.each, placement.slots) == placed


@pytest.mark.parametrize(("device", "share"), [("cuda", "0"), ("cpu", "0.25")])
@pytest.mark.parametrize("n_gpus", [0, 1])
@pytest.mark.usefixtures("cluster")
def test_a_device_and_a_number_of_gpus_that_contradict_each_other_are_refused(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, device: str, share: str, n_gpus: int
) -> None:
    if n_gpus:
        gpus(n_gpus)
        monkeypatch.delenv("RAY_ADDRESS")
    with refused("conflict", "--gpus-per-trial", share, n=1):
        place_trials(device, "auto", share)


@pytest.mark.usefixtures("cluster")
def test_cuda_on_a_cluster_without_gpus_is_refused() -> None:
    with refused("unsupported", "--gpus-per-trial", (2.0, 0.25), n=1):
        place_trials("cuda", "auto", "auto", CPU_NODES)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_cuda_on_a_machine_without_a_gpu_is_one_line_before_anything_is_made(
    gpus: Gpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str]
) -> None:
    gpus(0)
    monkeypatch.chdir(tmp_path)
    assert main(EXPERIMENT, ["--device", "cuda", *more]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: --device: ")
    assert not list(tmp_path.iterdir())


def test_the_reason_for_the_cpu_and_an_open_choice_are_part_of_the_text(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(0)
    monkeypatch.setattr(devices, "nvidia_driver", lambda: "470.57.02")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    text = str(place_trials("auto", "auto", "auto"))
    assert {"470.57.02", "13.0,", "580"} <= set(text.split())
    assert "470" not in str(place_trials("cpu", "auto", "auto"))
    assert "cluster" in str(Placement(device="auto", each=ON_CPU, slots=None))


def test_the_workers_of_this_machine_inherit_the_workspace_of_cublas(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUBLAS_WORKSPACE_CONFIG", *(name for name in os.environ if name.startswith(("RAY_", "TUNE_")))):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    try:
        set_ray_environment()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == devices.CUBLAS_WORKSPACE
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.mark.parametrize(
    ("given", "variable", "slots", "limit"),
    [
        (None, None, 8, ""),
        (3, None, 3, "--max-concurrent"),
        (100, None, 8, ""),
        (None, "2", 2, "MUCON_MAX_CONCURRENT"),
        (3, "2", 2, "MUCON_MAX_CONCURRENT"),
        (1, "2", 1, "--max-concurrent"),
    ],
)
def test_the_smaller_limit_counts_and_is_named(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, given: int | None, variable: str | None, slots: int, limit: str
) -> None:
    gpus(0)
    monkeypatch.setenv("MUCON_MAX_CONCURRENT", variable or "")
    placement = place_trials("auto", "auto", "auto").limited(given)
    assert placement.slots == slots
    assert placement.most in (None, given, int(variable or 0))
    assert placement.at_a_time == f"{slots} at a time{f' ({limit})' if limit else ''}"


@pytest.mark.parametrize("variable", ["0", "-1", "two", "1.5"])
def test_a_limit_that_is_no_number_of_trials_is_refused(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    gpus(0)
    monkeypatch.setenv("MUCON_MAX_CONCURRENT", variable)
    with refused("range", "MUCON_MAX_CONCURRENT", variable, n=1):
        place_trials("auto", "auto", "auto").limited(None)


@pytest.mark.usefixtures("cluster")
def test_a_head_without_cores_has_no_slots_and_unlike_nodes_have_their_own() -> None:
    nodes = {"head": (0.0, 0.0), "small": (3.0, 1.0), "large": (64.0, 4.0)}
    assert place_trials("auto", "auto", "0.5", nodes).slots == 1 + 8
    assert place_trials("cpu", "2", "auto", nodes).slots == 1 + 32
