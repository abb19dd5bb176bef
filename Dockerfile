# mucon with all dependencies; docker-compose.yml runs its services from this image.
FROM python:3.11-slim
WORKDIR /opt/mucon
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python3 -m venv .venv && .venv/bin/pip install --quiet --requirement requirements.lock
COPY mucon mucon
COPY storage storage
COPY sweeps sweeps
RUN .venv/bin/pip install --quiet --no-deps .
ENV PATH=/opt/mucon/.venv/bin:$PATH \
    RAY_USAGE_STATS_ENABLED=0 \
    MLFLOW_DISABLE_TELEMETRY=true \
    DO_NOT_TRACK=1
