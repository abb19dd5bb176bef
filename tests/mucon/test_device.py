"""The choice of a device, its precision and environment, and the cores of a container; GPUs are imitated."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mucon import device as devices
from mucon.device import choose_device, full_precision, gpu_facts, nvidia_driver, usable_cpus, usable_precision
from mucon.errors import DataWarning
from mucon.methods import method_named
from mucon.model.network import MuConNetwork
from tests.helpers.factories import VOCABULARY, small_config, small_videos
from tests.helpers.refusals import refused

PROPRIETARY = """NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023
GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)
"""
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22-I3-B17-02-5)\n"
)

Gpus = Callable[..., None]


@pytest.fixture(autouse=True)
def no_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    """Lets torch and the machine seem to have GPUs."""

    def seem(n: int, *, current: int = 0, driver: str = "", cuda: str | None = None) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: n > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: n)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
        monkeypatch.setattr(devices, "nvidia_driver", lambda: driver)
        monkeypatch.setattr(torch.version, "cuda", cuda)

    return seem


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_a_gpu_has_the_index_of_the_current_one(gpus: Gpus, name: str) -> None:
    gpus(2, current=1)
    assert str(choose_device(name)) == "cuda:1"
    assert str(choose_device("cuda:0")) == "cuda:0"
    with refused("unsupported", "--device", "cuda:2", n=1):
        choose_device("cuda:2")


def test_torch_counts_gpus_that_it_cannot_use_and_they_are_refused(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # by NVML, which works with an old driver
    with refused("unsupported", "--device", "cuda", n=1):
        choose_device("cuda")


def test_the_workspace_of_cublas_is_set_for_a_gpu_before_it_starts_and_a_choice_of_the_user_is_kept(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(1)
    choose_device("cpu")
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    seen: list[str | None] = []
    monkeypatch.setattr(
        torch.cuda, "is_available", lambda: bool(seen.append(os.environ.get("CUBLAS_WORKSPACE_CONFIG")) or True)
    )
    choose_device("auto")
    assert seen == [devices.CUBLAS_WORKSPACE]
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    choose_device("cuda")
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


@pytest.mark.parametrize(
    ("driver", "cuda", "named"),
    [
        ("535.129.03", "13.0", ("535.129.03", "13.0", "580")),
        ("470.57.02", "12.6", ("470.57.02", "12.6", "525")),
        ("580.65.06", None, ("580.65.06", "without CUDA")),
        ("580.65.06", "13.0", ("580.65.06", "13.0")),
    ],
)
def test_auto_names_the_reason_if_a_card_is_there_but_not_usable(
    gpus: Gpus, driver: str, cuda: str | None, named: tuple[str, ...]
) -> None:
    gpus(0, driver=driver, cuda=cuda)
    with pytest.warns(DataWarning) as caught:
        assert choose_device("auto").type == "cpu"
    (warned,) = caught
    assert (warned.message.problem.rule, warned.message.problem.place) == ("unsupported", "--device")
    text = str(warned.message)
    assert "\n" not in text
    assert all(word in text for word in named)
    with refused("unsupported", "--device", "cuda", n=1) as refusal:
        choose_device("cuda")
    assert driver in refusal.problems[0].message


@pytest.mark.parametrize("hidden", [None, "", "-1"])
def test_auto_is_the_cpu_without_a_word_if_there_is_no_card_or_it_is_hidden(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, hidden: str | None
) -> None:
    gpus(0, driver="" if hidden is None else "580.65.06", cuda="13.0")
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_device("auto").type == "cpu"


def test_the_driver_is_read_from_the_kernel_or_asked_of_its_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, tool = tmp_path / "version", tmp_path / "nvidia-smi"
    for text, version in ((PROPRIETARY, "535.129.03"), (OPEN, "580.65.06"), ("garbage", "")):
        file.write_text(text)
        assert nvidia_driver(file) == version
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_driver(tmp_path / "none") == ""
    for script, version in (("echo 560.35.03", "560.35.03"), ("echo NVIDIA-SMI has failed; exit 9", "")):
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        assert nvidia_driver(tmp_path / "none") == version


@pytest.mark.parametrize(("native", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_emulated_bfloat16_does_not_count(monkeypatch: pytest.MonkeyPatch, native: bool, precision: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: native or including_emulation)
    assert usable_precision("bfloat16", torch.device("cuda:0")) == precision


def flags() -> dict[str, object]:
    """torch's flags that change the bits of products on a GPU."""
    cudnn = torch.backends.cudnn
    return {
        "rnn": cudnn.rnn.fp32_precision,
        "conv": cudnn.conv.fp32_precision,
        "matmul": torch.backends.cuda.matmul.fp32_precision,
        "older": torch.get_float32_matmul_precision(),
        "deterministic": cudnn.deterministic,
        "benchmark": cudnn.benchmark,
    }


EXACT = {
    **dict.fromkeys(("rnn", "conv", "matmul"), "ieee"),
    **{"older": "highest", "deterministic": True, "benchmark": False},
}


@pytest.fixture
def fast_flags() -> Iterator[dict[str, object]]:
    """The flags of a user who prefers speed; the test must leave them as they are."""
    cudnn, before = torch.backends.cudnn, flags()
    torch.set_float32_matmul_precision("high")
    cudnn.benchmark = True
    chosen = flags()
    assert (chosen["rnn"], chosen["conv"], chosen["matmul"]) == ("tf32", "tf32", "tf32")
    yield chosen
    assert flags() == chosen
    torch.set_float32_matmul_precision(str(before["older"]))
    cudnn.benchmark = False


def test_full_precision_is_set_and_given_back_also_nested_and_after_an_error(fast_flags: dict[str, object]) -> None:
    with full_precision():
        assert flags() == EXACT
        assert not torch.backends.cuda.matmul.allow_tf32  # torch raises an error here if old and new flags contradict
        with pytest.raises(ZeroDivisionError), full_precision():
            raise ZeroDivisionError
        assert flags() == EXACT
    assert flags() == fast_flags


@pytest.mark.parametrize("method", ["mucon", "ms_tcn"])
def test_training_and_inference_compute_in_full_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast_flags: dict[str, object], method: str
) -> None:
    config = small_config() if method == "mucon" else method_named(method).recipes["demo"]()
    seen: list[dict[str, object]] = []
    call = torch.nn.Module.__call__

    def spy(module: torch.nn.Module, *args: object, **kwargs: object) -> object:
        seen.append(flags())
        return call(module, *args, **kwargs)

    monkeypatch.setattr(torch.nn.Module, "__call__", spy)
    encode = MuConNetwork.encode
    monkeypatch.setattr(MuConNetwork, "encode", lambda *args: [seen.append(flags()), encode(*args)][1])
    chosen = method_named(method)
    values = {"training.epochs": 1, "training.progress_every": 1}
    chosen.train(config.with_values(values), small_videos(2), VOCABULARY, folder=tmp_path, device="cpu")
    trained = len(seen)
    predictor = chosen.load(tmp_path / "checkpoint")
    features = small_videos(1)[0].features()
    predictor.begin(features)()
    if "alignment" in predictor.tasks:
        predictor.align(features, (0, 1))
    assert 0 < trained < len(seen)
    assert all(one == EXACT for one in seen)


def test_the_arithmetic_of_a_gpu_is_recorded_and_that_of_a_cpu_has_no_such_facts(gpus: Gpus) -> None:
    gpus(1, driver="580.65.06", cuda="13.0")
    facts = gpu_facts(choose_device("cuda"))
    assert (facts["cuda"], facts["driver"], facts["tf32"]) == ("13.0", "580.65.06", False)
    assert facts["cublas_workspace"] == devices.CUBLAS_WORKSPACE
    assert gpu_facts(torch.device("cpu")) == {}


CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("own", "files", "cpus"),
    [
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/\n", {"cpu.max": "250000 100000"}, 2),
        ("0::/\n", {"cpu.max": "30000 100000"}, 1),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        ("0::/a/b\n", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "400000 100000"}, 1),
        ("0::/gone\n", {"cpu.max": "200000 100000"}, 2),
        ("3:cpu,cpuacct:/x\n1:cpuset:/x\n", {"cpu,cpuacct/cpu.cfs": "150000 100000"}, 1),
        ("3:cpu:/x\n", {"cpu/x/cpu.cfs": "200000 100000"}, 2),
        ("3:cpu:/x\n", {"cpu/x/cpu.cfs": "-1 100000"}, None),
        ("3:cpuset:/x\n", {"cpuset/x/cpu.cfs": "100000 100000"}, None),
        ("", {}, None),
    ],
)
def test_the_quota_of_a_container_limits_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], cpus: int | None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "cgroups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".cfs":
            for kind, value in zip(("quota", "period"), text.split(), strict=True):
                path.with_name(f"cpu.cfs_{kind}_us").write_text(f"{value}\n")
        else:
            path.write_text(f"{text}\n")
    assert usable_cpus(tmp_path / "cgroups", tmp_path / "own") == (8 if cpus is None else cpus)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert usable_cpus(tmp_path / "cgroups", tmp_path / "own") == 1


def test_the_number_of_cores_of_this_machine_is_counted() -> None:
    assert 1 <= usable_cpus() <= CORES
    assert usable_cpus(Path("/nowhere"), Path("/nowhere")) == CORES


@pytest.mark.parametrize(("n_gpus", "share", "limits"), [(1, 0.25, [0.225]), (1, 1.0, []), (1, 2.0, []), (0, 0.25, [])])
def test_a_process_that_shares_a_gpu_may_use_its_share_of_the_memory(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, n_gpus: int, share: float, limits: list[float]
) -> None:
    gpus(n_gpus)
    facts = SimpleNamespace(total_memory=24000 * 2**20)
    set_to: list[float] = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: facts)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", set_to.append)
    devices.limit_gpu_memory(share)
    assert set_to == pytest.approx(limits)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == devices.CUBLAS_WORKSPACE
