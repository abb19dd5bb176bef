"""The name of a results folder on tracking servers, by which two folders that share a server share its runs."""

from __future__ import annotations

import os
import uuid

from mucon.errors import InputError
from sweeps.service.trials.json_files import read_json, write_json
from sweeps.service.trials.results_folder import ResultsFolder

SHAPE = {"writer": str, "folder": int}


def writer_of(results: ResultsFolder) -> str:
    """A random name of a results folder; made once, and again in a copy, which is another folder.

    A folder that moves within its file system keeps its name: it keeps its inode.
    """
    results.path.mkdir(parents=True, exist_ok=True)
    path, folder = results.writer_path, results.path.stat().st_ino
    if writer := _read(results, folder):
        return writer
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    write_json(draft, {"writer": uuid.uuid4().hex, "folder": folder})
    try:
        if not path.exists():
            os.link(draft, path)
        else:  # of the folder that was copied, or damaged
            draft.replace(path)
    except FileExistsError:  # another process was faster
        pass
    except OSError:  # a file system without links
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return _read(results, folder)


def _read(results: ResultsFolder, folder: int) -> str:
    """The name in the file; empty if there is none for this folder."""
    try:
        value = read_json(results.writer_path, hint="run the sweep again", shape=SHAPE)
    except InputError:
        return ""
    return str(value["writer"]) if value["folder"] == folder else ""
