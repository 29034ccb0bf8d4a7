"""What operators load into Prometheus and Grafana speaks of metrics, labels and pages that exist."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry

from saiten_server.core.evaluation import Usage
from saiten_server.platform.telemetry import FlowFigures, Telemetry
from saiten_server.platform.web.dependencies import ADMIN_REFUSED

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "helm" / "saiten" / "files"
OPERATIONS = "docs/operations.md"
METRICS = "docs/batches.md"

RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
DASHBOARD: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))

SELECTOR = re.compile(r"\b(saiten_[a-z_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"([a-z]+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
RECORDED = re.compile(r"\bsaiten:[a-z0-9_:]+")


def told_labels() -> dict[str, set[str]]:
    """Each series that the telemetry exposes once everything has happened, with the labels that it has."""
    registry = CollectorRegistry()
    telemetry = Telemetry(registry)
    telemetry.flow(lambda: FlowFigures(1, 0, 0, 0.0))
    telemetry.cache("judge", "hit")
    telemetry.judged("lexical", Usage(), 0.1)
    telemetry.evaluated("ja-dialogue", "scored", 0.1)
    telemetry.warned("baseline-judge")
    telemetry.batch_item("scored", "")
    telemetry.paused({"requested": 1})
    telemetry.monitored("sampled")
    telemetry.monitors(1, {"mo_1": 1}, {"mo_1": 0})
    telemetry.sent("webhook", "sent")
    telemetry.traced(1, 1, {"span-too-large": 1}, 1)
    telemetry.conversations({"open": 1})
    telemetry.answered("/v1/info", "GET", 200, 0.1)
    telemetry.limited("requests")
    telemetry.dealt_with("flag")
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES)
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ()))


def anchors_of(page: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_expressions_name_metrics_and_labels_that_exist() -> None:
    told = told_labels()
    for expression in sorted(set(expressions())):
        used: set[str] = set()
        for name, selector in SELECTOR.findall(expression):
            assert name in told, expression
            assert set(LABEL.findall(selector)) <= told[name], expression
            used |= told[name]
        grouped = {label.strip() for labels in GROUPED.findall(expression) for label in labels.split(",")}
        assert grouped <= used, expression
        assert set(RECORDED.findall(expression)) <= {rule.get("record") for rule in RULES}, expression


def test_a_probe_that_any_error_answers_counts_as_not_ready() -> None:
    (expression,) = [rule["expr"] for rule in RULES if rule.get("record") == "saiten:not_ready:share5m"]
    assert [selector for _, selector in SELECTOR.findall(expression)][:1] == ['route="/readyz",status=~"5.."']


def test_expressions_are_valid() -> None:
    for expression in sorted(set(expressions())):
        assert promql_parser.parse(expression.replace("$__rate_interval", "5m")).prettify(), expression


def test_an_expression_that_is_not_valid_would_be_seen() -> None:
    for wrong in ("sum(", "sum by (le", "rate(saiten_gates_total)", "saiten_gates_total[5m] > 0"):
        with pytest.raises(ValueError, match=r"."):
            promql_parser.parse(wrong)


def test_every_metric_is_told_of_in_the_documents_and_drawn() -> None:
    names = {re.sub("_(bucket|count|sum)$", "", name) for name in told_labels() if not name.endswith("_created")}
    page = (ROOT / METRICS).read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"`{name}" not in page] == []
    drawn = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ()))
    assert [name for name in sorted(names) if name not in drawn] == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_it_means_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"info", "warning", "critical"}
    notes = alert["annotations"]
    assert notes["summary"].strip()
    assert notes["description"].strip()
    page, _, anchor = notes["runbook"].partition("#")
    assert page == OPERATIONS
    assert anchor == alert["alert"].lower()
    assert anchor in anchors_of((ROOT / page).read_text(encoding="utf-8"))


def test_names_of_rules_are_unique() -> None:
    names = [rule.get("alert") or rule["record"] for rule in RULES]
    assert len(names) == len(set(names))


def test_every_runbook_heading_has_its_alert() -> None:
    headings = re.findall(r"^### (Saiten\w+)$", (ROOT / OPERATIONS).read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [alert["alert"] for alert in ALERTS]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(covered) == len(set(covered))
    assert max(x for x, _ in covered) < 24


def test_legends_name_labels_of_their_expression() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            grouped = {label.strip() for labels in GROUPED.findall(target["expr"]) for label in labels.split(",")}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= grouped


def test_containers_reach_a_judge_on_the_machine_that_runs_them() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert {name for name, one in services.items() if "build" in one} == {"api", "worker"}
    for name in ("api", "worker"):
        assert services[name]["extra_hosts"] == ["host.docker.internal:host-gateway"]


def test_containers_get_what_no_request_can_say() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for name in ("api", "worker"):
        passed = {variable for variable, value in services[name]["environment"].items() if value is None}
        assert {"OPENAI_API_KEY", "DEEPL_API_KEY", "SAITEN_SINKS", "SAITEN_ADOPT_FROM"} <= passed


NOTING = {"note", "_note", "note_invitation", "_change", "AuditEvent"}
ACTION = re.compile(r"[a-z-]+\.[a-z]+")


def list_noted() -> set[str]:
    """The actions that the code writes into the audit log."""
    found = {ADMIN_REFUSED}
    for path in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in NOTING:
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                texts = [one.value for one in given if isinstance(one, ast.Constant)]
                found |= {text for text in texts if isinstance(text, str) and ACTION.fullmatch(text)}
    return found


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("operations*.md")), ids=lambda page: page.name)
def test_the_table_of_the_audit_log_has_every_action(page: Path) -> None:
    table = page.read_text(encoding="utf-8").partition("| `key.created`")
    told = {
        name
        for row in "".join(table[1:]).partition("\n\n")[0].splitlines()
        for name in ACTION.findall(row.split("|")[1])
    }
    assert told == list_noted()
