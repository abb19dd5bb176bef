"""Errors of memory and of the results folder are told from those of a trial."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from mucon.errors import InputError, Problem
from sweeps.service.triage.causes import Cause, UnwritableError, cause_of, storage_reason

RESULTS = Path("/data/results")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), Cause.STORAGE),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/data/results/trials/a/journal.jsonl"), Cause.STORAGE),
        (OSError(errno.EROFS, "Read-only file system", "/data/results/x"), Cause.STORAGE),
        (OSError(errno.EIO, "Input/output error"), Cause.STORAGE),
        (OSError(errno.EIO, "Input/output error", "/data/stores/tug/features-00000.parquet"), Cause.MACHINE),
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), Cause.STORAGE),
        (InputError(Problem(rule="unreadable", place="/data/results/trials/a", value=errno.EIO)), Cause.STORAGE),
        (InputError(Problem(rule="unreadable", place="/data/stores/a", value=errno.EIO)), Cause.MACHINE),
        (UnwritableError("full"), Cause.STORAGE),
        (MemoryError(), Cause.MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), Cause.MEMORY),
        (RuntimeError("CUDA error: out of memory"), Cause.MEMORY),
        (torch.OutOfMemoryError("tried to allocate 2 GiB"), Cause.MEMORY),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"), Cause.MEMORY),
        (torch.AcceleratorError("device-side assert triggered", 710), Cause.MACHINE),
        (RuntimeError("NCCL communicator was aborted"), Cause.MACHINE),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None),
        (ValueError("out of memory cells"), None),
    ],
)
def test_an_error_has_its_cause(error: Exception, cause: Cause | None) -> None:
    assert cause_of(error, RESULTS) is cause


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.ENOENT])
def test_a_folder_that_can_no_longer_be_written_ends_the_sweep_and_one_file_of_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    denied = OSError(number, os.strerror(number), str(tmp_path / "trials" / "a"))
    assert cause_of(denied, tmp_path) is Cause.MACHINE
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)  # whatever root may do
    assert cause_of(denied, tmp_path) is Cause.STORAGE
    assert cause_of(OSError(number, os.strerror(number), "/data/stores/a"), tmp_path) is Cause.MACHINE


def test_a_reason_names_the_folder_that_cannot_be_written(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert str(tmp_path) in storage_reason(full, tmp_path)
    assert str(RESULTS) in storage_reason(full, RESULTS)
    assert "free" in storage_reason(full, tmp_path)
    assert "free" not in storage_reason(OSError(errno.EDQUOT, "Disk quota exceeded"), tmp_path)
    elsewhere = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "x"))
    assert str(tmp_path) in storage_reason(elsewhere, RESULTS)
