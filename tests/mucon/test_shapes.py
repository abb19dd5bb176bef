"""The shapes in the signatures of masks and losses, checked while the functions run.

The annotations name jaxtyping, which is imported for type checkers only: the library runs without it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mucon import losses, masks
from mucon.config import MaskConfig
from mucon.model.backbone import latent_index

jaxtyping = pytest.importorskip("jaxtyping")
beartype = pytest.importorskip("beartype")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a function whose arguments and result are checked against its annotations."""
    names = {**function.__globals__, "Float": jaxtyping.Float, "Int": jaxtyping.Int, "Real": jaxtyping.Real}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = inspect.get_annotations(function, globals=names, eval_str=True)
    return jaxtyping.jaxtyped(copy, typechecker=beartype.beartype)


def public(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    }


def calls(T: int, n_latent: int, M: int, N: int) -> dict[str, tuple[Any, ...]]:
    """Arguments of every public function for T frames, T' latent frames, M segments and N actions."""
    log_lengths, logits = torch.randn(M), torch.randn(n_latent, N)
    index, transcript = latent_index(T, n_latent), torch.randint(N, (M,))
    lengths = masks.absolute_lengths(log_lengths, T)
    over_frames = masks.segment_masks(lengths, T, MaskConfig())
    over_latent = masks.frames_per_latent(over_frames, index, n_latent)
    return {
        "template": ("bell", 50),
        "absolute_lengths": (log_lengths, T),
        "stretched": (lengths, lengths, MaskConfig(overlap=0.1)),
        "segment_masks": (lengths, T, MaskConfig(shape="trapezoid", overlap=0.1)),
        "sample_template": (masks.template("box"), torch.randn(M, T)),
        "frames_per_latent": (over_frames, index, n_latent),
        "segment_consistency": (logits, over_latent, transcript, lengths),
        "frame_consistency": (logits, over_latent, transcript, T),
        "transcript_loss": (torch.randn(M + 1, N + 1), torch.cat((transcript, torch.tensor([N])))),
        "length_loss": (log_lengths,),
        "smoothing_loss": (logits, T),
        "frame_cross_entropy": (logits, index, torch.randint(N, (T,))),
        "supervised_length_loss": (log_lengths, torch.randint(1, 9, (M,))),
    }


FUNCTIONS = {**public(masks), **public(losses)}


@pytest.mark.parametrize("sizes", [(40, 5, 3, 4), (1, 1, 1, 2), (7, 7, 9, 3)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_takes_and_gives_the_shapes_of_its_signature(name: str, sizes: tuple[int, int, int, int]):
    checked(FUNCTIONS[name])(*calls(*sizes)[name])


def test_every_tensor_in_a_signature_has_a_shape():
    for name, function in FUNCTIONS.items():
        bare = [key for key, value in function.__annotations__.items() if value in ("Tensor", "torch.Tensor")]
        assert not bare, f"{name}: {bare}"


@pytest.mark.parametrize(
    ("name", "position", "wrong"),
    [
        ("segment_consistency", 1, torch.randn(3, 6)),
        ("segment_consistency", 2, torch.zeros(4, dtype=torch.long)),
        ("transcript_loss", 1, torch.zeros(5)),
        ("frames_per_latent", 1, torch.zeros(39, dtype=torch.long)),
    ],
)
def test_a_shape_that_does_not_fit_is_noticed(name: str, position: int, wrong: torch.Tensor):
    arguments = list(calls(40, 5, 3, 4)[name])
    arguments[position] = wrong
    with pytest.raises(jaxtyping.TypeCheckError):
        checked(FUNCTIONS[name])(*arguments)
