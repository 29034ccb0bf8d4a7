# The service, its workers and the command line in one image: `docker build -t saiten .`
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY app app
COPY rubrics rubrics
RUN python -m venv /opt/saiten \
    && /opt/saiten/bin/pip install --no-cache-dir '.[postgres]' -c constraints.txt

FROM python:3.12-slim
RUN useradd --uid 10001 --create-home --home-dir /var/lib/saiten saiten
COPY --from=build /opt/saiten /opt/saiten
ENV PATH=/opt/saiten/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /var/lib/saiten
EXPOSE 8000
ENTRYPOINT ["saiten"]
CMD ["serve", "--host", "0.0.0.0"]
