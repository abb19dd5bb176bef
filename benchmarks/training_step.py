"""A training step against the time of its own matrix products, on whatever device there is.

The floor is the listed products alone: forward, weight gradient and input gradient of every matrix product of the
step, without the input gradient of the first layer and without the encoder's and decoder's recurrences. For bfloat16
they are in bfloat16 too. A last case compares the step on features in a mapped store with that on features in memory.
Run as `python benchmarks/training_step.py [--threads 2] [--pairs 15]`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import compare
from mucon.config import TrainConfig
from mucon.device import cpu_name, usable_precision
from mucon.model import NetworkSize, build_model
from mucon.training.mucon_learner import parameter_groups
from mucon.training.optimiser import Optimiser
from mucon.training.step import video_losses
from mucon.videos import videos_of
from storage import StoreWriter, open_store

D, N = 2048, 48


def products(n_frames: int, n_segments: int, config: TrainConfig) -> Iterator[tuple[int, int, int, bool]]:
    """`(rows, in, out, input gradient too)` of each matrix product of a step."""
    channels, hidden = config.backbone.channels, config.segment_branch.hidden
    yield n_frames, D, channels, False
    rows = n_frames
    for layer in range(config.backbone.n_layers):
        taps = 3 if 2**layer < rows else 1
        yield from ((rows, channels, channels, True) for _ in range(taps + 1))
        if layer in config.backbone.pool_after:
            rows //= 2
    yield rows, channels, channels, True
    yield rows, channels, N, True
    yield rows, 2 * hidden, hidden, True
    yield rows, 2 * hidden, hidden, True
    steps = n_segments + 1
    yield steps, hidden, hidden, True
    yield steps, hidden, hidden, True
    yield steps, hidden, N + 1, True
    yield steps, hidden + N + 1, hidden // 2, True
    yield n_segments, rows, N, True


def floor(
    n_frames: int, n_segments: int, config: TrainConfig, device: torch.device, dtype: torch.dtype
) -> Callable[[], None]:
    """A call that does the listed products and nothing else."""
    jobs = []
    for rows, width, out, with_input in products(n_frames, n_segments, config):
        x = torch.randn(rows, width, device=device, dtype=dtype)
        weight = torch.randn(width, out, device=device, dtype=dtype)
        grad = torch.randn(rows, out, device=device, dtype=dtype)
        results = [grad.new_empty(rows, out), torch.empty_like(weight), torch.empty_like(x)]
        jobs.append((x, weight, grad, results, with_input))

    def run() -> None:
        for x, weight, grad, (forward, weight_grad, input_grad), with_input in jobs:
            torch.mm(x, weight, out=forward)
            torch.mm(x.t(), grad, out=weight_grad)
            if with_input:
                torch.mm(grad, weight.t(), out=input_grad)
        synchronise(device)

    return run


def step(
    n_segments: int, config: TrainConfig, device: torch.device, features_of: Callable[[], torch.Tensor]
) -> Callable[[], None]:
    """A call that trains one step on the features that `features_of` gives."""
    model = build_model(
        NetworkSize(dim=D, n_actions=N, max_segments=50), config.backbone, config.segment_branch, seed=1
    ).to(device)
    optimiser = Optimiser(model, config.training, parameter_groups(model))
    random = np.random.default_rng(1)
    transcript = torch.from_numpy(random.integers(0, N, n_segments)).to(device)

    def run() -> None:
        torch.manual_seed(1)
        terms = video_losses(model(features_of(), transcript), transcript, config.mask, config.loss)
        torch.autograd.backward(terms["total"])
        optimiser.step(1e-4)
        synchronise(device)

    return run


def in_memory(n_frames: int, device: torch.device, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    """Always the same features `[T, D]`, on the device."""
    features = torch.randn(n_frames, D, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    return lambda: features


def in_a_store(n_frames: int, device: torch.device, folder: Path, clips: int = 6) -> Callable[[], torch.Tensor]:
    """One clip of a mapped store after the other, read and put onto the device each time."""
    random = np.random.default_rng(1)
    with StoreWriter(folder, dim=D, dtype="float32", vocabulary=[f"a{n}" for n in range(N)]) as writer:
        for clip in range(clips):
            features = random.standard_normal((n_frames, D), dtype=np.float32)
            writer.add(f"clip{clip}", features, transcript=[0], lengths=[n_frames], splits=("1:train",))
    videos = itertools.cycle(videos_of(open_store(folder), "1", "train"))
    return lambda: next(videos).features(device)


def synchronise(device: torch.device) -> None:
    """Waits for an accelerator; a processor has nothing to wait for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = TrainConfig()
    common = {"n": args.pairs, "threads": args.threads, "device": name_of(device)}
    cases = ((2100, 7, torch.float32), (2100, 7, torch.bfloat16), (9700, 25, torch.float32))
    for n_frames, n_segments, dtype in cases:
        case = f"T={n_frames} {str(dtype).removeprefix('torch.')}"
        if dtype == torch.bfloat16 and usable_precision("bfloat16", device) != "bfloat16":
            print(f"{case}: {name_of(device) or cpu_name()} has no instructions for it", file=sys.stderr)
            continue
        operations = [2e-9 * m * k * n * (3 if both else 2) for m, k, n, both in products(n_frames, n_segments, config)]
        record = compare(
            "training_step",
            case,
            step(n_segments, config, device, in_memory(n_frames, device, dtype)),
            floor(n_frames, n_segments, config, device, dtype),
            of="its matrix products alone",
            gflop=round(sum(operations), 2),
            **common,
        )
        print(f"{1 / float(str(record['ours'])):.1f} steps per second at {case} on {record['cpu']}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        compare(
            "training_step",
            "T=2100 float32 from a mapped store",
            step(7, config, device, in_a_store(2100, device, Path(folder) / "store")),
            step(7, config, device, in_memory(2100, device, torch.float32)),
            of="the same step on features in memory",
            **common,
        )


def name_of(device: torch.device) -> str | None:
    """The GPU's name, None for the processor."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


if __name__ == "__main__":
    main()
