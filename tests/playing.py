"""Tiny models of every kind that the playground shows something of, and a server over them."""

import json
import threading
from contextlib import contextmanager
from pathlib import Path

import polyseme as ps

TINY = ["model.vocab_size=500", "model.width=32", "model.max_length=96", "data.length=48", "plan.batch_tokens=256"]
TINY += ["plan.threads=1"]
SENTENCES = ["The old bank lends money.", "They sat on the bank of the river.", "Anna lives in Bonn.", "他在银行工作。"]


def make_models(folder, corpus):
    """Directories of a BERT, a GPT-2, an SVD, a Transformer that translates, and a BERT with a head for every task."""
    for family, budget in (("svd", None), ("bert", "10steps"), ("gpt2", "10steps")):
        settings = TINY if family != "svd" else ["tokenizer.min_count=1", "plan.threads=1"]
        ps.pretrain(
            family, corpus=corpus, dev=corpus, out=folder / family, size="tiny", budget=budget, settings=settings
        )
    files = _labelled(folder / "labelled")
    ps.pretrain(
        "transformer",
        corpus=files.pop("translated"),
        out=folder / "transformer",
        size="tiny",
        budget="3steps",
        settings=TINY,
    )
    ps.finetune(folder / "bert", train=files, out=folder / "tuned", budget="3steps", settings=["plan.threads=1"])
    return [folder / name for name in ("bert", "gpt2", "svd", "transformer", "tuned")]


def _labelled(folder: Path) -> dict[str, str]:
    """A small file for each task, by name."""
    folder.mkdir(parents=True)
    pairs = [(one, other) for one in SENTENCES for other in SENTENCES]
    passages = [{"context": text, "qas": [_question(text, number)]} for number, text in enumerate(SENTENCES)]
    rows = [{"context": one, "choices": [one, other], "answer": 0} for one, other in pairs if one != other]
    tables = {
        "topics.tsv": ["text\tlabel", *(f"{text}\t{'town' if 'bank' in text else 'people'}" for text in SENTENCES * 3)],
        "follows.tsv": ["text_a\ttext_b\tlabel", *(f"{a}\t{b}\t{'same' if a == b else 'other'}" for a, b in pairs)],
        "near.tsv": ["text_a\ttext_b\tscore", *(f"{a}\t{b}\t{5 if a == b else 1}" for a, b in pairs)],
        "chosen.jsonl": [json.dumps(row) for row in rows],
        "names.conll": ["Anna B-PER", "lives O", "in O", "Bonn B-LOC", ""] * 12,
        "asked.json": [json.dumps({"version": "v2.0", "data": [{"title": "made up", "paragraphs": passages * 3}]})],
        "translated.tsv": ["source\ttarget", *(f"{text}\t{text.upper()}" for text in SENTENCES * 3)],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {Path(name).stem: str(folder / name) for name in tables}


def _question(text, number):
    word = text.split()[0]
    answers = [] if number % 2 else [{"text": word, "answer_start": 0}]
    return {"id": f"q{number}", "question": "who or what", "answers": answers, "is_impossible": not answers}


@contextmanager
def serving(folders, *, key=""):
    """The address of a server over some models, in a thread of this process."""
    from polyseme.serve.models import Models
    from polyseme.serve.run import Address, prepare
    from polyseme.serve.runs import find_reports

    found, reports = find_reports([Path(folder) for folder in folders])
    models = Models(found)
    models.open()
    server = prepare(models, Address(port=0).bind(), key=key, num_threads=1, reports=reports)
    started = threading.Event()
    thread = threading.Thread(target=server.run, args=(started.set,), daemon=True)
    thread.start()
    assert started.wait(20)
    try:
        yield server.url
    finally:
        server.stop()
        thread.join(20)
