"""Everything that knows MLflow's vocabulary; the only importer of mlflow."""
