"""Our pairs per second against bert-score's in one run, and how far each is from bert-score asked about a pair alone.

    python -m benchmarks.relevance                       # a small encoder with random weights, Japanese by MeCab
    python -m benchmarks.relevance --encoder FOLDER --layer 9 --pairs 500

The pairs are Japanese of very different length, which is what dialogues are made of. Times are of comparing alone:
both have the model loaded. Each is run `--repeats` times, in turns; the fastest counts.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from app.adapters.bertscore_encoder import BertScoreEncoder

OPENINGS = ["そうですか、", "ええ、", "なるほど。", "うーん、", "いいですね！", ""]
MIDDLES = [
    "昨日の夕方から雨が続いていて",
    "駅前にできた店のカレーが思ったより辛くて",
    "弟が犬を飼いたいと言いだして",
    "来週の旅行の準備がまだ何もできていなくて",
    "このごろ朝早く目が覚めるので",
]
THINGS = [
    "猫", "弟の手紙", "朝ごはん", "雨の日", "図書館", "新しい靴", "夏祭り", "焼き魚", "隣の犬", "古い写真", "山登り",
    "庭の花", "終電", "眼鏡", "日曜の市場", "海辺の町", "紅茶", "祖母の話", "自転車", "月",
]  # fmt: skip
ANSWERS = [
    "が好きです。",
    "のことですか？",
    "を忘れていました。",
    "は久しぶりですね。",
    "ならあります。",
    "も気になります。",
]
ENDINGS = [
    "困っています。",
    "少し迷っているんです。",
    "楽しみにしています。",
    "どう思いますか？",
    "散歩に行ってきました。",
]


def write_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Two thirds short answers, the rest one to six clauses: 5 to about 150 characters, as in talk."""
    choose = random.Random(seed)

    def write() -> str:
        if choose.random() < 2 / 3:
            return choose.choice(OPENINGS) + choose.choice(THINGS) + choose.choice(ANSWERS)
        clauses = (choose.choice(MIDDLES) for _ in range(choose.randint(1, 6)))
        return choose.choice(OPENINGS) + "、".join(clauses) + "、" + choose.choice(ENDINGS)

    return [(write(), write()) for _ in range(count)]


def save_encoder(folder: Path, hidden_size: int, layers: int) -> Path:
    """BERT with MeCab and a character vocabulary, random weights: as slow as a trained one of its size."""
    import torch
    from transformers import BertConfig, BertJapaneseTokenizer, BertModel

    folder.mkdir(parents=True)
    characters = sorted(set("".join([*OPENINGS, *MIDDLES, *THINGS, *ANSWERS, *ENDINGS])))
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{one}" for one in characters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=hidden_size // 32,
        intermediate_size=4 * hidden_size,
        initializer_range=0.2,
    )
    BertModel(config).save_pretrained(folder)
    BertJapaneseTokenizer(
        str(folder / "vocab.txt"),
        word_tokenizer_type="mecab",
        mecab_kwargs={"mecab_dic": "unidic_lite"},
        model_max_length=512,
    ).save_pretrained(folder)
    return folder


async def compare(encoder: str, layer: int, pairs: list[tuple[str, str]], args: argparse.Namespace) -> None:
    """Prints the table."""
    import torch
    from bert_score import BERTScorer

    torch.set_num_threads(args.threads)
    ours = BertScoreEncoder(encoder=encoder, layers={encoder: layer}, device=args.device, threads=args.threads)
    theirs = BERTScorer(model_type=encoder, num_layers=layer, device=args.device, nthreads=args.threads)
    last_utterances, responses = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    await ours.compare("ja", pairs[:1])
    theirs.score(responses[:1], last_utterances[:1])
    own_seconds, their_seconds = [], []
    for _ in range(args.repeats):
        started = time.perf_counter()
        found = [one.f1 for one in await ours.compare("ja", pairs)]
        own_seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
        at_once = theirs.score(responses, last_utterances)[2].tolist()
        their_seconds.append(time.perf_counter() - started)
    alone = [theirs.score([response], [last])[2].item() for last, response in pairs[: args.alone]]
    own_rate, their_rate = len(pairs) / min(own_seconds), len(pairs) / min(their_seconds)
    print(f"encoder         {await ours.identify('ja')}")
    print(f"pairs           {len(pairs)} Japanese, {args.threads} threads, {args.device}")
    print(f"ours            {own_rate:8.0f} pairs/s   max |ΔF1| to alone {_find_largest_gap(found, alone):.1e}")
    print(f"bert-score      {their_rate:8.0f} pairs/s   max |ΔF1| to alone {_find_largest_gap(at_once, alone):.1e}")
    print(f"ratio           {own_rate / their_rate:8.2f}")
    await ours.close()


def _find_largest_gap(values: list[float], alone: list[float]) -> float:
    return max(abs(value - one) for value, one in zip(values, alone, strict=False))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", help="Hugging Face name or local folder")
    parser.add_argument("--layer", type=int, help="layer of that encoder")
    parser.add_argument("--hidden-size", type=int, default=256, help="of the random encoder")
    parser.add_argument("--pairs", type=int, default=512)
    parser.add_argument("--alone", type=int, default=128, help="how many pairs are also asked about alone")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if args.encoder and args.layer is None:
        parser.error("--encoder needs --layer")
    with tempfile.TemporaryDirectory() as place:
        folder = args.encoder or str(save_encoder(Path(place) / "random-mecab", args.hidden_size, layers=4))
        asyncio.run(compare(folder, args.layer or 4, write_pairs(args.pairs), args))


if __name__ == "__main__":
    main()
