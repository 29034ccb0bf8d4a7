"""`python -m tests.fuzz.guided TARGET [libFuzzer's flags]`: atheris on one target, from its seeds."""

import importlib
import sys
import tempfile
from pathlib import Path

INSTRUMENTED = ["saiten_server", "yaml"]


def main() -> None:
    """Runs until the flags say so; a finding is printed with its traceback, and ends the process with 77."""
    import atheris

    name, *flags = sys.argv[1:]
    with atheris.instrument_imports(include=INSTRUMENTED):
        target = importlib.import_module(f"tests.fuzz.{name}").TARGET
    with tempfile.TemporaryDirectory() as folder:
        corpus, words = Path(folder) / "corpus", Path(folder) / "words"
        corpus.mkdir()
        for number, seed in enumerate(target.seeds):
            (corpus / str(number)).write_bytes(seed)
        lines = ('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in target.words if word)
        words.write_text("\n".join(lines), encoding="ascii")
        # One input takes milliseconds: one that takes seconds is a finding by itself.
        usual = ["-max_len=4096", "-timeout=30", "-rss_limit_mb=2048", "-print_final_stats=1", f"-dict={words}"]
        atheris.Setup([sys.argv[0], *usual, *flags, str(corpus)], target.check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
