"""A tracking server behind TLS: its certificate has to be trusted, and then everything is tracked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mucon.errors import EXIT_OK
from sweeps.service.track.compare import compare
from sweeps.service.track.tracked import Tracked
from tests.helpers import tls
from tests.helpers.planted_tracking import INFO, again, plant
from tests.helpers.refusals import refused
from tests.helpers.services import MLflowServer

pytestmark = pytest.mark.service


def test_a_server_with_a_foreign_certificate_is_refused_and_with_a_trusted_one_has_everything(
    tmp_path: Path, mlflow_server: MLflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plant(tmp_path / "results", seeds=2, first=61)
    certificate, key = tls.certificate(tmp_path)
    port = int(mlflow_server.uri.rpartition(":")[2])
    with tls.proxy(port, certificate, key) as uri:
        with refused("unreachable", place="--tracking-uri", value=uri, n=1) as refusal:
            Tracked(plan.tracked, INFO, uri, print).check()
        assert "MLFLOW_TRACKING_SERVER_CERT_PATH" in str(refusal.problems)
        monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", str(certificate))
        with refused("unreachable", place="--tracking-uri", n=1):
            Tracked(plan.tracked, INFO, uri.replace("127.0.0.1", "localhost"), print).check()
        assert again(plan.results.path, uri) == EXIT_OK
        assert compare(plan.results, uri) == []
