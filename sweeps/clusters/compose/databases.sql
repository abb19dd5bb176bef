-- Run once, when the volume of PostgreSQL is empty: users and permissions of MLflow are apart from its runs.
CREATE DATABASE mlauth;
