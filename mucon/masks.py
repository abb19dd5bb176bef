"""Differentiable segment masks: a template stretched to each segment's predicted place (paper, section 4.5).

Deviation: the ramps of the paper's formula (8) are l/J wide and late by one template cell. Here a ramp is l/J wide and
centred on the segment's end, in closed form (linear interpolation between two template samples), so that the sum of a
mask over the frames differs from its integral over [0, T] by at most one frame. `corner_aligned=True` reproduces the
published program: frames at t·T/(T-1), ramps outside the segment.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

import torch
from torch import Tensor

from mucon.config import MaskConfig, MaskShape
from mucon.segments import SHORTEST

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@lru_cache(maxsize=64)
def template(
    shape: MaskShape, n_samples: int = 100, *, device: torch.device | None = None
) -> Float[Tensor, " {n_samples}"]:
    """The reference template U `[J]` float32 in [0, 1].

    The bell is a Gaussian of standard deviation J/5 centred in the middle; the trapezoid has flanks of J/4 samples
    that rise from 0.5 and fall to 0.5 in steps of 2/J.

    Source: paper, figure 4 for the shapes; the published program for the values.

    >>> template("trapezoid", 8).tolist()
    [0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75]
    """
    index = torch.arange(n_samples, dtype=torch.float64)
    if shape == "box":
        values = torch.ones_like(index)
    elif shape == "bell":
        values = torch.exp(-0.5 * ((index - (n_samples - 1) / 2) / (n_samples / 5)) ** 2)
    elif shape == "trapezoid":
        rise = 0.5 + 2 * index / n_samples
        fall = 1 - 2 * (index - 3 * n_samples / 4) / n_samples
        values = torch.minimum(rise, fall).clamp(max=1.0)
    else:
        assert_never(shape)
    return values.to(device=device, dtype=torch.float32)


def absolute_lengths(log_lengths: Float[Tensor, " M"], n_frames: int) -> Float[Tensor, " M"]:
    """Lengths `[M]` in frames that sum to `n_frames`, from relative log lengths `[M]`; at least `SHORTEST`.

    Source: paper, equation (5).

    >>> absolute_lengths(torch.tensor([0.0, 0.0]), 10).tolist()
    [5.0, 5.0]
    """
    return (n_frames * torch.softmax(log_lengths, dim=0)).clamp(min=SHORTEST)


def stretched(
    starts: Float[Tensor, " M"], lengths: Float[Tensor, " M"], config: MaskConfig
) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
    """Starts and lengths `[M]` of the masks: those of the segments, extended by the overlap."""
    if config.overlap == 0:
        return starts, lengths
    grown = lengths * (1 + 2 * config.overlap)
    shift = config.overlap * lengths if config.overlap_rule == "symmetric" else 0.5 * config.overlap * grown
    return starts - shift, grown


def segment_masks(lengths: Float[Tensor, " M"], n_frames: int, config: MaskConfig) -> Float[Tensor, "M {n_frames}"]:
    """Masks `[M, T]` of consecutive segments, differentiable in their lengths.

    Args:
        lengths: `[M]` frames, positive, see `absolute_lengths`.
        n_frames: T.
        config: shape, overlap and sampling rule.

    Returns:
        Values in [0, 1]: the template of segment m stretched to its place, 0 outside.

    Source: paper, equations (4), (6) to (10).

    >>> segment_masks(torch.tensor([2.0, 2.0]), 4, MaskConfig()).round().tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    """
    starts, mask_lengths = stretched(_starts(lengths), lengths, config)
    frames = torch.arange(n_frames, dtype=lengths.dtype, device=lengths.device)
    whole = starts.detach().floor()
    fraction = (starts - whole).to(lengths.dtype)
    if config.corner_aligned:
        offset, scale, shift = frames / max(n_frames - 1, 1), config.n_samples - 1, 0.0
    else:
        offset, scale, shift = torch.full_like(frames, 0.5), config.n_samples, 0.5
    since_start = (frames - whole.to(lengths.dtype)[:, None]) + (offset - fraction[:, None])
    index = since_start * (scale / mask_lengths)[:, None] - shift
    values = template(config.shape, config.n_samples, device=lengths.device).to(lengths.dtype)
    if config.min_ramp_frames:
        return _with_wide_ramps(values, index, config.min_ramp_frames * scale / mask_lengths)
    return sample_template(values, index)


def _with_wide_ramps(values: Tensor, index: Tensor, wide: Tensor) -> Tensor:
    """The template with ramps of `wide` cells, at least one, instead of ramps of one cell.

    Args:
        values: `[J]`.
        index: `[M, T]`, positions in the template.
        wide: `[M]` cells.
    """
    width = wide.clamp(min=1.0)[:, None]
    inside = sample_template(values, index.clamp(0, len(values) - 1))
    rise = ((index + 0.5) / width + 0.5).clamp(0, 1)
    fall = ((len(values) - 0.5 - index) / width + 0.5).clamp(0, 1)
    return inside * rise * fall


def _starts(lengths: Tensor) -> Tensor:
    """Starts `[M]` float64; a sum of thousands of frames in float32 would move a border by 1e-4 frames."""
    exact = lengths.double()
    return torch.cumsum(exact, 0) - exact


def sample_template(values: Float[Tensor, " J"], index: Float[Tensor, "M T"]) -> Float[Tensor, "M T"]:
    """Interpolates the template `[J]` linearly at real positions; 0 one cell beyond its ends, NaN at NaN.

    Source: paper, equations (9) and (10); their gradient is that of this expression.
    """
    padded = torch.nn.functional.pad(values, (1, 1))
    slopes = torch.nn.functional.pad(padded[1:] - padded[:-1], (0, 1))
    inside = (index + 1).clamp(0, len(values) + 1)
    cell = inside.detach().floor()
    number = cell.long().clamp_(0, len(values) + 1)
    return padded[number] + slopes[number] * (inside - cell)


def frames_per_latent(
    masks: Float[Tensor, "M T"], latent_of_frame: Int[Tensor, " T"], n_latent: int
) -> Float[Tensor, "M {n_latent}"]:
    """Sums masks `[M, T]` over the frames that each latent frame covers: `[M, T']`.

    The product of this with latent logits equals that of the masks with the upsampled logits.

    Args:
        masks: `[M, T]`.
        latent_of_frame: `[T]` int64, ascending; each latent frame covers less than 2 T / T' + 1 frames.
        n_latent: T'.
    """
    if masks.is_cuda:
        return _gathered_per_latent(masks, latent_of_frame, n_latent)  # index_add has no fixed order there
    return masks.new_zeros(len(masks), n_latent).index_add(1, latent_of_frame, masks)


def _gathered_per_latent(masks: Tensor, latent_of_frame: Tensor, n_latent: int) -> Tensor:
    """The same sums in a fixed order."""
    n_frames = masks.shape[1]
    latent = torch.arange(n_latent, device=masks.device)
    places = torch.arange(2 * -(-n_frames // n_latent), device=masks.device)
    frames = torch.searchsorted(latent_of_frame, latent)[:, None] + places
    inside = frames.clamp(max=n_frames - 1)
    counted = (frames < n_frames) & (latent_of_frame[inside] == latent[:, None])
    return (masks[:, inside] * counted).sum(2)
