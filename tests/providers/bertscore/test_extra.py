"""Without the bertscore extra everything imports, and says what to install."""

import subprocess
import sys

SCRIPT = """
import sys
for package in ("torch", "transformers", "bert_score"):
    sys.modules[package] = None  # as if it were not installed

import asyncio
import importlib
import pkgutil

import saiten_server.providers.causal_lm
import saiten_server.providers.huggingface
from saiten_server.providers import bertscore
from saiten_server.providers.bertscore.encoder import BertScoreEncoder
from saiten_server.providers.ports import EncoderUnavailable

for module in pkgutil.iter_modules(bertscore.__path__, bertscore.__name__ + "."):
    importlib.import_module(module.name)


async def ask(encoder):
    for question in (encoder.identify("ja"), encoder.compare("ja", [("a", "b")])):
        try:
            await question
        except EncoderUnavailable as error:
            print(error)
    await encoder.close()


asyncio.run(ask(BertScoreEncoder()))
asyncio.run(ask(BertScoreEncoder(encoder="some/encoder")))
"""


def test_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    reason = "install saiten-server[bertscore] to compare texts (torch, transformers, bert_score not installed)"
    assert done.stdout.splitlines() == [reason] * 4, done.stderr
