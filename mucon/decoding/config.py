"""The choices of inference that training does not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mucon.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingConfig:
    """How the `full` prediction finds the lengths of the segments.

    Attributes:
        length_prior: Poisson about each segment's predicted length (paper), about the mean of the predicted lengths
            of its action in that video (published program), or none.
        max_length: longest segment in frames, or None. Deviation: the published program stops at 2,000 frames.

    Raises:
        InputError: a value outside its range.
    """

    length_prior: Literal["segment", "class", "none"] = "segment"
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise InputError(f"decoding.max_length is at least 1 frame, not {self.max_length}: use none for no limit")
