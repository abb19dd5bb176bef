"""Layout of the MS-TCN datasets, extended by transcripts; the same without frame labels, and for Hollywood Extended.

`features/*.npy` (`[T D]` or `[D T]`), `groundTruth/*.txt` (a label per frame), `transcripts/*.txt` (an action per line)
or `transcripts.csv`, `mapping.txt` (`ID NAME`) and `splits/PART.splitK.bundle` (a clip name per line). Each clip of a
training part needs labels or a transcript. Folders may be nested.
"""

from __future__ import annotations

from collections.abc import Mapping

from storage.errors import Problem, StoreError, some
from storage.layouts.annotations import LABELS, Annotations, read_annotations
from storage.layouts.dataset import Dataset
from storage.layouts.transcripts import FOLDER, TABLE
from storage.names import normal

_TRANSCRIPTS = f"{FOLDER}/NAME.txt (an action per line)"


class MsTcn(Dataset):
    """A dataset with frame labels, transcripts, or both."""

    name = "ms-tcn"
    contents = f"features/NAME.npy and {LABELS}/NAME.txt (a label per frame), {_TRANSCRIPTS} or {TABLE}"
    required = (("features",), (LABELS, FOLDER, TABLE))
    annotation = LABELS
    needs = f"{LABELS}/NAME.txt (a label per frame) or {_TRANSCRIPTS}"

    def read_annotations(self, mapping: Mapping[int, str]) -> Annotations:
        """Reads labels and transcripts."""
        return read_annotations(self.source, self.paths, frozenset(mapping.values()), self.findings)


class TranscriptsOnly(Dataset):
    """A dataset with transcripts; frame labels beside them are not read."""

    name = "transcripts"
    contents = f"features/NAME.npy and {_TRANSCRIPTS} or {TABLE}"
    required = (("features",), (FOLDER, TABLE))
    annotation = FOLDER
    needs = f"{_TRANSCRIPTS} or a row of {TABLE}"

    def read_annotations(self, mapping: Mapping[int, str]) -> Annotations:
        """Reads the transcripts."""
        if (self.source / LABELS).is_dir():
            self.findings.notes.append(f"{self.source / LABELS}: not read, because the layout has no frame labels")
        actions = frozenset(mapping.values())
        return read_annotations(self.source, self.paths, actions, self.findings, frame_labels=False)


class HollywoodExtended(MsTcn):
    """Hollywood Extended, by its description: frame labels of which most are background, and transcripts without it."""

    name = "hollywood-extended"

    def read_annotations(self, mapping: Mapping[int, str]) -> Annotations:
        """Reads labels and transcripts; a transcript may omit the background.

        Raises:
            StoreError: the background is not named.
        """
        background, findings = tuple(map(normal, self.options.background)), self.findings
        if not background:
            expected = "the name of the background, which transcripts may omit"
            raise StoreError(Problem(rule="missing", place="--background", expected=expected))
        actions = frozenset(mapping.values())
        found = read_annotations(self.source, self.paths, actions, findings, omitted=background)
        alone = [
            video
            for video, transcript in found.transcripts.items()
            if video not in found.labels and not set(background) & set(transcript.names)
        ]
        if alone:
            findings.notes.append(
                f"transcripts without background and without labels ({len(alone)}): {some(alone)}; the store does not "
                "have the background between their actions either"
            )
        return found
