"""Everything that speaks MLflow's vocabulary; the only importer of mlflow."""
