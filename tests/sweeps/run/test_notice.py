"""Notices: to a real server, one that hangs, refuses or is gone; the address stays secret."""

import pytest

from sweeps.service.run import notice
from sweeps.service.run.notice import HIDDEN, Notices, notify_address
from tests.helpers.listening import listening
from tests.helpers.refusals import refused
from tests.helpers.services import free_port

SECRET = "s3cr3t-path"


def test_a_notice_is_posted_once_of_each_kind_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2hunter2")
    warnings: list[str] = []
    with listening() as server:
        notices = Notices(f"{server.address}/{SECRET}", "masks", warnings.append)
        facts = {"trial": {"row": "at postgresql://me:pw@h/db"}, "counts": [1, "hunter2hunter2"]}
        notices.send("first_failure", "é hunter2hunter2", facts)
        notices.send("first_failure", "again", {})
        notices.send("finished", "done", {})
        notices.wait()
    assert sorted(server.kinds) == ["finished", "first_failure"]
    (document,) = (one for one in server.received if one["kind"] == "first_failure")
    assert document.pop("time").endswith("Z")
    assert document.pop("host")
    assert document == {
        "format_version": 1,
        "kind": "first_failure",
        "sweep": "masks",
        "text": "é ***",
        "trial": {"row": "at postgresql://me:***@h/db"},
        "counts": [1, "***"],
    }
    assert warnings == []


@pytest.mark.parametrize("status", [0, 301, 404, 500, None])
def test_a_server_that_hangs_refuses_or_is_gone_is_one_warning_without_the_address(
    monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    """0: no answer; None: nothing listens."""
    monkeypatch.setattr(notice, "SECONDS", 1.0)
    warnings: list[str] = []
    with listening(status or 0) as server:
        address = f"http://127.0.0.1:{free_port()}" if status is None else server.address
        notices = Notices(f"{address}/{SECRET}", "masks", warnings.append)
        for kind in ("first_failure", "finished"):
            notices.send(kind, "text", {})
        notices.wait()
    assert len(warnings) == 1
    assert SECRET not in warnings[0]
    assert len(server.received) == (0 if status is None else 2)


def test_no_address_means_no_notice() -> None:
    notices = Notices(None, "masks", pytest.fail)
    notices.send("finished", "text", {})
    notices.wait()


def test_the_option_comes_before_the_variable() -> None:
    assert notify_address(None, None) is None
    assert notify_address(None, "https://h/a") == "https://h/a"
    assert notify_address("http://h:1/a", "https://h/b") == "http://h:1/a"


@pytest.mark.parametrize(
    "address",
    [f"ftp://{SECRET}", SECRET, f"http:///{SECRET}", f"http://h:x/{SECRET}", f"https://h/{SECRET} b", "http://é"],
)
def test_other_addresses_are_refused_without_showing_them(address: str) -> None:
    with refused("range", place="--notify", value=HIDDEN, n=1) as refusal:
        notify_address(address, None)
    assert SECRET not in str(refusal.problems[0])
    with refused("range", place="MUCON_NOTIFY", value=HIDDEN, n=1):
        notify_address(None, address)
