"""Screenshots of every view of the playground: wide and narrow, light and dark, English and Chinese.

`make screenshots` trains small models on the town sample, in some minutes, and keeps them beside the screenshots;
`python tests/server/screenshots.py runs/* --out DIR` uses existing models.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

import polyseme as ps
from polyseme.analysis.probe_page import write_probe_files
from polyseme.datasets.builtin import sample_folder

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.browser import browsing
from tests.server.client import serving

TASKS = {
    "topics": "classify/train.tsv",
    "entities": "tag/train.conll",
    "entailment": "pair/train.tsv",
    "similarity": "similarity/train.tsv",
    "answers": "span/train.json",
    "choices": "choice/train.jsonl",
}
TAGGED = "On Monday morning, Diana Novak met Walter Stone in Mill Street and walked to the town hall."
PASSAGE = (
    "Ma Yilin's bag is white. The restaurant stands in Long Street. The restaurant was built in 1940. "
    "Carl Novak has a house in Church Street."
)

# Of each screenshot: the view, the values of its address, an element of the result, and an element to click.
SCREENSHOTS = {
    "generate": ("generate", {"prompt": "In the morning", "max_tokens": "60"}, ".token >> nth=20", ".token >> nth=6"),
    "fill": ("fill", {"text": "She put the money in the bank.", "masks": "6"}, ".bars li", None),
    "senses": ("senses", {}, ".map .point", None),
    "attention": ("attention", {"layer": "2"}, ".lines path", ".lines [role=option] >> nth=4"),
    "layers": ("layers", {}, ".notice, .probe svg", None),
    "classify": ("tasks", {"task": "classify", "text": "She counted the coins and paid the bill."}, ".bars li", None),
    "tag": ("tasks", {"task": "tag", "text": TAGGED}, ".tagged", None),
    "answer": (
        "tasks",
        {"task": "answer", "question": "When was the restaurant built?", "passage": PASSAGE},
        ".big",
        None,
    ),
    "score": ("tasks", {"task": "score", "text": "The baker sells bread and money."}, ".token", ".token >> nth=-2"),
    "neighbours": ("neighbours", {"word": "bread"}, ".card", None),
    "translate": ("tasks", {"task": "translate", "text": "Diana struck a match and lit the stove."}, ".big", None),
    "choose": ("tasks", {"task": "choose", "model": "gpt2"}, ".results .bars li", None),
    "runs": ("runs", {}, ".chart", None),
}
VARIANTS = {
    "wide-light-en": {"width": 1280, "dark": False, "language": "en"},
    "wide-dark-zh": {"width": 1280, "dark": True, "language": "zh"},
    "narrow-dark-en": {"width": 400, "dark": True, "language": "en"},
    "narrow-light-zh": {"width": 400, "dark": False, "language": "zh"},
}


def make_models(folder: Path) -> list[Path]:
    """Small models of the town sample; existing ones are reused."""
    town = sample_folder("town")
    both = [town / "en.train.txt", town / "zh.train.txt"]
    for family, corpus, budget in (
        ("skipgram", town / "en.train.txt", None),
        ("bert", both, "60s"),
        ("gpt2", both, "60s"),
        ("transformer", town / "translate" / "train.tsv", "30s"),
    ):
        ps.pretrain(family, corpus=corpus, out=folder / family, size="tiny", budget=budget, resume=True)
    if not (folder / "bert" / "probe.svg").exists():
        write_probe_files(
            ps.load(folder / "bert").probe(town / "tag" / "train.conll", max_sentences=300), folder / "bert"
        )
    train = {name: str(town / file) for name, file in TASKS.items()}
    ps.finetune(folder / "bert", train=train, out=folder / "tuned", budget="60s", resume=True)
    return [folder / name for name in ("skipgram", "bert", "gpt2", "transformer", "tuned")]


def take(address: str, out: Path) -> None:
    """Take every screenshot in every variant; errors of the page are printed."""
    for variant, settings in VARIANTS.items():
        language = settings["language"]
        with browsing(width=settings["width"], dark=settings["dark"]) as visit:
            for name, (view, values, result, target) in SCREENSHOTS.items():
                visit.page.goto("about:blank")
                visit.page.goto(f"{address}/#{view}?{urlencode({**values, 'lang': language})}")
                try:
                    visit.page.locator(result).first.wait_for(state="attached", timeout=20_000)
                    if target:
                        visit.page.locator(target).click()
                except Exception as error:  # a model may not support it; the screenshot shows the message
                    print(f"{name} {variant}: {str(error).splitlines()[0]}")
                visit.page.wait_for_timeout(600)
                visit.page.screenshot(path=out / f"{name}-{variant}.png", full_page=settings["width"] < 500)
            for error in visit.complaints:
                print(f"{variant}: {error}")


def main() -> None:
    """Serve models and take screenshots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="model directories; without any, small models are trained")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "polyseme-screenshots")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with serving(*(arguments.models or make_models(arguments.out / "models"))) as server:
        take(server.url, arguments.out)
    print(f"{len(VARIANTS) * len(SCREENSHOTS)} screenshots in {arguments.out}")


if __name__ == "__main__":
    main()
