"""A training step against the time of its own matrix products, on whatever device there is.

The floor is the listed products alone: forward, weight gradient and input gradient of every matrix product of the
step, without the input gradient of the first layer and without the encoder's and decoder's recurrences.
Run as `python benchmarks/training_step.py [--threads 2] [--pairs 15]`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import compare
from mucon.config import TrainConfig
from mucon.model import NetworkSize, build_model
from mucon.optimiser import Optimiser
from mucon.step import video_losses

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


def floor(n_frames: int, n_segments: int, config: TrainConfig, device: torch.device) -> Callable[[], None]:
    """A call that does the listed products and nothing else."""
    jobs = []
    for rows, width, out, with_input in products(n_frames, n_segments, config):
        x = torch.randn(rows, width, device=device)
        weight = torch.randn(width, out, device=device)
        grad = torch.randn(rows, out, device=device)
        results = [torch.empty(rows, out, device=device), torch.empty_like(weight), torch.empty_like(x)]
        jobs.append((x, weight, grad, results, with_input))

    def run() -> None:
        for x, weight, grad, (forward, weight_grad, input_grad), with_input in jobs:
            torch.mm(x, weight, out=forward)
            torch.mm(x.t(), grad, out=weight_grad)
            if with_input:
                torch.mm(grad, weight.t(), out=input_grad)
        synchronise(device)

    return run


def step(n_frames: int, n_segments: int, config: TrainConfig, device: torch.device) -> Callable[[], None]:
    """A call that trains one step on a video in memory."""
    model = build_model(
        NetworkSize(dim=D, n_actions=N, max_segments=50), config.backbone, config.segment_branch, seed=1
    ).to(device)
    optimiser = Optimiser(model, config.training)
    random = np.random.default_rng(1)
    features = torch.from_numpy(random.standard_normal((n_frames, D), dtype=np.float32)).to(device)
    transcript = torch.from_numpy(random.integers(0, N, n_segments)).to(device)

    def run() -> None:
        torch.manual_seed(1)
        terms = video_losses(model(features, transcript), transcript, config.mask, config.loss)
        torch.autograd.backward(terms["total"])
        optimiser.step(1e-4)
        synchronise(device)

    return run


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
    for n_frames, n_segments in ((2100, 7), (9700, 25)):
        record = compare(
            "training_step",
            f"T={n_frames} float32",
            step(n_frames, n_segments, config, device),
            floor(n_frames, n_segments, config, device),
            of="its matrix products alone",
            n=args.pairs,
            threads=args.threads,
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
            gflop=round(
                sum(2e-9 * m * k * n * (3 if both else 2) for m, k, n, both in products(n_frames, n_segments, config)),
                2,
            ),
        )
        print(
            f"{1 / float(str(record['ours'])):.1f} steps per second at T={n_frames} on {record['cpu']}", file=sys.stderr
        )


if __name__ == "__main__":
    main()
