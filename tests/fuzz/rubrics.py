"""Rubric files: a rubric, or faults with line and field; nothing else comes out, whatever the file holds."""

import tempfile
from pathlib import Path

from saiten_server.core.errors import RubricInvalid
from saiten_server.core.rubric import Rubric
from saiten_server.scoring.rubrics.files import check_rubric, read_rubric_file
from tests.fuzz.target import Target, run_guided

EXAMPLE = Path(__file__).resolve().parents[1] / "support" / "rubrics" / "lfqa-like.yaml"
SMALL = """id: small
version: 1
source_language: ja
title: {ja: 小, en: Small}
task: {ja: 評価する, en: Rate it}
aspects:
  - id: overall
    name: {ja: 品質, en: Quality}
    question: {ja: どうか, en: How is it}
    levels:
      - {value: 0, label: {ja: 悪い, en: bad}, description: {ja: 悪い。, en: Bad.}}
      - {value: 1, label: {ja: 良い, en: good}, description: {ja: 良い。, en: Good.}}
composites:
  - {id: ssa, kind: mean, aspects: [overall]}
"""


def check(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="saiten-fuzz-") as folder:
        path = Path(folder) / "small.yaml"
        path.write_bytes(data)
        faults = check_rubric(path)
        lines = data.count(b"\n") + data.count(b"\r") + data.count("\x85".encode()) + 3 * data.count(b"\xe2\x80") + 1
        for fault in faults:
            assert fault.line is None or 1 <= fault.line <= lines + 1
            assert fault.field == "" or fault.field.startswith("/")
            shown = fault.report("small.yaml")
            assert shown.isprintable()
            assert len(shown) < 20_000
        assert [fault.line or 0 for fault in faults] == sorted(fault.line or 0 for fault in faults)
        try:
            rubric = read_rubric_file(path)
        except RubricInvalid as error:
            assert faults
            assert (error.line, error.field) == (faults[0].line, faults[0].field)
            assert error.detail.isprintable()
        else:
            assert not faults
            assert isinstance(rubric, Rubric)
            assert Rubric.model_validate(rubric.model_dump()) == rubric


TARGET = Target(
    "rubrics",
    check,
    seeds=[
        SMALL.encode(),
        EXAMPLE.read_bytes()[:4096],
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        b"id: !!python/object/apply:os.system [id]\n",
        b"[" * 400,
        b"? " * 200,
        b'title: "\\UFFFFFFFF"\nid: \x01\n',
        b"id: small\nid: small\n1: 2\n~: 3\n[a]: 4\n",
        b"--- a\n--- b\n%YAML 9.9\n",
        b"\xef\xbb\xbfid: |\n  a\n   b\n >-\n",
    ],
    words=[
        *(b"id: ", b"version: ", b"aspects:", b"levels:", b"value: ", b"composites:", b"one_shot:", b"kind: linear"),
        *(b"<<: ", b"&a ", b"*a", b"!!int ", b"!x ", b"? ", b"- ", b"|2\n", b">-\n", b"{", b"}", b"---\n", b"...\n"),
        *(b".nan", b".inf", b"0x10", b"1e400", b"0o7", b"9" * 18, b"\t", "\u2028".encode(), b"\\ud800", b"\\x00"),
    ],
)

if __name__ == "__main__":
    run_guided(TARGET)
