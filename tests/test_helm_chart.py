"""The Helm chart, rendered with Helm itself: what it makes is valid, closed and free of secrets."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from saiten_server.cli import serve, worker
from saiten_server.governance.keys import APIKeyStore
from saiten_server.platform.settings import Settings, read_settings, variable_of
from saiten_server.platform.sql.engine import open_engine
from saiten_server.platform.sql.schema import migrate
from saiten_server.providers.registry import find_judge
from tests.support.waiting import LIMIT_SECONDS

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this platform")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")

ROOT = Path(__file__).parents[1]
CHART = ROOT / "helm" / "saiten"
SETS = {
    path.stem.removesuffix("-values").removeprefix("values-"): path
    for path in [*sorted(CHART.glob("ci/*-values.yaml")), *sorted(CHART.glob("values-*.yaml"))]
}
CUSTOM = {"ScaledObject", "ServiceMonitor", "PrometheusRule"}
"""Resources of operators, which Kubernetes's own schema does not know."""

PODS = {"Deployment", "Job"}
POSTGRES = {"urlSecret": {"name": "saiten-database"}}
REDIS = {"urlSecret": {"name": "saiten-redis"}}

Manifest = dict[str, Any]


def values_of(name: str) -> Manifest:
    loaded: Manifest = yaml.safe_load(SETS[name].read_text())
    return loaded


def render(values: Manifest) -> list[Manifest]:
    with helm.Chart.load(CHART) as chart:
        rendered = chart.render(values, name="demo", namespace="evaluation")
    documents = [text for path, text in rendered.items() if not path.endswith("NOTES.txt")]
    return [document for text in documents for document in yaml.safe_load_all(text) if document]


@cache
def rendered(name: str) -> list[Manifest]:
    return render(values_of(name))


def pick(manifests: list[Manifest], kind: str, name: str | None = None) -> Manifest:
    (found,) = [one for one in manifests if one["kind"] == kind and name in {None, one["metadata"]["name"]}]
    return found


def kinds(manifests: list[Manifest]) -> list[str]:
    return [one["kind"] for one in manifests]


def pods(manifests: list[Manifest]) -> Iterator[Manifest]:
    return (one["spec"]["template"]["spec"] for one in manifests if one["kind"] in PODS)


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def main_container(manifests: list[Manifest], name: str) -> Manifest:
    found: Manifest = pick(manifests, "Deployment", name)["spec"]["template"]["spec"]["containers"][0]
    return found


def env_of(container: Manifest) -> dict[str, Manifest]:
    return {one["name"]: one for one in container.get("env", [])}


every_set = pytest.mark.parametrize("name", sorted(SETS))


def test_the_value_sets_are_those_that_sites_have():
    assert set(SETS) >= {"minimal", "external", "tls", "keda", "no-redis", "large", "laptop", "weights"}


@every_set
def test_helm_finds_nothing_to_warn_of(name):
    report = helm.lint(CHART, values_of(name), strict=True)
    assert report["errors"] == []
    assert [one for one in report["messages"] if one["severity"] > 1] == []


@every_set
@pytest.mark.parametrize("version", ["1.27", kubernetes_validate.latest_version()])
def test_every_manifest_is_what_kubernetes_takes(name, version):
    for manifest in rendered(name):
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, version, strict=True)


@every_set
def test_names_are_unique_and_every_manifest_carries_the_release(name):
    manifests = rendered(name)
    names = [(one["kind"], one["metadata"]["name"]) for one in manifests]
    assert len(names) == len(set(names))
    assert {one["metadata"]["labels"]["app.kubernetes.io/instance"] for one in manifests} == {"demo"}


@every_set
def test_every_pod_runs_as_nobody_on_a_root_it_cannot_write(name):
    for pod in pods(rendered(name)):
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] >= 10_000
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in containers(pod):
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"] is True
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert "runAsUser" not in own
            assert "privileged" not in own


@every_set
def test_every_mount_has_its_volume_and_tmp_can_be_written(name):
    for pod in pods(rendered(name)):
        volumes = {one["name"]: one for one in pod["volumes"]}
        for container in containers(pod):
            mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
            assert set(mounts.values()) <= set(volumes)
            assert "emptyDir" in volumes[mounts["/tmp"]]


@every_set
def test_every_container_says_what_it_needs(name):
    for pod in pods(rendered(name)):
        for container in containers(pod):
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]


@every_set
def test_services_are_probed_and_have_time_to_stop(name):
    for manifest in rendered(name):
        if manifest["kind"] != "Deployment":
            continue
        pod = manifest["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] >= 30
        (container,) = pod["containers"]
        paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
        assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
        ports = {one["name"] for one in container["ports"]}
        assert {container[probe]["httpGet"]["port"] for probe in paths} <= ports


@every_set
def test_selectors_find_their_pods(name):
    manifests = rendered(name)
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in manifests if one["kind"] in PODS]
    for manifest in manifests:
        if manifest["kind"] in {"Deployment", "PodDisruptionBudget"}:
            selector = manifest["spec"]["selector"]["matchLabels"]
        elif manifest["kind"] == "Service":
            selector = manifest["spec"]["selector"]
        else:
            continue
        assert len([one for one in labels if selector.items() <= one.items()]) == 1, manifest["metadata"]["name"]


@every_set
def test_scaling_names_a_deployment_that_leaves_its_count_open(name):
    manifests = rendered(name)
    for manifest in manifests:
        if manifest["kind"] in {"HorizontalPodAutoscaler", "ScaledObject"}:
            target = pick(manifests, "Deployment", manifest["spec"]["scaleTargetRef"]["name"])
            assert "replicas" not in target["spec"]


@every_set
def test_no_manifest_holds_a_secret(name):
    manifests = rendered(name)
    assert "Secret" not in kinds(manifests)
    # A URL with a password in it, and the like of an API key.
    assert not re.search(r"://[^/\s\"]*:[^/\s\"@]+@|\bsk-[A-Za-z0-9]{8}", json.dumps(manifests))
    secret = {"DATABASE_URL", "REDIS_URL", "OPENAI_API_KEY", "DEEPL_API_KEY", "SAITEN_API_KEY"}
    for manifest in manifests:
        assert manifest["kind"] != "ConfigMap" or not secret & set(manifest["data"])
    for pod in pods(manifests):
        for container in containers(pod):
            for variable, entry in env_of(container).items():
                assert variable not in secret or "valueFrom" in entry or entry["value"].startswith("sqlite+aiosqlite:")


@every_set
def test_settings_are_ones_that_the_service_knows(name, monkeypatch):
    data = pick(rendered(name), "ConfigMap", "demo-saiten")["data"]
    known = {variable_of(field) for field in Settings.model_fields}
    assert {variable for variable in data if not variable.startswith(("HF_", "OTEL_"))} <= known
    for variable, value in {**data, "OPENAI_API_KEY": "any", "DATABASE_URL": "postgresql://h/n"}.items():
        monkeypatch.setenv(variable, value)
    assert find_judge(read_settings()).name in {"openai", "lexical"}


def test_without_a_judge_nothing_is_said_of_one():
    manifests = render({})
    data, env = pick(manifests, "ConfigMap")["data"], env_of(main_container(manifests, "demo-saiten"))
    assert not {name for name in (*data, *env) if name.startswith(("OPENAI_", "SAITEN_JUDGE", "SAITEN_MODEL"))}


def test_an_endpoint_without_keys_needs_no_secret():
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    url = "http://vllm:8000/v1"
    manifests = render({"judge": {"baseUrl": url, "model": "qwen3", "extra": extra}})
    data = pick(manifests, "ConfigMap")["data"]
    assert (data["OPENAI_BASE_URL"], data["SAITEN_MODEL"]) == (url, "qwen3")
    assert json.loads(data["SAITEN_JUDGE_EXTRA"]) == extra
    assert "OPENAI_API_KEY" not in env_of(main_container(manifests, "demo-saiten"))


def test_settings_keep_what_the_values_say():
    data = pick(rendered("external"), "ConfigMap", "demo-saiten")["data"]
    assert data["SAITEN_JUDGE"] == "openai"
    assert data["OPENAI_BASE_URL"] == "https://llm.example.org/v1"
    assert data["SAITEN_RUBRICS"] == "/etc/saiten/rubrics"
    assert data["SAITEN_ALLOW_ANONYMOUS"] == "false"
    assert "SAITEN_ALLOWED_HOSTS" not in data
    opened = {"allowAnonymous": True, "ingress": {"enabled": True, "host": "saiten.example.org"}}
    names = pick(render(opened), "ConfigMap")["data"]["SAITEN_ALLOWED_HOSTS"].split(",")
    service = "demo-saiten.evaluation.svc"
    assert names == [service, f"{service}.cluster.local", "saiten.example.org"]


def test_traces_go_where_the_values_say_and_may():
    manifests = rendered("external")
    data = pick(manifests, "ConfigMap", "demo-saiten")["data"]
    assert data["SAITEN_TRACING"] == "otlp"
    assert data["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector.monitoring:4318"
    assert data["OTEL_TRACES_SAMPLER_ARG"] == "0.1"
    assert pick(manifests, "NetworkPolicy", "demo-saiten")["spec"]["egress"][-1]["ports"] == [
        {"protocol": "TCP", "port": 4318}
    ]
    for endpoint, port in (("https://otel.example.org", 443), ("http://otel.example.org/traces", 80)):
        policy = pick(render({"tracing": {"endpoint": endpoint}}), "NetworkPolicy")
        assert policy["spec"]["egress"][-1]["ports"] == [{"protocol": "TCP", "port": port}]
    data = pick(rendered("minimal"), "ConfigMap", "demo-saiten")["data"]
    assert not any(name.startswith("OTEL_") or name == "SAITEN_TRACING" for name in data)


@pytest.mark.parametrize(
    ("deployment", "command"), [("demo-saiten", serve.command), ("demo-saiten-worker", worker.command)]
)
def test_the_command_line_takes_the_arguments(deployment: str, command: click.Command):
    container = main_container(rendered("large"), deployment)
    word, *arguments = container["args"]
    given = command.make_context(word, arguments).params
    assert word == command.name
    assert "0.0.0.0" in given.values()
    assert container["ports"][0]["containerPort"] in given.values()


def test_secrets_are_referred_to_where_they_are_needed():
    manifests = rendered("external")
    for deployment in ("demo-saiten", "demo-saiten-worker"):
        env = env_of(main_container(manifests, deployment))
        found = {name: entry["valueFrom"]["secretKeyRef"] for name, entry in env.items()}
        assert found == {
            "DATABASE_URL": {"name": "saiten-database", "key": "url"},
            "REDIS_URL": {"name": "saiten-redis", "key": "url"},
            "OPENAI_API_KEY": {"name": "saiten-judge", "key": "OPENAI_API_KEY"},
            "DEEPL_API_KEY": {"name": "saiten-deepl", "key": "key"},
            "OTEL_EXPORTER_OTLP_HEADERS": {"name": "saiten-collector", "key": "OTEL_EXPORTER_OTLP_HEADERS"},
            "SAITEN_SINKS": {"name": "saiten-sinks", "key": "SAITEN_SINKS"},
        }
    (migration,) = pick(manifests, "Job")["spec"]["template"]["spec"]["containers"]
    assert set(env_of(migration)) == {"DATABASE_URL"}


def test_minimal_is_one_process_with_its_volume():
    manifests = rendered("minimal")
    assert sorted(kinds(manifests)) == sorted(
        ["ConfigMap", "Deployment", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget", "Service"]
    )
    api = pick(manifests, "Deployment")
    assert api["spec"]["replicas"] == 1
    assert api["spec"]["strategy"] == {"type": "Recreate"}
    claims = [one["persistentVolumeClaim"]["claimName"] for one in api["spec"]["template"]["spec"]["volumes"][1:]]
    assert claims == [pick(manifests, "PersistentVolumeClaim")["metadata"]["name"]]
    folder = next(one for one in main_container(manifests, "demo-saiten")["volumeMounts"] if one["name"] == "data")
    url = env_of(main_container(manifests, "demo-saiten"))["DATABASE_URL"]["value"]
    assert url == f"sqlite+aiosqlite:///{folder['mountPath']}/saiten.db"


def test_without_redis_there_is_no_worker_and_nothing_of_its():
    manifests = rendered("no-redis")
    assert [one["metadata"]["name"] for one in manifests if one["kind"] == "Deployment"] == ["demo-saiten"]
    assert kinds(manifests).count("Service") == 1
    assert "PersistentVolumeClaim" not in kinds(manifests)
    assert "Job" in kinds(manifests)


def test_an_own_certificate_authority_reaches_every_process():
    manifests = rendered("tls")
    for pod in pods(manifests):
        (volume,) = [one for one in pod["volumes"] if one["name"] == "tls"]
        assert volume["secret"] == {"secretName": "saiten-ca", "items": [{"key": "root.pem", "path": "ca.crt"}]}
        for container in containers(pod):
            assert {"name": "tls", "mountPath": "/etc/saiten/tls", "readOnly": True} in container["volumeMounts"]
            assert env_of(container)["PGSSLROOTCERT"]["value"] == "/etc/saiten/tls/ca.crt"
    ingress = pick(manifests, "Ingress")["spec"]
    assert ingress["tls"] == [{"hosts": ["saiten.example.org"], "secretName": "saiten-tls"}]


def test_migration_runs_before_the_new_processes_and_leans_on_nothing_of_the_chart():
    job = pick(rendered("external"), "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    pod = job["spec"]["template"]["spec"]
    assert "serviceAccountName" not in pod
    assert all("envFrom" not in container for container in pod["containers"])
    assert pod["containers"][0]["command"] == ["python", "-I", "-m", "saiten_server", "database", "upgrade"]


def test_keda_scales_workers_by_the_age_of_the_queue():
    manifests = rendered("keda")
    assert "HorizontalPodAutoscaler" not in kinds(manifests)
    scaled = pick(manifests, "ScaledObject")
    assert scaled["apiVersion"] == "keda.sh/v1alpha1"
    spec = scaled["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 10)
    assert spec["scaleTargetRef"]["name"] == "demo-saiten-worker"
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "prometheus"
    assert trigger["metadata"]["serverAddress"] == "http://prometheus:9090"
    assert trigger["metadata"]["threshold"] == "60"
    labels = 'namespace="evaluation",service="demo-saiten-worker"'
    assert trigger["metadata"]["query"] == f"max(saiten_batch_backlog_age_seconds{{{labels}}}) or vector(0)"


def test_prometheus_finds_api_and_workers():
    manifests = rendered("keda")
    monitor = pick(manifests, "ServiceMonitor")
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    selector = monitor["spec"]["selector"]["matchLabels"]
    services = [one for one in manifests if one["kind"] == "Service"]
    assert all(selector.items() <= one["metadata"]["labels"].items() for one in services)
    asked = {(one["port"], one["path"]) for one in monitor["spec"]["endpoints"]}
    assert asked == {(one["spec"]["ports"][0]["name"], "/metrics") for one in services}


def test_alerts_are_those_of_the_file():
    rule = pick(rendered("large"), "PrometheusRule")
    assert rule["apiVersion"] == "monitoring.coreos.com/v1"
    assert rule["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    rules = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    assert rules
    assert all("expr" in one and ("alert" in one or "record" in one) for one in rules)


def test_the_dashboard_is_the_file():
    found = pick(rendered("large"), "ConfigMap", "demo-saiten-dashboard")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["saiten.json"]) == json.loads((CHART / "files" / "dashboard.json").read_text())


def test_the_network_policy_lets_in_neighbours_and_out_to_named_ports():
    policy = pick(rendered("no-redis"), "NetworkPolicy", "demo-saiten")["spec"]
    assert policy["ingress"][0]["from"] == [{"podSelector": {}}]
    assert [[one["port"] for one in rule["ports"]] for rule in policy["egress"]] == [[53, 53], [443, 5432]]
    large = pick(rendered("large"), "NetworkPolicy", "demo-saiten")["spec"]
    assert len(large["ingress"][0]["from"]) == 3


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://ollama.models:11434/v1", 11434),
        ("http://vllm/v1", 80),
        ("https://llm.example.org/v1", 443),
        ("https://[fd00::1]:8443/v1", 8443),
    ],
)
def test_the_port_of_the_judge_and_the_translator_is_opened(url: str, port: int) -> None:
    for values in ({"judge": {"baseUrl": url}}, {"translator": {"serverUrl": url}}):
        policy = pick(render(values), "NetworkPolicy", "demo-saiten")["spec"]
        assert policy["egress"][-1] == {"ports": [{"protocol": "TCP", "port": port}]}


def test_pods_take_further_volumes_and_a_priority() -> None:
    volume = {"name": "client-tls", "secret": {"secretName": "client"}}
    mount = {"name": "client-tls", "mountPath": "/etc/client", "readOnly": True}
    given = {"priorityClassName": "evaluation", "extraVolumes": [volume], "extraVolumeMounts": [mount]}
    manifests = render({**given, "database": POSTGRES, "redis": REDIS, "tls": {"caSecret": {"name": "ca"}}})
    found = list(pods(manifests))
    assert [pod["priorityClassName"] for pod in found] == ["evaluation"] * 3
    for manifest in manifests:
        if manifest["kind"] in PODS:
            kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    for name in ("demo-saiten", "demo-saiten-worker"):
        pod = pick(manifests, "Deployment", name)["spec"]["template"]["spec"]
        assert volume in pod["volumes"]
        assert all(mount in container["volumeMounts"] for container in containers(pod))
    assert not any("priorityClassName" in pod for pod in pods(rendered("minimal")))


def test_the_migration_may_go_out_before_the_policy_of_all_is_there():
    policy = pick(rendered("large"), "NetworkPolicy", "demo-saiten-migrate")
    hook = policy["metadata"]["annotations"]
    assert (hook["helm.sh/hook"], int(hook["helm.sh/hook-weight"])) == ("pre-install,pre-upgrade", -5)
    job = pick(rendered("large"), "Job")["spec"]["template"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= job["metadata"]["labels"].items()
    everybody = pick(rendered("large"), "NetworkPolicy", "demo-saiten")["spec"]
    assert policy["spec"]["egress"] == everybody["egress"]
    assert "NetworkPolicy" not in kinds(render({"networkPolicy": {"enabled": False}, "database": POSTGRES}))


def test_the_migration_runs_where_the_api_may():
    where = {"nodeSelector": {"pool": "eval"}, "tolerations": [{"key": "eval", "operator": "Exists"}]}
    job = pick(render({"database": POSTGRES, "api": where}), "Job")["spec"]["template"]["spec"]
    assert {name: job[name] for name in where} == where


def test_behind_tls_cookies_are_for_https_alone():
    tls = {"ingress": {"enabled": True, "host": "h.example", "tlsSecretName": "t"}}
    assert pick(render(tls), "ConfigMap")["data"]["SAITEN_SECURE_COOKIES"] == "true"
    assert "SAITEN_SECURE_COOKIES" not in pick(render({}), "ConfigMap")["data"]


def test_a_proxy_and_an_authority_can_be_named():
    given = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".svc", "SSL_CERT_FILE": "/etc/saiten/tls/ca.crt"}
    data = pick(render({"settings": given}), "ConfigMap")["data"]
    assert {name: data[name] for name in given} == given


def test_weights_are_mounted_read_only():
    container = main_container(rendered("weights"), "demo-saiten")
    assert {"name": "weights", "mountPath": "/models", "readOnly": True} in container["volumeMounts"]
    (pod,) = pods(render({"encoder": {"weights": {"hostPath": "/srv/models"}}}))
    assert {"name": "weights", "hostPath": {"path": "/srv/models", "type": "Directory"}} in pod["volumes"]


def test_encoders_are_fetched_only_where_the_values_say_so():
    def cache_of(values: Manifest) -> tuple[str | None, str | None]:
        data = pick(render(values), "ConfigMap", "demo-saiten")["data"]
        return data.get("HF_HOME"), data.get("HF_HUB_OFFLINE")

    assert cache_of({}) == (None, "1")
    assert cache_of({"encoder": {"weights": {"existingClaim": "weights"}}}) == ("/models", "1")
    assert cache_of({"encoder": {"download": True}}) == ("/tmp/huggingface", None)


def test_a_change_of_settings_restarts_the_pods():
    sums = {
        pick(render({"judge": {"model": model, "baseUrl": "http://h/v1"}}), "Deployment")["spec"]["template"][
            "metadata"
        ]["annotations"]["checksum/settings"]
        for model in ("one", "other")
    }
    assert len(sums) == 2


REFUSED: list[tuple[Manifest, str]] = [
    ({"api": {"replicas": 0}}, "/api/replicas': minimum: got 0, want 1"),
    ({"api": {"replicas": "two"}}, "/api/replicas': got string, want integer"),
    ({"replicas": 2}, "additional properties 'replicas' not allowed"),
    ({"api": {"replicaCount": 2}}, "/api': additional properties 'replicaCount' not allowed"),
    ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy': value must be one of 'Always'"),
    ({"image": {"digest": "sha256:abc"}}, "/image/digest': 'sha256:abc' does not match pattern"),
    ({"database": {"url": "postgresql://u:p@h/n"}}, "/database': additional properties 'url' not allowed"),
    ({"database": {"persistence": {"size": "ten"}}}, "/database/persistence/size': 'ten' does not match pattern"),
    ({"database": {"urlSecret": {"name": "Not A Name"}}}, "/database/urlSecret/name': 'Not A Name' does not match"),
    ({"judge": {"kind": "human"}}, "/judge/kind': value must be one of '', 'openai', 'lexical'"),
    ({"judge": {"baseUrl": "llm.example.org"}}, "/judge/baseUrl': 'llm.example.org' does not match pattern"),
    ({"judge": {"apiKeySecret": "sk-plain"}}, "/judge/apiKeySecret': got string, want object"),
    ({"settings": {"OPENAI_API_KEY": "plain"}}, "/settings': additional properties 'OPENAI_API_KEY' not allowed"),
    ({"settings": {"SAITEN_API_KEY": "plain"}}, "/settings/SAITEN_API_KEY': false schema"),
    ({"settings": {"OTEL_EXPORTER_OTLP_HEADERS": "a=b"}}, "/settings/OTEL_EXPORTER_OTLP_HEADERS': false schema"),
    ({"settings": {"SAITEN_LEASE_SECONDS": 30}}, "/settings/SAITEN_LEASE_SECONDS': got number, want string"),
    ({"worker": {"autoscaling": {"by": "memory"}}}, "/worker/autoscaling/by': value must be one of 'cpu', 'keda'"),
    ({"worker": {"resources": {"limits": None}}}, "/worker/resources': missing property 'limits'"),
    ({"terminationGracePeriodSeconds": 10}, "/terminationGracePeriodSeconds': minimum: got 10, want 30"),
    ({"service": {"port": 70000}}, "/service/port': maximum: got 70,000, want 65,535"),
    ({"extraVolumeMounts": [{"name": "a"}]}, "/extraVolumeMounts/0': missing property 'mountPath'"),
    ({"networkPolicy": {"egressPorts": ["https"]}}, "/networkPolicy/egressPorts/0': got string, want integer"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_the_schema_names_what_is_wrong(values, message):
    with pytest.raises(helm.HelmValuesError) as refused:
        render(values)
    assert message in str(refused.value)


TOGETHER: list[tuple[Manifest, str]] = [
    ({"api": {"replicas": 2}}, "more than one API replica needs PostgreSQL"),
    ({"api": {"autoscaling": {"enabled": True}}, "database": POSTGRES}, "more than one API replica needs Redis"),
    ({"redis": REDIS}, "workers need PostgreSQL beside Redis"),
    ({"worker": {"autoscaling": {"enabled": True}}}, "there are no workers without Redis"),
    (
        {
            "database": POSTGRES,
            "redis": REDIS,
            "worker": {"autoscaling": {"enabled": True, "by": "keda"}},
        },
        "worker.autoscaling.keda.prometheusUrl",
    ),
    (
        {"database": POSTGRES, "redis": REDIS, "api": {"autoscaling": {"enabled": True, "minReplicas": 9}}},
        "api.autoscaling: minReplicas is above maxReplicas",
    ),
    ({"judge": {"kind": "openai"}}, "judge.apiKeySecret.name"),
    ({"judge": {"model": "gpt-6-luna"}}, "judge.model: needs a key or an endpoint"),
    ({"encoder": {"weights": {"existingClaim": "a", "hostPath": "/b"}}}, "existingClaim or hostPath, not both"),
    ({"ingress": {"enabled": True}}, "ingress.host"),
]


@pytest.mark.parametrize(("values", "message"), TOGETHER, ids=[message for _, message in TOGETHER])
def test_values_that_do_not_go_together_are_refused(values, message):
    with pytest.raises(helm.HelmRenderError) as refused:
        render(values)
    assert message in str(refused.value)


def test_the_table_of_the_readme_names_values_that_exist():
    page = (ROOT / "helm" / "README.md").read_text(encoding="utf-8")
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = re.findall(r"^\| (`[^|]*) \|", page.partition("## Main values")[2], re.MULTILINE)
    assert len(rows) > 10
    for row in rows:
        top, *rest = re.findall(r"`([^`]+)`", row)
        for path in (top, *(name if name[0] != "." else top.split(".")[0] + name for name in rest)):
            found: Any = known
            for part in path.split("."):
                assert part in found, path
                found = found[part]


def test_the_notes_say_how_to_make_a_key():
    with helm.Chart.load(CHART) as chart:
        closed = chart.render({}, name="demo", namespace="evaluation")["saiten/templates/NOTES.txt"]
        opened = chart.render({"allowAnonymous": True}, name="demo")["saiten/templates/NOTES.txt"]
    assert "kubectl -n evaluation exec deploy/demo-saiten -c await-key -- saiten keys create" in closed
    assert "keys create" not in opened


def test_without_keys_needed_nobody_waits_for_one():
    (pod,) = pods(rendered("laptop"))
    assert "initContainers" not in pod
    (waiting,) = pods(rendered("minimal"))
    assert [one["name"] for one in waiting["initContainers"]] == ["await-key"]


@pytest.fixture
def sqlite_url(bare_sqlite_url):
    return bare_sqlite_url


@pytest.fixture
def postgres_url(bare_postgres_url):
    return bare_postgres_url


def start(command: str, url: str) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "DATABASE_URL": url}
    started = [sys.executable, "-I", "-m", "saiten_server", *command.split()]
    return subprocess.Popen(started, env=environment, stdout=subprocess.PIPE, text=True)


def test_the_migration_makes_a_schema_that_needs_no_other(database_url):
    with start("database upgrade", database_url) as process:
        assert process.wait(LIMIT_SECONDS) == 0

    async def ask() -> bool:
        engine = open_engine(database_url)
        try:
            return await APIKeyStore(engine).any()
        finally:
            await engine.dispose()

    assert asyncio.run(ask()) is False


def test_a_migration_that_is_told_to_stop_ends_at_once_and_failed():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql+asyncpg://u@127.0.0.1:{silent.getsockname()[1]}/d"
        with start("database upgrade", url) as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)
                process.terminate()
                assert process.wait(LIMIT_SECONDS) == 143


def test_await_key_waits_until_there_is_one(sqlite_url):
    async def make() -> None:
        engine = open_engine(sqlite_url)
        try:
            await migrate(engine)
            await APIKeyStore(engine).create("first", "default", "admin")
        finally:
            await engine.dispose()

    with start("keys wait", sqlite_url) as process:
        assert process.stdout is not None
        assert "saiten keys create" in process.stdout.readline()
        asyncio.run(make())
        assert process.wait(LIMIT_SECONDS) == 0


def test_await_key_stops_when_told(sqlite_url):
    with start("keys wait", sqlite_url) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_SECONDS) == 143
