"""The settings, read from the environment once. Every setting is a field with its default and description."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from saiten.core.messages import Message, Misfit
from saiten.core.plain_text import printable
from saiten_server import __version__
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import SettingsInvalid
from saiten_server.platform.flow_state import LONGEST_PAUSE_SECONDS

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from saiten_server.platform.tracing import Tracing

DEFAULT_DATABASE_URL = "sqlite+aiosqlite:///saiten.db"
DEFAULT_MODEL = "gpt-6-luna"

READ_ELSEWHERE = frozenset({"SAITEN_LANGUAGE", "SAITEN_URL"})
"""Variables of clients and CI jobs, which are not settings of the server."""
NOT_OURS = re.compile(
    r"SAITEN_(?:TEST_\w*|(?:\w+_)?(?:SERVICE_(?:HOST|PORT\w*)|PORT(?:_\d+_(?:TCP|UDP)(?:_(?:ADDR|PORT|PROTO))?)?))"
)
"""Variables of the tests, and those that Kubernetes sets in a pod for every Service whose name begins with `saiten`."""
MOST_UNKNOWN = 5
NEAR = 0.8
"""How similar, in difflib's measure, a mistyped name must be to a known one."""


def blank_to_none(value: object) -> object:
    """`OPENAI_API_KEY=` in a CI file means no key."""
    return None if isinstance(value, str) and not value.strip() else value


def check_http_url(written: str | None) -> str | None:
    """The URL without surrounding spaces. Raises ValueError if it is not an HTTP URL."""
    if written is None:
        return None
    from saiten.core.addresses import is_http_url

    if not is_http_url(written.strip()):
        raise Misfit(Message("service-url-form"))
    return written.strip()


HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")


def check_host_names(written: str | None) -> str | None:
    """The names in lower case and without spaces. Raises ValueError if one is not a host name, such as an address with
    a port or a pattern."""
    if written is None:
        return None
    names = [name.strip().lower() for name in written.split(",") if name.strip()]
    for name in names:
        if not HOST_NAME.fullmatch(name):
            raise Misfit(Message("host-name-form", name=repr(name)))
    return ",".join(names)


Optional = BeforeValidator(blank_to_none)
Secret = Annotated[SecretStr | None, Optional]
Name = Annotated[str | None, Optional]
URL = Annotated[str | None, AfterValidator(check_http_url), Optional]
HostNames = Annotated[str | None, AfterValidator(check_host_names), Optional]


def usual(name: str) -> AliasChoices:
    """A variable that other tools use too, without the `SAITEN_` prefix."""
    return AliasChoices(name)


class Settings(BaseSettings):
    """Environment variables; those without an alias are prefixed `SAITEN_`."""

    model_config = SettingsConfigDict(
        env_prefix="SAITEN_", env_nested_delimiter="__", extra="ignore", frozen=True, populate_by_name=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """No `.env` file and no folder of secrets: to find out that there are none takes as long as all else here."""
        return init_settings, env_settings

    judge: Name = Field(
        default=None,
        description="which judge; without it OPENAI_API_KEY or OPENAI_BASE_URL chooses openai, neither of them lexical",
    )
    model: Name = Field(
        default=None, description=f"the judge model where a request names none; default: {DEFAULT_MODEL}"
    )
    relay_folder: Name = Field(
        default=None,
        description="with SAITEN_JUDGE=relay: the folder where questions are written and answers are read;"
        " `saiten judges run --judge relay:FOLDER` sets it",
    )
    judge_folder: Name = Field(
        default=None,
        description="with SAITEN_JUDGE=local: the folder of the model, as `transformers` saves it; see local-judge.md",
    )
    judge_device: Name = Field(
        default=None,
        description="with SAITEN_JUDGE=local: cpu, cuda or another that PyTorch knows; default: cuda if any",
    )
    judge_precision: Literal["bfloat16", "float16", "float32"] = Field(
        default="bfloat16", description="with SAITEN_JUDGE=local: the precision of the model's weights"
    )
    # Not `Secret`: a key that is set but empty is a lost secret, and `check_judge` says so.
    openai_api_key: SecretStr | None = Field(
        default=None,
        validation_alias=usual("OPENAI_API_KEY"),
        description="the judge's key; set but empty is an error, and an endpoint without keys needs none",
    )
    openai_base_url: URL = Field(
        default=None, validation_alias=usual("OPENAI_BASE_URL"), description="any OpenAI-compatible endpoint"
    )
    judge_timeout_seconds: float = Field(default=25.0, gt=0, description="time limit of one judge call")
    judge_deadline_seconds: float = Field(
        default=120.0, gt=0, description="time limit of a judge call with its retries"
    )
    judge_attempts: int = Field(default=5, ge=1, le=20, description="tries of one judge call")
    judge_malformed_retries: int = Field(
        default=2,
        ge=0,
        le=10,
        description="how often the judge is asked again for a reply that does not validly rate every aspect",
    )
    judge_lenient: bool = Field(
        default=False,
        description="what `judge.lenient` is where a request does not say: whether a verdict is also read in a code"
        " fence and behind one `<think>` block, for endpoints that cannot enforce a schema; see judges.md",
    )
    adopt_from: Name = Field(
        default=None,
        description="addresses below which runs that are adopted, and their texts, may be read from files, parted by"
        " spaces, such as `s3://results/{project}`, where `{project}` is the caller's; empty: files are only uploaded",
    )
    judge_extra: Name = Field(
        default=None,
        description="a JSON object of further members of every request to the judge's endpoint, and what requests may"
        " choose of them as `judge.extra`; see judges.md",
    )
    judge_window_tokens: int = Field(
        default=100_000,
        ge=1_000,
        description="a conversation of more estimated tokens is judged in several calls, whose windows overlap",
    )
    judge_concurrency: int = Field(
        default=32,
        ge=1,
        description="judge calls in flight at most: in this process, or with REDIS_URL in all together; with"
        " SAITEN_JUDGE=local how many the model of a process answers at once",
    )
    judge_requests_per_minute: Annotated[int | None, Optional] = Field(
        default=None, ge=1, description="the judge's rate limit; what its `x-ratelimit-*` headers say tightens it"
    )
    judge_tokens_per_minute: Annotated[int | None, Optional] = Field(
        default=None, ge=1, description="the judge's token limit, prompt and reply together; likewise"
    )
    longest_pause_seconds: float = Field(
        default=LONGEST_PAUSE_SECONDS,
        gt=0,
        le=86_400,
        description="a longer pause that the judge or the translator asks for is not believed: after this time one call"
        " is tried; `saiten reopen` ends a pause at once",
    )
    prices: Name = Field(default=None, description="a JSON file of model prices in place of the packaged one")

    deepl_api_key: Secret = Field(
        default=None, validation_alias=usual("DEEPL_API_KEY"), description="the translator's key"
    )
    deepl_server_url: URL = Field(
        default=None, validation_alias=usual("DEEPL_SERVER_URL"), description="a stand-in for DeepL's server"
    )
    translator_timeout_seconds: float = Field(default=30.0, gt=0, description="time limit of one translation call")
    translator_attempts: int = Field(default=4, ge=1, le=20, description="tries of one translation call")

    encoder: Name = Field(
        default=None, description="BERTScore encoder: a Hugging Face name, a local folder, or off; default by language"
    )
    encoder_ja: Name = Field(default=None, description="the encoder for Japanese, before SAITEN_ENCODER")
    encoder_ko: Name = Field(default=None, description="the encoder for Korean, before SAITEN_ENCODER")
    encoder_en: Name = Field(default=None, description="the encoder for English, before SAITEN_ENCODER")
    encoder_layer: Annotated[int | None, Optional] = Field(
        default=None, ge=1, description="hidden layer to take; default: bert-score's choice for the encoder"
    )
    encoder_device: Name = Field(
        default=None, description="cpu, cuda or another that PyTorch knows; default: cuda if any"
    )
    encoder_threads: Annotated[int | None, Optional] = Field(
        default=None, ge=1, description="PyTorch's threads; default: one a physical core, as far as the cgroup has them"
    )
    encoder_precision: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="float32 as bert-score has it; bfloat16 is for GPUs, and moves similarities by up to some 0.01",
    )
    encoder_timeout_seconds: float = Field(
        default=30.0, gt=0, description="how long an evaluation waits for its similarity before it goes on without"
    )

    database_url: str = Field(
        default=DEFAULT_DATABASE_URL, validation_alias=usual("DATABASE_URL"), description="an SQLAlchemy URL"
    )
    redis_url: Annotated[str | None, Optional] = Field(
        default=None,
        validation_alias=usual("REDIS_URL"),
        description="redis://HOST:PORT/N: queue, call cache and flow control for all processes; without, embedded",
    )
    redis_timeout_seconds: float = Field(
        default=1.0, gt=0, le=60, description="an answer of Redis that takes longer is done without"
    )
    cache: Annotated[Literal["redis", "sql", "memory", "off"] | None, Optional] = Field(
        default=None, description="where replies of outside calls are kept; default: redis with REDIS_URL, else sql"
    )
    cache_entries: int = Field(default=200_000, ge=1, description="how many replies sql and memory keep at most")
    cache_seconds: int = Field(default=30 * 86_400, ge=1, description="how long redis keeps a reply")
    cache_value_bytes: int = Field(default=256 * 1024, ge=1024, description="replies above this size are not kept")
    sinks: Secret = Field(
        default=None,
        description="a JSON object of the services that monitors may send results and alarms to: each address with its"
        ' key, or null; `{"https://hooks.example.org": null}`; see monitors.md',
    )
    lease_seconds: float = Field(
        default=15.0, ge=2, le=300, description="after how long without a sign of life a worker's items go to another"
    )
    worker_metrics_port: Annotated[int | None, Optional] = Field(
        default=None, ge=0, le=65535, description="where `saiten worker` answers /metrics, /livez and /readyz"
    )
    worker_metrics_host: str = Field(default="127.0.0.1", description="the address for them")
    provider_poll_seconds: float = Field(
        default=30.0, gt=0, description="how often a provider's batch is asked whether it is done"
    )
    rubrics: Name = Field(default=None, description="a folder with further rubric files")
    limits: Limits = Field(default_factory=Limits, description="SAITEN_LIMITS__TEXT_CHARACTERS and so on")
    body_timeout_seconds: float = Field(default=25.0, gt=0, description="how long a request body may take to arrive")
    drain_seconds: float = Field(
        default=5.0, ge=0, le=15, description="how long the service still listens after SIGTERM, not ready any more"
    )
    key_requests_per_minute: Annotated[int | None, Optional] = Field(
        default=None, ge=1, description="requests a minute of a key that has no limit of its own; default: any number"
    )
    key_usd_per_day: Annotated[float | None, Optional] = Field(
        default=None, gt=0, description="what a key may cost a day (UTC) where it has no limit of its own; default: any"
    )
    most_evaluations: int = Field(
        default=512, ge=1, description="evaluations that a service process has in hand at once; more are told to wait"
    )
    most_queued: Annotated[int | None, Optional] = Field(
        default=None, ge=1, description="candidates of all batches that may wait; more are turned away; default: any"
    )
    project_queued: Annotated[int | None, Optional] = Field(default=None, ge=1, description="the same for each project")
    project_streams: int = Field(
        default=100, ge=1, description="pages and clients of a project that follow runs in one process; more get 429"
    )
    project_bytes: Annotated[int | None, Optional] = Field(
        default=100_000_000_000,
        ge=1,
        description="what a project may store, in bytes of texts and results; empty: any number; see limits.md",
    )
    trace_days: float = Field(
        default=30.0,
        gt=0,
        le=36_500,
        description="how long live conversations are kept after their last span; see traces.md",
    )
    tracing: Literal["off", "otlp"] = Field(
        default="off", description="OpenTelemetry traces over OTLP, as OTEL_EXPORTER_OTLP_ENDPOINT says (extra tracing)"
    )
    allow_anonymous: bool = Field(
        default=False, description="answer beyond loopback although no API keys are configured"
    )
    allowed_hosts: HostNames = Field(
        default=None,
        description="names, separated by commas, by which callers without a key may reach the service beside localhost,"
        " addresses and names without a dot: saiten.example.org",
    )
    secure_cookies: bool = Field(
        default=False,
        description="send the dashboard's cookies over https alone; for a service behind a proxy that ends TLS",
    )
    api_key: Secret = Field(default=None, description="the key that `saiten score --url` sends")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="how much is logged")

    @property
    def judge_key(self) -> str:
        """The judge's key; empty if there is none."""
        key = self.openai_api_key.get_secret_value() if self.openai_api_key else ""
        return key if key.strip() else ""

    @property
    def judge_model(self) -> str:
        return self.model or DEFAULT_MODEL

    @property
    def cache_kind(self) -> Literal["redis", "sql", "memory", "off"]:
        return self.cache or ("redis" if self.redis_url else "sql")

    @property
    def encoders(self) -> dict[str, str]:
        """The configured encoders by language."""
        chosen = {"ja": self.encoder_ja, "ko": self.encoder_ko, "en": self.encoder_en}
        return {language: name for language, name in chosen.items() if name}

    @property
    def sqlalchemy_url(self) -> str:
        """`database_url` with an asynchronous driver; plain `postgresql://` and `sqlite://` are accepted too, and
        several hosts of PostgreSQL as `psql` takes them."""
        scheme, separator, rest = self.database_url.partition("://")
        drivers = {"postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}
        driver = drivers.get(scheme, scheme)
        return driver + separator + (name_hosts(rest) if driver == "postgresql+asyncpg" else rest)

    @field_validator("api_key")
    @classmethod
    def _check_api_key(cls, key: SecretStr | None) -> SecretStr | None:
        from saiten.core.addresses import check_key

        check_key(key.get_secret_value() if key else "")
        return key

    @model_validator(mode="after")
    def _check_encoder_layer(self) -> Self:
        if self.encoder_layer is not None and not (self.encoder or self.encoders):
            raise Misfit(Message("encoder-layer-alone"))
        return self

    @model_validator(mode="after")
    def _check_redis_url(self) -> Self:
        scheme, _, rest = (self.redis_url or "redis://").partition("://")
        if "sentinel" in scheme or "," in rest.partition("/")[0].rpartition("@")[2]:
            raise Misfit(SENTINEL)
        if scheme not in {"redis", "rediss", "unix"}:
            raise Misfit(Message("redis-url-form"))
        if self.cache == "redis" and self.redis_url is None:
            raise Misfit(Message("cache-needs-redis"))
        return self

    @model_validator(mode="after")
    def _check_database_url(self) -> Self:
        if not self.sqlalchemy_url.startswith(("sqlite+aiosqlite://", "postgresql+asyncpg://")):
            raise Misfit(Message("database-url-form"))
        return self


SENTINEL = Message("redis-url-of-several")


def name_hosts(rest: str) -> str:
    """What follows `postgresql://`, with several hosts (`USER@A:5432,B/NAME`) in the query, where SQLAlchemy takes
    them. Of these the one that takes writes is connected to, unless `target_session_attrs` says otherwise."""
    authority, _, path = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    if "," not in hosts:
        return rest
    name, _, query = path.partition("?")
    parts = [f"host={host if ':' in host else f'{host}:5432'}" for host in hosts.split(",")]
    parts += [query] if query else []
    parts += [] if "target_session_attrs=" in query else ["target_session_attrs=read-write"]
    return f"{user}{at}/{name}?{'&'.join(parts)}"


def variable_of(field: str) -> str:
    """The environment variable of a field: `judge` is SAITEN_JUDGE, `openai_api_key` is OPENAI_API_KEY."""
    alias = Settings.model_fields[field].validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else f"SAITEN_{field.upper()}"


def find_unknown(environment: Iterable[str]) -> Message | None:
    """One sentence that names unknown variables with Saiten's prefix, each with the most similar setting; None if there
    are none."""
    known = [variable_of(field) for field in Settings.model_fields]
    known += [f"SAITEN_LIMITS__{name.upper()}" for name in Limits.model_fields]
    # pydantic-settings does not tell upper from lower case.
    unknown = sorted(name for name in environment if name.upper().startswith("SAITEN_") and name.upper() not in known)
    unknown = [name for name in unknown if name not in READ_ELSEWHERE and not NOT_OURS.match(name)]
    if not unknown:
        return None
    named = []
    for name in unknown[:MOST_UNKNOWN]:
        near = get_close_matches(name.upper(), known, n=1, cutoff=NEAR)
        shown = printable(name[:64])
        named.append(Message("setting-meant", name=shown, near=near[0]) if near else Message("verbatim", text=shown))
    if len(unknown) > MOST_UNKNOWN:
        return Message("settings-unknown-and-more", names=named, more=len(unknown) - MOST_UNKNOWN)
    return Message("settings-unknown", names=named)


def read_settings(**given: Any) -> Settings:
    """The settings of this process; those that are `given` by the names of fields come before the environment's. Raises
    SettingsInvalid, which names each invalid variable."""
    try:
        return Settings(**given)
    except ValidationError as error:
        faults = [_explain(fault) for fault in error.errors(include_input=False)]
        raise SettingsInvalid(Message("settings-invalid", faults=faults)) from None
    except SettingsError:
        # Only `limits` is parsed as JSON if it is set as a whole.
        raise SettingsInvalid(Message("limits-form")) from None


def _explain(error: ErrorDetails) -> Message:
    from saiten.core.faults import describe_fault

    message = describe_fault(error)
    location = [str(part) for part in error["loc"]]
    if not location:
        return message
    first, *rest = location
    name = variable_of(first) if first in Settings.model_fields else first
    return Message("fault-at", where="__".join([name, *(part.upper() for part in rest)]), fault=message)


def open_tracing(settings: Settings) -> Tracing | None:
    """The recorder of traces; None if they are off, in which case OpenTelemetry is not imported. Raises SettingsInvalid
    if OpenTelemetry is not installed or one of its variables is invalid."""
    if settings.tracing == "off":
        return None
    try:
        from saiten_server.platform.tracing import Tracing
    except ModuleNotFoundError as error:
        raise SettingsInvalid(Message("tracing-not-installed", package=error.name)) from error
    return Tracing(__version__)
