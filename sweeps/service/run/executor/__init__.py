"""Executes trials with Ray Tune on this machine or a cluster; the only importer of ray."""
