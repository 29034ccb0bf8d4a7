# The service, its workers and the command line in one image. The last stage is the default:
#   docker build -t saiten .
#   docker build -t saiten:offline --target offline .
#   docker build -t saiten:bertscore --target bertscore --build-arg TORCH_INDEX_URL=… --build-arg TORCH_SHA256=… .
# TORCH_INDEX_URL is the address of PyTorch's index of CPU builds (see pytorch.org, "Get started"), and TORCH_SHA256 what it
# says behind the file of that version. All else has its hash in requirements/, which `make requirements` writes.
# Encoders lie in /models of the target bertscore, as the Hugging Face hub's cache: mount a volume there, or bake them in
# with --build-arg ENCODERS='NAME NAME'. What is missing is fetched there at first use.
FROM python:3.11-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PATH=/opt/saiten/bin:$PATH

FROM base AS build
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements requirements
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
    && python -m venv /opt/saiten \
    && /opt/saiten/bin/pip install --require-hashes -r requirements/image.txt
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY app app
COPY client client
COPY rubrics rubrics
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist ./client . \
    && /opt/saiten/bin/pip install --no-deps --no-index /dist/*.whl \
    && env -u PYTHONDONTWRITEBYTECODE /opt/saiten/bin/python -c "from saiten_server.platform.web.page import compile_templates as c; c()"

# What reads and writes files of results: `saiten offline`, `saiten gate` over files, and POST /v1/runs/adopt.
FROM build AS build-offline
RUN /opt/saiten/bin/pip install --no-deps --require-hashes -r requirements/image-offline.txt

FROM build AS build-bertscore
ARG TORCH_INDEX_URL
ARG TORCH_SHA256
# torch comes alone from there: all else is what the core's index has.
RUN echo "$(grep '^torch==' constraints.txt) --hash=sha256:${TORCH_SHA256:?name the hash with --build-arg TORCH_SHA256}" \
        > /dist/torch.txt \
    && /opt/saiten/bin/pip install --no-deps --require-hashes -r /dist/torch.txt \
        --index-url "${TORCH_INDEX_URL:?name the index of CPU builds with --build-arg TORCH_INDEX_URL}" \
    && /opt/saiten/bin/pip install --no-deps --require-hashes -r requirements/image-bertscore.txt

FROM build-bertscore AS weights
ARG ENCODERS=""
ENV HF_HOME=/models
RUN mkdir -p "$HF_HOME" \
    && for name in $ENCODERS; do \
        /opt/saiten/bin/python -c "import sys; from transformers import AutoModel, AutoTokenizer; [kind.from_pretrained(sys.argv[1]) for kind in (AutoModel, AutoTokenizer)]" "$name" \
        || exit 1; \
    done

# What runs: nothing but the interpreter and /opt/saiten, which belongs to root. Only /tmp and /var/lib/saiten are written.
FROM base AS runtime
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Saiten" \
      org.opencontainers.image.description="Scores what dialogue systems say in Japanese and Korean" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
RUN groupadd --gid 10001 saiten \
    && useradd --uid 10001 --gid 10001 --no-log-init --create-home --home-dir /var/lib/saiten saiten
# A worker answers its probes where the service does, so that one health check fits both.
ENV HOME=/var/lib/saiten \
    SAITEN_WORKER_METRICS_PORT=8000
USER 10001:10001
WORKDIR /var/lib/saiten
VOLUME /var/lib/saiten
EXPOSE 8000
STOPSIGNAL SIGTERM
# /livez, not /readyz: a database that is down is no reason to restart.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/livez', timeout=3)"]
ENTRYPOINT ["saiten"]
CMD ["serve", "--host", "0.0.0.0"]

FROM runtime AS bertscore
COPY --from=build-bertscore /opt/saiten /opt/saiten
COPY --from=weights --chown=10001:10001 /models /models
ENV HF_HOME=/models

FROM runtime AS offline
COPY --from=build-offline /opt/saiten /opt/saiten

FROM runtime AS core
COPY --from=build /opt/saiten /opt/saiten
