"""Table of the layouts, and which of them a folder has.

Imports neither numpy nor pyarrow: the parser of `store import` lists the layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from storage.errors import Problem, StoreError, nearest, some
from storage.exporting.description import FILE, Description
from storage.layouts import ImportOptions

if TYPE_CHECKING:
    from storage.layouts.dataset import Dataset

Sign = Callable[[Path], str]
"""Returns by what a folder has a layout, such as `features and groundTruth`; an empty string if it has another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A layout.

    Attributes:
        name: value of `--layout`.
        summary: its files, in a line.
        needs: what a folder must contain, in words.
        sign: by what it is recognised.
        made_by: module and class, such as `ms_tcn:MsTcn`; modules of other rooms with their full name.
        verified: whether it was tried on a dataset of its authors.
        certain: whether a folder with this sign has no other layout, whatever else it contains.
    """

    name: str
    summary: str
    needs: str
    sign: Sign
    made_by: str
    verified: bool = True
    certain: bool = False

    def make(self, source: Path, options: ImportOptions) -> Dataset:
        """Returns a dataset in this layout."""
        module, name = self.made_by.split(":")
        dataset: Dataset = getattr(import_module(module if "." in module else f"storage.layouts.{module}"), name)(
            source, options
        )
        return dataset


def containing(*groups: str, without: str = "") -> Sign:
    """Returns the sign of a folder that contains something of each group.

    Args:
        groups: patterns for `Path.rglob` below the first folder in them; alternatives are separated by `|`.
        without: pattern of what the folder must not contain.
    """

    def sign(source: Path) -> str:
        if without and _found(source, without):
            return ""
        found = [_found(source, group) for group in groups]
        return " and ".join(found) if all(found) else ""

    return sign


def _found(source: Path, alternatives: str) -> str:
    """Returns the first of the alternatives of which a file exists, an empty string if there is none."""
    for pattern in alternatives.split("|"):
        folder, _, name = pattern.rpartition("/")
        files = (source / folder).rglob(name) if folder else source.glob(name)
        if any(not path.name.startswith(".") for path in files):
            return pattern
    return ""


LAYOUTS = (
    Row(
        name="ms-tcn",
        summary="features/NAME.npy, groundTruth/NAME.txt (an action per frame), splits/*.bundle",
        needs="features/ and groundTruth/",
        sign=containing("features", "groundTruth"),
        made_by="ms_tcn:MsTcn",
    ),
    Row(
        name="transcripts",
        summary="features/NAME.npy, transcripts/NAME.txt (an action per segment) or transcripts.csv; no frame labels",
        needs="features/ and transcripts/ with .txt files, or transcripts.csv",
        sign=containing("features", "transcripts/*.txt|transcripts.csv", without="groundTruth"),
        made_by="ms_tcn:TranscriptsOnly",
    ),
    Row(
        name="mucon",
        summary="release of MuCon: features/, labels/, transcripts/, lengths/ with NAME.npy, splitK.train, splitK.test",
        needs="features/, and labels/ or transcripts/ with .npy files",
        sign=containing("features", "labels/*.npy|transcripts/*.npy"),
        made_by="mucon_release:MuConRelease",
        verified=False,
    ),
    Row(
        name="breakfast-coarse",
        summary="features/NAME.npy, segmentation_coarse/NAME.txt (lines `1-30 SIL`: first and last frame, from 1)",
        needs="features/ and segmentation_coarse/",
        sign=containing("features", "segmentation_coarse"),
        made_by="breakfast_coarse:BreakfastCoarse",
    ),
    Row(
        name="segments",
        summary="features/NAME.npy, segments.csv or segments.parquet: video, action, start_frame, end_frame (excluded)",
        needs="features/, and segments.csv or segments.parquet",
        sign=containing("features", "segments.csv|segments.parquet"),
        made_by="segments_table:SegmentsTable",
    ),
    Row(
        name="hollywood-extended",
        summary="as ms-tcn, transcripts/NAME.txt without the background; only by --layout",
        needs="features/ and groundTruth/, and --layout",
        sign=lambda _: "",
        made_by="ms_tcn:HollywoodExtended",
        verified=False,
    ),
    Row(
        name="export",
        summary="what `store export` writes: ms-tcn, and store.json with the rest",
        needs="features/ and store.json",
        sign=lambda source: FILE if Description.is_at(source) else "",
        made_by="storage.exporting.layout:Exported",
        certain=True,
    ),
)
"""In the order of the documentation."""


def layout_of(source: Path, name: str | None, options: ImportOptions) -> tuple[Dataset, str]:
    """Returns a dataset in the layout of its folder.

    Args:
        source: folder of the dataset.
        name: name of the layout; None recognises it.
        options: options of the import.

    Returns:
        The dataset, and a sentence about its layout.

    Raises:
        StoreError: no such folder or layout, or none or several layouts fit.
    """
    names = [row.name for row in LAYOUTS]
    if name is not None:
        if name not in names:
            message = f"unknown layout {name!r}{nearest(name, names)}, expected {', '.join(names)}"
            raise StoreError(Problem(rule="unknown", place="--layout", value=name, message=message))
        row = LAYOUTS[names.index(name)]
        return row.make(source, options), _sentence(row, "as chosen")
    if not source.is_dir():
        raise StoreError(Problem(rule="missing", place=str(source), message="no such folder"))
    fitting = [(row, sign) for row in LAYOUTS if (sign := row.sign(source))]
    fitting = [(row, sign) for row, sign in fitting if row.certain] or fitting
    if len(fitting) == 1:
        row, sign = fitting[0]
        return row.make(source, options), _sentence(row, f"recognised by {sign}")
    if fitting:
        found = "; ".join(f"{row.name} (by {sign})" for row, sign in fitting)
        value, message = [row.name for row, _ in fitting], f"several layouts fit: {found}"
        raise StoreError(
            Problem(rule="conflict", place=str(source), value=value, message=message, hint="choose one with --layout")
        )
    content = sorted(f"{path.name}/" if path.is_dir() else path.name for path in source.glob("[!.]*"))
    known = "; ".join(f"{row.name} needs {row.needs}" for row in LAYOUTS)
    message = f"no layout fits a folder with {some(content) or 'no files'}: {known}"
    inner = sorted(path for path in source.glob("[!.]*/") for row in LAYOUTS if row.sign(path))
    hint = f"pass {inner[0]}" if inner else ""
    raise StoreError(Problem(rule="unknown", place=str(source), value=content, message=message, hint=hint))


def _sentence(row: Row, by: str) -> str:
    return f"layout {row.name}, {by}{'' if row.verified else '; it was built from a description, check the result'}"
