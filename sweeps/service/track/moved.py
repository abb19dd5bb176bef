"""Artifacts follow a results folder that was moved or copied; MLflow keeps absolute paths and cannot change them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

FOLDER = "mlartifacts"


def follow(uri: str, recorded: str, location: str) -> None:
    """Replaces the place of the artifacts in a database without a server, if they are at another place now.

    Only places that this program chooses are replaced, and only if the artifacts are at the new one or nothing is at
    the old one.

    Args:
        uri: address of the database.
        recorded: place of the experiment's artifacts, as the database has it.
        location: place at which they belong.
    """
    old, new = Path(unquote(recorded)), Path(unquote(location))
    if recorded == location or old.name != FOLDER or not old.is_absolute():
        return
    if old.exists() and (not new.exists() or old.samefile(new)):
        return
    import sqlalchemy  # mlflow's own

    engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.pool.NullPool)
    with engine.begin() as connection:
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            connection.execute(
                sqlalchemy.text(
                    f"update {table} set {column} = :new || substr({column}, :rest)"
                    f" where {column} = :old or substr({column}, 1, :length) = :old || '/'"
                ),
                {"new": location, "old": recorded, "rest": len(recorded) + 1, "length": len(recorded) + 1},
            )
