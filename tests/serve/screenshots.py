"""Pictures of every view of the playground, to be looked at: wide and narrow, light and dark, English and Chinese.

`make screenshots` makes a few small models of the town sample, in some minutes, and keeps them beside the pictures;
`python tests/serve/screenshots.py runs/* --out DIR` takes pictures of models that are there.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

import polyseme as ps
from polyseme.inside.probe_charts import write_probes
from polyseme.text.samples import sample

sys.path.insert(0, str(Path(__file__).parents[1]))
from asking import serving

from browser import browsing

TASKS = {
    "topics": "classify/train.tsv",
    "names": "tag/train.conll",
    "follows": "pair/train.tsv",
    "near": "similarity/train.tsv",
    "asked": "span/train.json",
    "chosen": "choice/train.jsonl",
}
TAGGED = "On Monday morning, Diana Novak met Walter Stone in Mill Street and walked to the town hall."
PASSAGE = (
    "Ma Yilin's bag is white. The restaurant stands in Long Street. The restaurant was built in 1940. "
    "Carl Novak has a house in Church Street."
)

# Of each picture: the view, what stands in its address, what shows that it is answered, and what is done then.
PICTURES = {
    "write": ("write", {"prompt": "In the morning", "length": "60"}, ".token >> nth=20", ".token >> nth=6"),
    "fill": ("fill", {"text": "She put the money in the bank.", "blanks": "6"}, ".bars li", None),
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
LOOKS = {
    "wide-light-en": {"width": 1280, "dark": False, "language": "en"},
    "wide-dark-zh": {"width": 1280, "dark": True, "language": "zh"},
    "narrow-dark-en": {"width": 400, "dark": True, "language": "en"},
    "narrow-light-zh": {"width": 400, "dark": False, "language": "zh"},
}


def make_models(folder: Path) -> list[Path]:
    """Small models of the town sample: what is there already is taken as it is."""
    town = sample("town")
    both = [town / "en.train.txt", town / "zh.train.txt"]
    for family, corpus, budget in (
        ("skipgram", town / "en.train.txt", None),
        ("bert", both, "60s"),
        ("gpt2", both, "60s"),
        ("transformer", town / "translate" / "train.tsv", "30s"),
    ):
        ps.pretrain(family, corpus=corpus, out=folder / family, size="tiny", budget=budget, resume=True)
    if not (folder / "bert" / "probe.svg").exists():
        write_probes(ps.load(folder / "bert").probe(town / "tag" / "train.conll", most=300), folder / "bert")
    train = {name: str(town / file) for name, file in TASKS.items()}
    ps.finetune(folder / "bert", train=train, out=folder / "tuned", budget="60s", resume=True)
    return [folder / name for name in ("skipgram", "bert", "gpt2", "transformer", "tuned")]


def take(address: str, out: Path) -> None:
    """All pictures in all looks; what the page complains about is said."""
    for look, settings in LOOKS.items():
        language = settings["language"]
        with browsing(width=settings["width"], dark=settings["dark"]) as visit:
            for name, (view, values, shown, pointed) in PICTURES.items():
                visit.page.goto("about:blank")
                visit.page.goto(f"{address}/#{view}?{urlencode({**values, 'lang': language})}")
                try:
                    visit.page.locator(shown).first.wait_for(state="attached", timeout=20_000)
                    if pointed:
                        visit.page.locator(pointed).click()
                except Exception as error:  # a model may not be able to; the picture shows what is said then
                    print(f"{name} {look}: {str(error).splitlines()[0]}")
                visit.page.wait_for_timeout(600)
                visit.page.screenshot(path=out / f"{name}-{look}.png", full_page=settings["width"] < 500)
            for complaint in visit.complaints:
                print(f"{look}: {complaint}")


def main() -> None:
    """Serve models and take pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="directories of models; else small ones are made")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "polyseme-screenshots")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with serving(*(given.models or make_models(given.out / "models"))) as server:
        take(server.url, given.out)
    print(f"{len(LOOKS) * len(PICTURES)} pictures in {given.out}")


if __name__ == "__main__":
    main()
