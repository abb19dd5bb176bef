"""The cluster files against Ray's own checks, the clouds' own shapes and the code."""

from __future__ import annotations

import inspect
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator
from ray._private import ray_constants
from ray._private.authentication.authentication_token_setup import _get_default_token_path
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.dashboard import http_server_agent
from ray.dashboard.modules.job import job_supervisor

from sweeps.service.run.executor.engine import STOP_SECONDS

ROOT = Path(__file__).resolve().parents[3]
CLUSTERS = ROOT / "sweeps" / "clusters"
BY_SSH = ("local", "aws", "gcp")
CLOUDS = ("aws", "gcp")
COUNTS = {"m7i.large": (2, 0), "g6.2xlarge": (8, 1), "n2-standard-2": (2, 0), "g2-standard-8": (8, 1)}
"""Virtual CPUs and GPUs of the machine types, from the clouds' tables."""


def cluster(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((CLUSTERS / f"{name}.yaml").read_text()))


def commands(config: dict[str, Any]) -> dict[str, str]:
    """Kind of commands -> its commands, one a line."""
    return {key: "\n".join(value) for key, value in config.items() if key.endswith("_commands")}


def locked(package: str) -> str:
    (version,) = re.findall(rf"^{package}==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    return str(version)


def python_of_the_image() -> str:
    """The Python of the containers, as 3.x."""
    (version,) = re.findall(r"^ARG BASE=\S*python:(\d+\.\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    return str(version)


@pytest.mark.parametrize("name", BY_SSH)
def test_ray_accepts_the_file(name: str) -> None:
    validate_config(prepare_config(cluster(name)))


@pytest.mark.parametrize("name", BY_SSH)
def test_bash_accepts_each_command_in_the_parentheses_that_ray_puts_around_it(name: str) -> None:
    lines = [line for lines in commands(cluster(name)).values() for line in lines.splitlines()]
    script = "\n".join(f"({line})" for line in lines)
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_ec2_accepts_the_machines_of_aws() -> None:
    shape = botocore.session.get_session().get_service_model("ec2").operation_model("RunInstances").input_shape
    types = cluster("aws")["available_node_types"]
    for node in types.values():
        request = {**node["node_config"], "MinCount": 1, "MaxCount": 1}
        assert ParamValidator().validate(request, shape).generate_report() == ""
    assert types["gpu"]["node_config"]["InstanceMarketOptions"]["MarketType"] == "spot"


def test_the_workers_of_gcp_are_spot_machines_that_are_deleted() -> None:
    head, gpu = (cluster("gcp")["available_node_types"][name]["node_config"] for name in ("head", "gpu"))
    assert gpu["scheduling"] == {
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",  # a machine with a GPU cannot be moved
        "automaticRestart": False,
    }
    assert set(gpu) <= {"machineType", "disks", "metadata", "scheduling"} >= set(head)
    assert gpu["metadata"] == {"items": [{"key": "install-nvidia-driver", "value": "True"}]}
    for (disk,) in (head["disks"], gpu["disks"]):
        assert set(disk) == {"boot", "autoDelete", "type", "initializeParams"}
        assert disk["boot"] is True is disk["autoDelete"]
        assert set(disk["initializeParams"]) == {"diskSizeGb", "sourceImage"}


@pytest.mark.parametrize("name", CLOUDS)
def test_a_cloud_has_no_machine_but_the_head_without_trials(name: str) -> None:
    config = cluster(name)
    types = config["available_node_types"]
    head, gpu = types.pop(config["head_node_type"]), types.pop("gpu")
    assert not types
    assert head["resources"] == {"CPU": 0}
    assert gpu["min_workers"] == 0 < gpu["max_workers"] <= config["max_workers"]
    machine = gpu["node_config"].get("InstanceType") or gpu["node_config"]["machineType"]
    assert COUNTS[machine] == (gpu["resources"]["CPU"], gpu["resources"]["GPU"])
    assert COUNTS[head["node_config"].get("InstanceType") or head["node_config"]["machineType"]][1] == 0
    assert 0 < config["idle_timeout_minutes"] <= 10
    assert config["provider"].get("cache_stopped_nodes", False) is False, "stopped machines cost money"


@pytest.mark.parametrize("name", CLOUDS)
def test_a_cloud_gets_what_the_image_gets(name: str) -> None:
    config = cluster(name)
    mounted = {Path(local).name for there, local in config["file_mounts"].items() if there.startswith("~/mucon/")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert mounted == {word for words in copied for word in words.split() if not word.endswith("*.py")}
    assert all((ROOT / local).exists() for local in mounted)
    assert all(there == f"~/mucon/{Path(there).name}" for there in config["file_mounts"] if "mucon" in there)
    setup = commands(config)["setup_commands"]
    assert f"uv venv --python {python_of_the_image()} ~/venv" in setup
    assert "--requirement ~/mucon/requirements.lock\n" in setup
    assert setup.endswith("--no-deps ~/mucon")
    assert re.search(r"https://astral\.sh/uv/\d+\.\d+\.\d+/install\.sh", setup)


@pytest.mark.parametrize("name", CLOUDS)
def test_a_cloud_mounts_the_folder_of_its_page_before_ray_starts(name: str) -> None:
    config = cluster(name)
    setup, provider = commands(config)["setup_commands"], config["provider"]
    page = (ROOT / "docs" / "clusters" / f"{name}.md").read_text(encoding="utf-8")
    (folders,) = re.findall(r"install -d -o \$USER (/\S+) (/\S+)", setup)
    assert folders == ("/shared/stores", "/shared/results")
    assert "--store /shared/stores/" in page
    assert "--results /shared/results " in page
    (mounted,) = re.findall(
        r"mountpoint -q (\S+) \|\| \(sudo mkdir -p (\S+) && sudo mount -t (\S+) -o (\S+) (\S+) (\S+)\)", setup
    )
    kind = {"aws": "nfs4", "gcp": "nfs"}[name]
    assert mounted[:3] == ("/shared", "/shared", kind)
    assert mounted[3].count("hard") == 1, "a soft mount loses what was written when the server is slow"
    assert mounted[4:] == ("$SHARED", "/shared")
    assert f"command -v mount.{kind} || (sudo apt-get update && sudo apt-get install -y nfs-common)" in setup
    exported = dict(re.findall(r"^echo 'export (\w+)=([^:\n]*):", setup, re.MULTILINE))
    assert exported.keys() == {"SHARED", "PATH"}
    assert exported["PATH"] == "~/venv/bin"
    assert provider["availability_zone"].startswith(provider["region"])
    assert name != "aws" or f".efs.{provider['region']}.amazonaws.com:/" in setup
    (library,) = re.findall(r"install --python ~/venv/bin/python (\S+)$", commands(config)["head_setup_commands"])
    assert re.fullmatch(r"[\w-]+==\d+\.\d+\.\d+", library)
    assert f"pip install {library}\n" in page, "the machine of the user starts the head with the same version"


@pytest.mark.parametrize("name", BY_SSH)
def test_lines_with_values_of_a_user_are_marked(name: str) -> None:
    text = (CLUSTERS / f"{name}.yaml").read_text()
    given = r"ami-0|fs-0|_id:|region:|_zone:|FAMILY|192\.168\.|10\.0\.0\.|_key:|/shared/mucon"
    unmarked = [line for line in text.splitlines() if re.search(given, line) and "# edit" not in line]
    assert not unmarked


@pytest.mark.parametrize("name", BY_SSH)
def test_every_process_of_ray_has_the_token_and_the_head_listens_to_itself(name: str) -> None:
    config = cluster(name)
    token = str(_get_default_token_path()).replace(str(Path.home()), "~")
    assert config["file_mounts"][token] == token
    lines = commands(config)
    variables = dict(
        word.split("=", 1)
        for words in re.findall(r"echo 'export (.*)' >>? ~/\.mucon-cluster", lines["setup_commands"])
        for word in words.split()
    )
    assert variables["RAY_AUTH_MODE"] == "token"
    check_patience(variables)
    assert "grep -qs mucon-cluster ~/.bashrc || echo '. ~/.mucon-cluster' >> ~/.bashrc" in lines["setup_commands"]
    assert all(lines[f"{node}_start_ray_commands"].startswith("ray stop\n") for node in ("head", "worker"))
    head = lines["head_start_ray_commands"]
    (port,) = re.findall(r"ray start --head --port=(\d+)", head)
    assert f"ray start --address=$RAY_HEAD_IP:{port}" in lines["worker_start_ray_commands"]
    assert "--dashboard-host=127.0.0.1" in head
    assert "--disable-usage-stats" in head, "`ray up` itself switches them on by a variable"
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in head
    assert ("RAY_enable_autoscaler_v2=0" in head) == (name == "local")


def check_patience(variables: dict[str, str]) -> None:
    """A stopped job has the time that running trials need for their checkpoints."""
    assert '"RAY_JOB_STOP_WAIT_TIME_S"' in inspect.getsource(job_supervisor)
    assert int(variables["RAY_JOB_STOP_WAIT_TIME_S"]) >= STOP_SECONDS + 10


def containers(ray: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Each group of machines, its pod and its container."""
    for group in (ray["headGroupSpec"], *ray["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        yield group, pod, container


def test_kubernetes_has_the_versions_the_token_and_the_ports_of_the_code() -> None:
    claim, cluster = yaml.safe_load_all((CLUSTERS / "kuberay.yaml").read_text())
    ray = cluster["spec"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert str(ray["rayVersion"]) == locked("ray")
    assert {container["image"].rpartition("/")[2] for _, _, container in containers(ray)} == {
        f"mucon:{project['version']}"
    }
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    public = inspect.getsource(http_server_agent)
    for environment in (ray["autoscalerOptions"]["env"], *(container["env"] for _, _, container in containers(ray))):
        variables = {entry["name"]: entry.get("value") for entry in environment}
        secrets = {entry["name"]: entry["valueFrom"] for entry in environment if "valueFrom" in entry}
        assert variables["RAY_AUTH_MODE"] == "token"
        assert secrets == {"RAY_AUTH_TOKEN": {"secretKeyRef": {"name": "mucon-ray-token", "key": "auth_token"}}}
        assert variables["RAY_USAGE_STATS_ENABLED"] == "0"
        check_patience({name: str(value) for name, value in variables.items()})
    (user,) = re.findall(r"^ARG UID=(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for _, pod, container in containers(ray):
        assert pod["restartPolicy"] == "Never", "the operator starts another pod"
        assert pod["securityContext"] == {"fsGroup": int(user)}, "the user of the image can write to the volume"
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        assert mounts["/shared"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert mounts["/dev/shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
        for probe in (container["readinessProbe"], container["livenessProbe"]):
            assert probe["httpGet"]["port"] == ray_constants.DEFAULT_DASHBOARD_AGENT_LISTEN_PORT
            assert f'"{probe["httpGet"]["path"]}"' in public
    ports = {port["name"]: port["containerPort"] for port in next(containers(ray))[2]["ports"]}
    assert ports == {"gcs-server": ray_constants.DEFAULT_PORT, "dashboard": ray_constants.DEFAULT_DASHBOARD_PORT}


def test_kubernetes_starts_no_worker_without_a_trial_and_says_what_each_offers() -> None:
    _, cluster = yaml.safe_load_all((CLUSTERS / "kuberay.yaml").read_text())
    ray = cluster["spec"]
    (head, _, _), (workers, pod, container) = containers(ray)
    assert head["rayStartParams"] == {"num-cpus": "0", "dashboard-host": "127.0.0.1"}
    assert ray["enableInTreeAutoscaling"] is True
    assert ray["autoscalerOptions"]["version"] == "v2"
    assert 0 < ray["autoscalerOptions"]["idleTimeoutSeconds"] <= 600
    assert workers["replicas"] == workers["minReplicas"] == 0 < workers["maxReplicas"]
    assert pod["terminationGracePeriodSeconds"] >= STOP_SECONDS
    limits = container["resources"]["limits"]
    assert limits == container["resources"]["requests"]
    offers = {"num-cpus": limits["cpu"], "num-gpus": limits["nvidia.com/gpu"]}
    assert workers["rayStartParams"] == offers
    assert {(one["key"], one.get("value")) for one in pod["tolerations"]} == {
        ("nvidia.com/gpu", None),
        ("cloud.google.com/gke-spot", "true"),
        ("kubernetes.azure.com/scalesetpriority", "spot"),
    }


@pytest.mark.parametrize("path", sorted(CLUSTERS.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_file_contains_a_secret(path: Path) -> None:
    assert not re.findall(r"\b[0-9a-f]{20,}\b|BEGIN .*KEY|AKIA", path.read_text().replace("0" * 17, ""))
