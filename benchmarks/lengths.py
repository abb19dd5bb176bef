"""The labels of onnxruntime and torch at every length: a soak, as 4,646 lengths take long.

Compares every length from 1 to 600 frames, and then every residue of the pooling and a random third up to 10,000. Takes
the folder of a model that was exported with `--onnx`. With `--done FILE`, the compared lengths are kept as JSON lines,
and the same command goes on after an interruption. Prints one JSON line; the exit status is 1 if a label differs or a
log probability differs by more than 1e-4.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np
import torch

import mucon
from mucon.export.runner import Runner, load_runner
from mucon.inference import MuConPredictor

EVERY, LONGEST, STEP = 600, 10_000, 7
"""Lengths up to which each is compared; the longest; the step between them, without a factor in common with pooling."""
TOLERANCE = 1e-4
"""Largest difference of a log probability."""


def lengths(seed: int) -> list[int]:
    """The compared lengths, ascending.

    >>> found = lengths(1)
    >>> found[:600] == list(range(1, 601)), found[-1], {T % 32 for T in found if T > 9_000} == set(range(32))
    (True, 10000, True)
    """
    rest = range(EVERY + 1, LONGEST + 1)
    chosen = random.Random(seed).sample(rest, len(rest) // 3)
    return sorted({*range(1, EVERY + 1), *rest[::STEP], *chosen, LONGEST})


def compared(runner: Runner, model: mucon.Model, T: int, seed: int) -> tuple[float, list[str]]:
    """The worst difference of log probabilities for random features, and the predictions with other labels."""
    predictor = model.predictor
    given = torch.randn(T, predictor.dim, generator=torch.Generator().manual_seed(seed + T))
    assert isinstance(predictor, MuConPredictor)
    with torch.no_grad():
        theirs = predictor.checkpoint.model.encode(given)[1].numpy()
    worst = float(np.abs(runner.log_probs(given.numpy()) - theirs).max())
    found = predictor.begin(given, predictions=model.predictions)().whole().segmentations
    names = {name: list(model.vocabulary.names(found[name].to_frame_labels())) for name in model.predictions}
    return worst, [name for name in names if runner.predict(given.numpy(), name).labels != names[name]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of `mucon export RUN DIR --onnx`, of the method mucon")
    parser.add_argument("--done", type=Path, help="file of the compared lengths, which a later command goes on with")
    parser.add_argument("--seed", type=int, default=1, help="of the random third, and of the features (default: 1)")
    parser.add_argument("--most", type=int, help="compare at most so many lengths now")
    options = parser.parse_args()
    done = options.done.read_text().splitlines() if options.done and options.done.exists() else []
    known = {one["T"]: one for one in map(json.loads, done) if one["seed"] == options.seed}
    runner, model = load_runner(options.model), mucon.load(options.model, "cpu")
    left = [T for T in lengths(options.seed) if T not in known][: options.most]
    for T in left:
        worst, differs = compared(runner, model, T, options.seed)
        known[T] = {"T": T, "seed": options.seed, "worst": worst, "differs": differs}
        if options.done:
            with options.done.open("a") as file:
                file.write(json.dumps(known[T]) + "\n")
    bad = [one for one in known.values() if one["differs"] or not one["worst"] <= TOLERANCE]
    value = {"benchmark": "onnx lengths", "seed": options.seed, "lengths": len(known), "of": len(lengths(options.seed))}
    worst = max((one["worst"] for one in known.values()), default=None)
    print(json.dumps({**value, "worst": worst, "tolerance": TOLERANCE, "bad": bad[:20]}))
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
