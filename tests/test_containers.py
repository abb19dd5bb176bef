"""Dockerfile, docker-compose.yml and their files agree with each other, with mucon, and with the installed services."""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mucon.cli import build_parser
from sweeps.service.cli import parser
from sweeps.service.commands.running.asked import DEMO_STORE
from sweeps.service.run.executor.engine import STOP_SECONDS
from tests.helpers.containers import ROOT, VARIABLE, compose, example, instructions
from tests.test_docs import code_blocks

SECRETS = ("POSTGRES_PASSWORD", "MLFLOW_PASSWORD", "MLFLOW_FLASK_SERVER_SECRET_KEY", "RAY_AUTH_TOKEN")
DIGEST = r"@sha256:[0-9a-f]{64}$"
SITE = Path(importlib.metadata.distribution("ray").locate_file(""))


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return dict(compose({**example(), **{name: f"value of {name}" for name in SECRETS}})["services"])


def arguments(service: dict[str, Any]) -> click.Context:
    """The parsed command of a service; an option that the installed program does not know raises."""
    from mlflow.cli import server
    from ray.scripts.scripts import start

    program, subcommand, *words = service["command"]
    command = {("mlflow", "server"): server, ("ray", "start"): start}[program, subcommand]
    return command.make_context(subcommand, words)


def is_in_code(name: str, *packages: str) -> bool:
    """Whether an installed package's source contains a word."""
    folders = [str(Path(str(importlib.metadata.distribution(p).locate_file(p)))) for p in packages]
    found = subprocess.run(["grep", "-rqw", "--include=*.py", name, *folders], check=False)
    return found.returncode == 0


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


def test_services_are_those_of_the_page(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == {"postgres", "mlflow", "head", "worker", "gpu-worker"}
    assert services["gpu-worker"]["profiles"] == ["gpu"]
    assert not any("profiles" in services[name] for name in ("postgres", "mlflow", "head", "worker"))
    (device,) = services["gpu-worker"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}


def test_every_service_is_checked_restarted_and_has_no_rights(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert {"interval", "timeout", "retries", "start_period"} < service["healthcheck"].keys(), name
        assert service["restart"] == "unless-stopped", name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.keys() & {"privileged", "cap_add", "network_mode", "pid", "env_file"}, name
        built = service.get("build")
        assert built or re.search(r":[\d.]+" + DIGEST, service["image"]), name
        assert built or service["user"] == "999:999", name
        assert not built or "user" not in service, name  # the image's own
        assert not built or service["init"] is True, name  # a process with number 1 ignores SIGTERM by default


def test_ports_are_on_the_loopback_interface_and_those_of_the_commands(services: dict[str, dict[str, Any]]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    server, head = arguments(services["mlflow"]).params, arguments(services["head"]).params
    assert published == {
        "mlflow": [f"127.0.0.1:{server['port']}:{server['port']}"],
        "head": [f"127.0.0.1:{head['dashboard_port']}:{head['dashboard_port']}"],
    }
    assert server["host"] == head["dashboard_host"] == "0.0.0.0"  # of the container
    assert server["allowed_hosts"] == ",".join(
        f"{host}:{server['port']}" for host in ("mlflow", "localhost", "127.0.0.1")
    )


def test_secrets_are_required_and_only_in_the_environment() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    used = [match.groups() for match in VARIABLE.finditer(text)]
    assert {name for name, kind, _ in used if kind == "?"} == set(SECRETS)
    assert all(message for _, kind, message in used if kind == "?")
    assert all(default == example()[name] for name, kind, default in used if kind == "-")
    assert {name for name, _, _ in used} == example().keys()
    assert {name for name, value in example().items() if not value} == set(SECRETS)
    for missing in SECRETS:
        with pytest.raises(KeyError, match=missing):
            compose({name: "x" for name in SECRETS if name != missing})
    marked = compose({name: f"value of {name}" for name in SECRETS})["services"]
    for name, service in marked.items():
        for variable, value in service.pop("environment").items():
            is_secret = re.search(r"PASSWORD|TOKEN|SECRET", variable) is not None
            assert is_secret == str(value).startswith("value of "), (name, variable)
            assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), (name, variable)
    assert "value of " not in json.dumps(marked)  # everybody on the host can read command lines


def test_secrets_are_made_once_and_differ(tmp_path: Path) -> None:
    for name in ("Makefile", ".env.example"):
        shutil.copy(ROOT / name, tmp_path)
    subprocess.run(["make", "--silent", ".env"], cwd=tmp_path, check=True)
    made = tmp_path / ".env"
    first = made.read_text()
    values = dict(line.split("=", 1) for line in first.splitlines() if line and not line.startswith("#"))
    assert values.keys() == example().keys()
    assert len({values[name] for name in SECRETS}) == len(SECRETS)
    assert all(re.fullmatch("[0-9a-f]{64}", values[name]) for name in SECRETS)
    assert made.stat().st_mode & 0o777 == 0o600
    for folder in ("stores", "results"):
        assert (tmp_path / folder).stat().st_uid == int(values["MUCON_UID"]) > 0
    (tmp_path / ".env.example").touch()
    subprocess.run(["make", "--silent", ".env"], cwd=tmp_path, check=True)
    assert made.read_text() == first
    assert "/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_variables_are_those_that_the_programs_read(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for variable in service["environment"]:
            if variable.startswith("MLFLOW_"):
                assert is_in_code(variable, "mlflow"), (name, variable)
            elif variable.startswith("RAY_"):
                assert is_in_code(variable, "ray"), (name, variable)
            else:
                assert variable in {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PGPASSWORD"}, (name, variable)
    for variable, value in (
        (k, v) for instruction, rest in instructions() if instruction == "ENV" for k, v in pairs(rest)
    ):
        if variable.startswith(("RAY_", "MLFLOW_", "DO_NOT_TRACK")):
            assert is_in_code(variable, "ray", "mlflow"), variable
        assert value


def pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (word.partition("=") for word in shlex.split(text))]


def test_services_find_each_other(services: dict[str, dict[str, Any]]) -> None:
    server, head = arguments(services["mlflow"]).params, arguments(services["head"]).params
    assert head["head"]
    assert head["block"]
    assert head["num_cpus"] == 0
    environment = services["head"]["environment"]
    assert environment["MLFLOW_TRACKING_URI"] == f"http://mlflow:{server['port']}"
    assert environment["RAY_ADDRESS"] == f"127.0.0.1:{head['port']}"
    for name in ("worker", "gpu-worker"):
        worker = arguments(services[name]).params
        assert worker["address"] == f"head:{head['port']}"
        assert worker["block"]
        assert "head" in services[name]["depends_on"]
    assert services["worker"]["scale"] == int(example()["MUCON_WORKERS"])
    assert arguments(services["worker"]).params["num_cpus"] == int(services["worker"]["cpus"])
    assert environment["RAY_AUTH_MODE"] == "token"
    assert "--app-name=basic-auth" in services["mlflow"]["command"]
    for name, other in (("mlflow", "postgres"), ("worker", "head"), ("gpu-worker", "head")):
        assert services[name]["depends_on"] == {other: {"condition": "service_healthy"}}
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        assert len({services[node]["environment"][name] for node in ("head", "worker", "gpu-worker")}) == 1
    assert environment["MLFLOW_TRACKING_USERNAME"] == services["mlflow"]["environment"]["MLFLOW_AUTH_ADMIN_USERNAME"]
    assert environment["MLFLOW_TRACKING_PASSWORD"] == services["mlflow"]["environment"]["MLFLOW_AUTH_ADMIN_PASSWORD"]


def test_rays_objects_fit_into_shared_memory(services: dict[str, dict[str, Any]]) -> None:
    """Ray moves them to /tmp otherwise, which is memory, too."""
    for name in ("head", "worker", "gpu-worker"):
        size = services[name]["shm_size"]
        assert size.endswith("gb")
        assert arguments(services[name]).params["object_store_memory"] < int(size[:-2]) * 2**30


def test_databases_exist(services: dict[str, dict[str, Any]]) -> None:
    database, server = services["postgres"]["environment"], services["mlflow"]["environment"]
    uri = urlsplit(server["MLFLOW_BACKEND_STORE_URI"])
    assert (uri.hostname, uri.port, uri.username) == ("postgres", 5432, database["POSTGRES_USER"])
    assert uri.path == f"/{database['POSTGRES_DB']}"
    assert uri.password is None
    assert server["PGPASSWORD"] == database["POSTGRES_PASSWORD"]
    mounts = dict(
        volume.split(":")[1::-1] for service in ("postgres", "mlflow") for volume in services[service]["volumes"]
    )
    ini = configparser.ConfigParser()
    ini.read(ROOT / mounts[server["MLFLOW_AUTH_CONFIG_PATH"]])
    users = urlsplit(ini["mlflow"]["database_uri"])
    assert (users.scheme, users.netloc) == (uri.scheme, uri.netloc)
    (script,) = (ROOT / path for inside, path in mounts.items() if inside.startswith("/docker-entrypoint-initdb.d/"))
    assert f"CREATE DATABASE {users.path[1:]};" in script.read_text()
    assert f"--dbname={users.path[1:]}" in services["postgres"]["healthcheck"]["test"]
    assert f"--username={database['POSTGRES_USER']}" in services["postgres"]["healthcheck"]["test"]
    assert ini["mlflow"]["default_permission"] == "READ"
    module, function = ini["mlflow"]["authorization_function"].split(":")
    source = SITE.joinpath(*module.split("."), "__init__.py").read_text()
    assert f"def {function}(" in source


def test_health_is_asked_where_the_services_answer(services: dict[str, dict[str, Any]]) -> None:
    from ray._private.ray_constants import DEFAULT_DASHBOARD_AGENT_LISTEN_PORT

    server, head = arguments(services["mlflow"]).params, arguments(services["head"]).params
    ports = {
        "mlflow": server["port"],
        "head": head["dashboard_port"],
        "worker": DEFAULT_DASHBOARD_AGENT_LISTEN_PORT,
        "gpu-worker": DEFAULT_DASHBOARD_AGENT_LISTEN_PORT,
    }
    for name, port in ports.items():
        _, program, option, code = services[name]["healthcheck"]["test"]
        assert (program, option) == ("python", "-c")
        compile(code, name, "exec")
        ((found, path),) = re.findall(r":(\d+)(/[\w/]+)'", code)
        assert int(found) == port, name
        folders = [SITE / "ray/dashboard", SITE / "mlflow/server"]
        assert subprocess.run(["grep", "-rq", "--include=*.py", f'"{path}"', *folders]).returncode == 0
        assert float(re.findall(r"timeout=(\d+)", code)[0]) < seconds(services[name]["healthcheck"]["timeout"])


def test_trials_have_time_for_a_checkpoint(services: dict[str, dict[str, Any]]) -> None:
    for name in ("head", "worker", "gpu-worker"):
        drain = services[name]["environment"]["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"]
        assert STOP_SECONDS < drain < seconds(services[name]["stop_grace_period"]), name
    assert services["head"]["environment"]["RAY_JOB_STOP_WAIT_TIME_S"] > STOP_SECONDS


def test_folders_are_those_of_the_image_and_of_the_code(services: dict[str, dict[str, Any]]) -> None:
    (workdir,) = {rest for name, rest in instructions()[-12:] if name == "WORKDIR"}
    commands = " ".join(rest for name, rest in instructions() if name == "RUN")
    made = commands.partition("install --directory")[2].partition("&&")[0].split()
    assert {"stores", "results", "/artifacts"} < set(made)
    declared = compose(dict.fromkeys(SECRETS, "x"))["volumes"]
    kept = dict(volume.split(":")[:2] for volume in services["postgres"]["volumes"])
    assert kept["postgres"] == "/var/lib/postgresql/data"
    assert services["postgres"]["stop_signal"] == "SIGINT"
    home = {name: "/var/run/postgresql" if name == "postgres" else "/home/mucon" for name in services}
    assert {name: service["tmpfs"] for name, service in services.items()} == {
        name: ["/tmp", folder] for name, folder in home.items()
    }
    for name, service in services.items():
        for volume in service["volumes"]:
            outside, inside, *options = volume.split(":")
            if not outside.startswith("./"):
                assert outside in declared, (name, volume)
            elif outside in ("./stores", "./results"):
                assert inside == f"{workdir}/{outside[2:]}", (name, volume)
            else:
                assert (ROOT / outside).is_file(), (name, volume)
                assert options == ["ro"], (name, volume)
        if name != "postgres":
            assert service["build"]["context"] == "."
    assert DEMO_STORE.parts[0] == "stores"
    read_only = [volume.split(":")[0] for volume in services["worker"]["volumes"] if volume.endswith(":ro")]
    assert read_only == ["./stores"]
    assert f"--artifacts-destination={services['mlflow']['volumes'][0].split(':')[1]}" in services["mlflow"]["command"]
    arguments_of_the_image = {rest.split("=")[0] for name, rest in instructions() if name == "ARG"}
    assert services["mlflow"]["build"]["args"].keys() < arguments_of_the_image
    assert len({json.dumps(service["build"]) for service in services.values() if "build" in service}) == 1
    assert len({service["image"] for service in services.values() if "build" in service}) == 1


def test_dockerfile_is_pinned_and_copies_what_exists() -> None:
    (base,) = (rest for name, rest in instructions() if name == "ARG" and rest.startswith("BASE="))
    assert re.search(r"^BASE=python:3\.11-slim" + DIGEST, base)
    assert all(rest.split()[0] in ("${BASE}", "dependencies") for name, rest in instructions() if name == "FROM")
    text = " ".join(rest for name, rest in instructions() if name == "RUN")
    assert re.findall(r"https?://\S+", text) == ["https://download.pytorch.org/whl/cpu"]
    assert re.findall(r"--requirement (\S+) --constraint (\S+)", text) == [("/names.txt", "/requirements.lock")]
    assert '"$(grep ^torch== /requirements.lock)"' in text
    environment = dict(pair for name, rest in instructions() if name == "ENV" for pair in pairs(rest))
    assert environment["PATH"].startswith("/opt/venv/bin:")
    assert environment["RAY_USAGE_STATS_ENABLED"] == "0"
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert list(ROOT.glob(source)), source
                assert f"!{source.split('/')[0]}" in ignored, source
    assert "*" in ignored
    last = len(instructions()) - 1 - [name for name, _ in reversed(instructions())].index("FROM")
    final = instructions()[last:]
    assert ("USER", "${UID}:${GID}") in final
    assert all(rest.startswith("--from") for name, rest in final if name == "COPY")  # a part would hide the package
    assert any("site-packages/sweeps sweeps" in rest for name, rest in final if name == "RUN")
    assert all(int(rest.split("=")[1]) > 0 for name, rest in final if name == "ARG")
    assert not any("pip" in rest or "apt" in rest for name, rest in final if name == "RUN")
    assert json.loads(dict(final)["CMD"]) == ["mucon", "--help"]
    assert dict(final)["HEALTHCHECK"].endswith('CMD ["mucon", "--help"]')


def test_the_layer_of_dependencies_depends_on_their_names_and_the_lock_only(tmp_path: Path) -> None:
    stages = [rest.split()[-1] for name, rest in instructions() if name == "FROM"]
    assert stages[:3] == ["names", "dependencies", "package"]
    copied, stage = {}, ""
    for name, rest in instructions():
        if name == "FROM":
            stage = rest.split()[-1]
        elif name == "COPY":
            copied.setdefault(stage, []).append(rest)
    assert copied["dependencies"] == ["--from=names /names.txt /", "requirements.lock /"]
    (code,) = (rest for name, rest in instructions() if name == "RUN" and "tomllib" in rest)
    script = shlex.split(code.replace("/pyproject.toml", str(ROOT / "pyproject.toml")).split(" > ")[0])
    names = subprocess.run(
        [sys.executable, *script[1:]], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert names == [*project["dependencies"], *extras["cluster"], *extras["postgresql"]]
    assert not {"pytest", "mypy", "ruff"} & {Requirement(line).name for line in names}


def test_everything_that_the_image_installs_is_locked() -> None:
    """Besides torch's CUDA packages: the installed torch has none."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    locked = {canonicalize_name(line.split("==")[0]) for line in lines if "==" in line and not line.startswith("#")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    waiting = [Requirement(line) for line in (*project["dependencies"], *extras["cluster"], *extras["postgresql"])]
    seen = set()
    while waiting:
        wanted = waiting.pop()
        if (key := (canonicalize_name(wanted.name), *sorted(wanted.extras))) in seen:
            continue
        seen.add(key)
        assert key[0] in locked, wanted
        for line in importlib.metadata.requires(wanted.name) or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(needed)
    assert {("mlflow", "auth"), ("ray", "default")} <= seen


@pytest.mark.parametrize("program", [("docker", "compose"), ("podman-compose",)])
def test_engines_accept_the_file(program: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(program[0]) is None or subprocess.run([*program, "version"], capture_output=True).returncode:
        pytest.skip(f"{' '.join(program)} is not installed")
    (tmp_path / ".env").write_text("".join(f"{name}=x\n" for name in SECRETS))
    command = [*program, "--env-file", str(tmp_path / ".env"), "--profile", "gpu", "config"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / ".env").write_text("")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert any(name in done.stderr for name in SECRETS)


def test_commands_of_the_page_exist(services: dict[str, dict[str, Any]]) -> None:
    page = (ROOT / "docs" / "clusters" / "compose.md").read_text(encoding="utf-8")
    lines = "".join(code_blocks(page, "sh")).splitlines()
    used = [words for line in lines if (words := shlex.split(line, comments=True))[:2] == ["docker", "compose"]]
    assert len(used) > 12
    assert {" ".join(shlex.split(line, comments=True)) for line in lines} - {" ".join(words) for words in used} == {
        "make .env"
    }
    for words in used:
        subcommand = next(i for i, word in enumerate(words) if word in ("up", "down", "exec"))
        rest = [
            word for word in words[subcommand + 1 :] if word not in ("-T", "--detach", "--wait", "--build", "--volumes")
        ]
        if words[subcommand] == "exec":
            check_inside(rest[0], rest[1:])
            assert rest[0] in services, words
        for word in rest if words[subcommand] != "exec" else ():
            assert word in services or word == "--scale" or word.partition("=")[0] in services, words
        profile = words[2:subcommand]
        assert not profile or (profile[0] == "--profile" and profile[1:] == services["gpu-worker"]["profiles"]), words


def check_inside(service: str, words: list[str]) -> None:
    """Parses a command that runs in a container; programs of the system are taken as they are."""
    program, *rest = words
    if program == "python":
        program, rest = "mucon-sweeps", ["run", Path(rest[0]).stem, *rest[1:]]
    if program == "mucon":
        build_parser().parse(rest)
    elif program == "mucon-sweeps":
        parser().parse(rest)
    else:
        assert (service, program) in {("postgres", "pg_dump"), ("postgres", "psql"), ("mlflow", "tar")}
