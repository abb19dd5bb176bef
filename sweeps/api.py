"""Everything that an experiment's file imports: the values that describe a sweep, and `main`."""

from sweeps.service.cli import main
from sweeps.service.spec.columns import (
    EDIT,
    F1,
    FULL_SUPERVISION_COLUMNS,
    INFERENCE_SECONDS,
    MATCHING_SCORE,
    MOF,
    MOF_OF_FRAMES,
    MOF_WITHOUT_BACKGROUND,
    MUCON_COLUMNS,
    TRAINING_SECONDS,
    Column,
    Variant,
)
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.quoted import Quoted, quoted_rows
from sweeps.service.spec.recipe import Recipe
from sweeps.service.spec.search import Bound, Choice, Integer, LogUniform, Search, Uniform

__all__ = [
    "EDIT",
    "F1",
    "FULL_SUPERVISION_COLUMNS",
    "INFERENCE_SECONDS",
    "MATCHING_SCORE",
    "MOF",
    "MOF_OF_FRAMES",
    "MOF_WITHOUT_BACKGROUND",
    "MUCON_COLUMNS",
    "TRAINING_SECONDS",
    "Bound",
    "Choice",
    "Collection",
    "Column",
    "Experiment",
    "Figure",
    "Integer",
    "LogUniform",
    "Quoted",
    "Recipe",
    "Search",
    "Uniform",
    "Variant",
    "main",
    "quoted_rows",
]
