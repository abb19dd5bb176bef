# mucon with its locked dependencies; docker-compose.yml runs MLflow and Ray from this image.
#   docker build --tag mucon:cpu .
#   docker build --tag mucon:cuda --build-arg TORCH=cuda .
# The digest is that of Python 3.11.16. `docker buildx imagetools inspect python:3.11-slim` prints the current one.
ARG BASE=python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

# Only the names of the dependencies, so that other changes of pyproject.toml do not install them again.
FROM ${BASE} AS names
COPY pyproject.toml /
RUN python3 -c "import tomllib; p = tomllib.load(open('/pyproject.toml', 'rb'))['project']; e = p['optional-dependencies']; print(*p['dependencies'], *e['cluster'], *e['postgresql'], sep='\n')" > /names.txt

FROM ${BASE} AS dependencies
ARG TORCH=cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY --from=names /names.txt /
COPY requirements.lock /
RUN python3 -m venv --without-pip /opt/venv && \
    case "$TORCH" in \
      cpu) index=--index-url=https://download.pytorch.org/whl/cpu ;; \
      cuda) index= ;; \
      *) echo "TORCH is cpu or cuda, got $TORCH" >&2; exit 1 ;; \
    esac && \
    python3 -m pip --python /opt/venv/bin/python install --quiet --no-deps $index \
      "$(grep ^torch== /requirements.lock)" && \
    python3 -m pip --python /opt/venv/bin/python install --quiet --requirement /names.txt --constraint /requirements.lock && \
    cd /opt/venv/lib/python3.*/site-packages && \
    rm -rf ray/jars torch/include torch/test torch/bin/protoc* torch/bin/test_* && \
    find . -type d -name tests -prune -exec rm -r {} +

FROM dependencies AS package
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY storage storage
COPY mucon mucon
COPY sweeps sweeps
RUN python3 -m pip --python /opt/venv/bin/python install --quiet --no-deps --prefix /package .

FROM ${BASE}
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=package /package /opt/venv
WORKDIR /opt/mucon
ARG UID=1000
ARG GID=1000
RUN groupadd --non-unique --gid $GID mucon && \
    useradd --non-unique --uid $UID --gid $GID --create-home mucon && \
    install --directory --owner mucon --group mucon stores results /artifacts && \
    ln -s /opt/venv/lib/python3.*/site-packages/sweeps sweeps
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    RAY_USAGE_STATS_ENABLED=0 \
    MLFLOW_DISABLE_TELEMETRY=true \
    DO_NOT_TRACK=true
USER ${UID}:${GID}
HEALTHCHECK --interval=5m --timeout=30s CMD ["mucon", "--help"]
CMD ["mucon", "--help"]
