"""Runs trials: Ray, worker, resources, estimate, reproduction; the only importer of ray."""
