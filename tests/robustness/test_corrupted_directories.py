"""Corrupted files in directories of models, runs and comparisons: the correct answer, or one line that refuses them.

Every command runs in a fork, so that a crash, its processor time and its memory are its own. A sample runs in every
test run; the campaign of 300 corruptions of each directory is marked soak.
"""

import hashlib
import json
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice

import pytest
from tests.cli.conftest import TINY
from tests.comparison.test_runner import reproducible_rows
from tests.robustness.corruption import corruptions
from tests.robustness.forks import ForkingProcess

from polyseme.training.storage.history import HISTORY
from polyseme.training.storage.manifest import MANIFEST, read_manifest

NUM_SAMPLED, NUM_CAMPAIGN = 15, 300
MORE_CPU, MORE_MEMORY = 2.0, 300e6  # than the same command takes on the intact directory
LONGEST_LINE = 1000  # characters of an error
SENTENCE = "the old bank by the river"
FOLDER, BASE, CORPUS, LABELLED, TOWN, TASKS = "{folder}", "{bert}", "{corpus}", "{labelled}", "{town}", "{tasks}"


@dataclass(frozen=True)
class Command:
    """A command line; its answer is what it prints."""

    arguments: tuple[str, ...]
    function: str = "run_command_line"

    def answer(self, ended, folder):
        return ended.out

    def judge(self, ended, folder, expected):
        """How the command ended, compared with the answer on the intact directory."""
        if ended.code == 0:
            return "correct" if self.answer(ended, folder) == expected else "different"
        lines = ended.err.splitlines()
        if ended.code != 2 or not lines:
            return f"exit code {ended.code}"
        clear = lines[-1].startswith("polyseme: ") and lines[-1].isprintable() and len(lines[-1]) < LONGEST_LINE
        return "refused" if clear else "refused without a clear line"


class Info(Command):
    """`polyseme info`; what it takes from the history may differ if the history is reported as changed."""

    def answer(self, ended, folder):
        facts = json.loads(ended.out)
        of_history = {name: facts.pop(name, None) for name in ("steps", "tokens", "seconds", "dev", "changed")}
        return facts, of_history

    def judge(self, ended, folder, expected):
        if ended.code == 0:
            facts, of_history = self.answer(ended, folder)
            if of_history["changed"] == [HISTORY] and facts == expected[0]:
                return "correct"
        return super().judge(ended, folder, expected)


class Resume(Command):
    """A command that finishes a run; its answer is the model directory."""

    def answer(self, ended, folder):
        names = read_manifest(folder).files.keys() - {HISTORY}
        return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


class Compare(Command):
    """`polyseme compare` again; its answer is the results without timings."""

    def answer(self, ended, folder):
        assert (folder / "report.md").exists() and (folder / "report.html").exists()
        return sorted(json.dumps(row, sort_keys=True) for row in reproducible_rows(folder))


class Serve(Command):
    """A server and a few requests; a directory that is not served counts as refused."""

    def answer(self, ended, folder):
        replies = {path: (status, body) for path, (status, body) in json.loads(ended.out).items()}
        models = [{**model, "created": 0} for model in json.loads(replies["/v1/models"][1])["data"]]
        return {path: reply for path, reply in replies.items() if path[:1] != "/"} | {"models": models}

    def judge(self, ended, folder, expected):
        if ended.code:
            return f"exit code {ended.code}"
        for path, (status, body) in json.loads(ended.out).items():
            if status >= 500 and path != "/ready":
                return f"status {status} of {path}"
            if str(folder.parent) in body and "/reports/" not in path:  # a report quotes the command that made it
                return f"a path in {path}: {body[:500]}"
        answer = self.answer(ended, folder)
        if answer == expected:
            return "correct"
        # Of the models of a comparison, damaged ones are not served.
        if expected and all(model in expected["models"] for model in answer["models"]):
            expected = expected | {"models": answer["models"]}
        if answer == expected:
            return "refused"
        statuses = {status for reply in answer.values() if isinstance(reply, tuple) for status, _ in [reply]}
        return "refused" if statuses <= {404, 422} else "different"


def serve(endpoint, **body):
    return Serve((FOLDER, endpoint, json.dumps(body)), "serve")


def resume(*arguments):
    return Resume((*arguments, "--out", FOLDER, "--resume"))


INFO = Info(("info", FOLDER, "--json"))
FILL = Command(("fill", FOLDER, f"{SENTENCE} [MASK]", "--json"))
GENERATE = Command(("generate", FOLDER, SENTENCE, "--max-tokens", "4", "--json"))
NEIGHBOURS = Command(("neighbours", FOLDER, "bank", "--json"))
SCORE = Command(("score", FOLDER, SENTENCE, "--json"))
LIKELIHOOD = Command(("evaluate", FOLDER, "--suite", "likelihood", "--data", CORPUS, "--most", "2", "--json"))
EVALUATE = Command(("evaluate", FOLDER, "--data", LABELLED, "--json"))
PREDICT = Command(("predict", FOLDER, LABELLED, "--json"))
SERVE_FILL, SERVE_TASK = serve("fill", input=f"{SENTENCE} [MASK]"), serve("classify", input=SENTENCE)
FAMILIES = ("--families", "svd,bert", "--budget", "12steps", "--size", "tiny", "--labels", "20")

# The commands of each kind of directory.
MODELS = {
    "bert": {"info": INFO, "fill": FILL, "evaluate": LIKELIHOOD, "serve": SERVE_FILL},
    "gpt2": {"info": INFO, "generate": GENERATE, "evaluate": LIKELIHOOD, "serve": serve("score", input=SENTENCE)},
    "elmo": {"info": INFO, "score": SCORE, "evaluate": LIKELIHOOD, "serve": serve("embeddings", input=SENTENCE)},
    "skipgram": {"info": INFO, "neighbours": NEIGHBOURS, "serve": serve("neighbours", word="bank")},
    "fine-tuned": {"info": INFO, "predict": PREDICT, "evaluate": EVALUATE, "serve": SERVE_TASK},
}
RESUME = {kind: resume("pretrain", kind) for kind in MODELS} | {"fine-tuned": resume("finetune", BASE)}
WITHOUT_MANIFEST = {f"{kind} without a manifest": commands for kind, commands in MODELS.items() if kind != "gpt2"}
WITHOUT_MANIFEST["transformers"] = MODELS["bert"]
DIRECTORIES = {
    **{kind: commands | {"resume": RESUME[kind]} for kind, commands in MODELS.items()},
    **WITHOUT_MANIFEST,
    "unfinished": {"info": INFO, "fill": FILL, "serve": SERVE_FILL, "resume": RESUME["bert"]},
    "unfinished without a checkpoint": {"info": INFO, "resume": RESUME["bert"]},
    "unfinished fine-tuning": {"info": INFO, "predict": PREDICT, "serve": SERVE_TASK, "resume": RESUME["fine-tuned"]},
    "comparison": {
        "compare": Compare(("compare", "--corpus", TOWN, *FAMILIES, "--tasks", TASKS, "--out", FOLDER)),
        "serve": serve("embeddings", input=SENTENCE, model="bert"),
    },
}
SAMPLED = ("bert", "fine-tuned", "unfinished", "unfinished fine-tuning", "transformers", "comparison")

SETTINGS = {
    "elmo": ["model.width=16", "model.cell_width=32", "model.filters=[[1, 16], [2, 32]]", "model.num_highways=1"],
    "skipgram": ["model.width=16", "model.vocab_size=400"],
}
SETTINGS["elmo"] += ["model.vocab_size=400", "model.max_length=48", "training.threads=1", *TINY[3:]]
FINE_TUNING = ["training.save_every=5", "training.evaluate_every=4", "training.threads=1", "data.batch_size=4"]


class Directories:
    """Makes directories when they are first needed, and runs commands on copies of them."""

    def __init__(self, place, **files):
        self.place, self.files = place, files
        self.folder = place / "work" / "directory"  # of the copies
        self.process = ForkingProcess(place / "log")
        self.cost = {}  # processor seconds that it took to make a directory

    def path(self, kind):
        """An intact directory."""
        path = self.place / "intact" / kind.replace(" ", "-")
        if not path.exists():
            made = self._make(kind)
            assert made is None or made.code == 0, made.err
            self.cost[kind] = made.cpu if made else 0.0
            path.parent.mkdir(exist_ok=True)
            self.folder.rename(path)
        return path

    def copy(self, kind, corruption=None):
        """Replace the copy by one of an intact directory with a corruption."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.path(kind), self.folder)
        if corruption:
            replace(corruption, path=self.folder / corruption.path.relative_to(self.path(kind))).apply()

    def run(self, command):
        """Run a command on the copy."""
        places = {"{folder}": self.folder, "{bert}": self.place / "intact" / "bert", **self.files}
        arguments = [places.get(argument, argument) for argument in command.arguments]
        return self.process.run(f"tests.robustness.commands:{command.function}", *arguments)

    def _make(self, kind):
        if "fine-tun" in kind or kind == "transformers":
            self.path("bert")
        if kind.endswith(" without a manifest"):
            self.copy(kind.removesuffix(" without a manifest"))
            (self.folder / MANIFEST).unlink()
            return None
        shutil.rmtree(self.folder, ignore_errors=True)
        if kind == "comparison":
            return self.run(DIRECTORIES[kind]["compare"])
        if kind == "transformers":
            return self.run(Command((BASE, FOLDER), "save_with_transformers"))
        if kind in ("unfinished fine-tuning", "fine-tuned"):
            step = 17 if kind.startswith("unfinished") else 40
            return self.run(Command((BASE, LABELLED, FOLDER, step, *FINE_TUNING), "start_finetuning"))
        family = kind if kind in MODELS else "bert"
        step = {"unfinished": 25, "unfinished without a checkpoint": 0}.get(kind, 40)
        settings = ["training.save_every=10", *SETTINGS.get(family, TINY)]
        return self.run(Command((family, CORPUS, FOLDER, step, *settings), "start_pretraining"))


@pytest.fixture(scope="module")
def directories(corpus_file, text, tasks, tmp_path_factory):
    place = tmp_path_factory.mktemp("directories")
    words = corpus_file.read_text(encoding="utf-8").split()
    lines = [f"{' '.join(words[start : start + 6])}\t{'ab'[start // 3 % 2]}" for start in range(0, 90, 3)]
    (place / "labelled.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    files = {CORPUS: corpus_file, LABELLED: place / "labelled.tsv", TOWN: text, TASKS: tasks}
    made = Directories(place, **files)
    yield made
    made.process.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLED)
def test_sample_of_corruptions(kind, directories):
    """One command on each corrupted directory."""
    corrupt_and_run(kind, directories, seed=0, count=NUM_SAMPLED, num_commands=1)


@pytest.mark.soak
@pytest.mark.parametrize("kind", DIRECTORIES)
def test_campaign_of_corruptions(kind, directories, print_metric):
    """All commands on each corrupted directory."""
    options = {"seed": 1, "count": NUM_CAMPAIGN, "num_commands": len(DIRECTORIES[kind])}
    for name, summary in corrupt_and_run(kind, directories, **options).items():
        print_metric(f"{kind}, {name}", summary)


def corrupt_and_run(kind, directories, *, seed, count, num_commands):
    """Run one or all commands of a directory on each corrupted copy; return a summary of each, or fail with a list."""
    summaries, failures = {}, []
    for number, (name, command) in enumerate(DIRECTORIES[kind].items()):
        directories.copy(kind)
        clean = directories.run(command)
        expected = command.answer(clean, directories.folder) if not clean.code else None
        assert clean.code in (0, 2) and "Traceback" not in clean.err, clean.err
        outcomes, most_cpu, most_memory = Counter(), 0.0, 0.0
        # A comparison repeats stages whose results are damaged.
        allowed = MORE_CPU + max(clean.cpu, directories.cost[kind] if name == "compare" else 0.0)
        every = len(DIRECTORIES[kind]) // num_commands
        for corruption in islice(corruptions(directories.path(kind), seed, count), number % every, None, every):
            directories.copy(kind, corruption)
            ended = directories.run(command)
            outcome = command.judge(ended, directories.folder, expected)
            if "Traceback" in ended.err:
                outcome = "traceback"
            elif ended.cpu > allowed:
                outcome = f"{ended.cpu:.1f} s"
            elif ended.memory > clean.memory + MORE_MEMORY:
                outcome = f"{ended.memory / 1e6:.0f} MB"
            outcomes[outcome] += 1
            most_cpu, most_memory = max(most_cpu, ended.cpu), max(most_memory, ended.memory)
            if outcome not in ("correct", "refused") and not (outcome == "different" and kind in WITHOUT_MANIFEST):
                failures.append(f"{name}: {corruption.description}: {outcome}\n{ended.err[-800:]}")
        more = f"{most_cpu - clean.cpu:+.2f} s, {(most_memory - clean.memory) / 1e6:+.0f} MB"
        summaries[name] = f"{dict(outcomes)}; at most {most_cpu:.2f} s ({more} of the clean run)"
    assert not failures, f"{len(failures)} failures\n" + "\n\n".join(failures)
    return summaries


def put(*place, value):
    """A change of JSON that sets or removes a field; of JSON Lines, in the first line that has it."""

    def change(content):
        lines = content.splitlines() if content.startswith(b'{"row"') else [content]
        for number, line in enumerate(lines):
            root = parent = json.loads(line)
            if len(lines) > 1 and place[0] not in root:
                continue
            for name in place[:-1]:
                parent = parent[name]
            if value is None:
                del parent[place[-1]]
            else:
                parent[place[-1]] = value
            lines[number] = json.dumps(root).encode()
            break
        return b"\n".join(lines) + b"\n"

    return change


def write(content):
    return lambda _: content


def replace_text(old, new):
    def change(content):
        assert old in content
        return content.replace(old, new)

    return change


def flip_a_bit(content):
    return content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]


TUNED = "fine-tuned without a manifest"
# What was found by hand: the directory, the command, the file, its change, and how the command has to end.
REPORTED = {
    "manifest of another type": ("bert", "info", "manifest.json", write(b"3"), "refused"),
    "entry of the manifest of another type": (
        *("bert", "info", "manifest.json", put("files", "config.json", value=3)),
        "refused",
    ),
    "labels of another type": (TUNED, "predict", "labels.json", write(b'{"task": 3}'), "refused"),
    "unknown task": (TUNED, "predict", "labels.json", replace_text(b'"classify"', b'"classifier"'), "refused"),
    "a label more": (TUNED, "predict", "labels.json", replace_text(b'"b"', b'"b", "c"'), "refused"),
    "scores without dev": (TUNED, "info", "scores.json", put("dev", value=None), "refused"),
    "recipe of another type": (
        TUNED,
        "info",
        "recipe.toml",
        replace_text(b"batch_size = 4", b'batch_size = "many"'),
        "refused",
    ),
    "width that overflows": (
        *("elmo without a manifest", "info", "config.json", put("cell_width", value=10**30)),
        "refused",
    ),
    "results without a stage": ("comparison", "compare", "results.jsonl", put("stage", value=None), "correct"),
    "results without a context": ("comparison", "compare", "results.jsonl", put("context", value=None), "correct"),
    "unhashable family": ("comparison", "compare", "results.jsonl", put("stage", value={}), "correct"),
    "lone surrogate": ("comparison", "compare", "results.jsonl", put("stage", value="a\ud800b"), "correct"),
    "changed weight": ("bert", "fill", "model.safetensors", flip_a_bit, "refused"),
    "changed weight of an evaluation": ("bert", "evaluate", "model.safetensors", flip_a_bit, "refused"),
    "changed weight in a server": ("bert", "serve", "model.safetensors", flip_a_bit, "refused"),
    "other order of labels": ("fine-tuned", "predict", "labels.json", replace_text(b'"a"', b'"A"'), "refused"),
    "changed config": ("bert", "fill", "config.json", replace_text(b"gelu", b"relu"), "refused"),
    "changed recipe of a run": (
        *("unfinished", "resume", "recipe.toml", replace_text(b"seed = 0", b"seed = 1")),
        "refused",
    ),
    "changed recipe before the first checkpoint": (
        *("unfinished without a checkpoint", "resume", "recipe.toml", replace_text(b"seed = 0", b"seed = 1")),
        "refused",
    ),
    "damaged best checkpoint": (
        *("unfinished fine-tuning", "resume", "checkpoints/0000012/weights.safetensors", flip_a_bit),
        "refused",
    ),
    "lost history of a fine-tuning": ("unfinished fine-tuning", "resume", "history.jsonl", write(b""), "correct"),
    "weights of a finished run": ("fine-tuned", "resume", "model.safetensors", flip_a_bit, "correct"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REPORTED)
def test_reported_corruptions(name, directories):
    kind, command, file, change, outcome = REPORTED[name]
    run = DIRECTORIES[kind][command]
    directories.copy(kind)
    expected = run.answer(directories.run(run), directories.folder) if outcome == "correct" else None
    directories.copy(kind)
    path = directories.folder / file
    content = path.read_bytes()
    path.write_bytes(change(content))
    assert path.read_bytes() != content
    ended = directories.run(run)
    assert "Traceback" not in ended.err
    assert run.judge(ended, directories.folder, expected) == outcome, ended.err


@pytest.mark.slow
def test_a_recipe_that_no_longer_fits_the_checkpoints_of_a_fine_tuning(directories):
    """Without a manifest, which would show that it has changed."""
    for old, new in ((b"num_layers = 2", b"num_layers = 1"), (b"width = 32", b"width = 64"), (b'"b",', b'"b",\n"c",')):
        directories.copy("unfinished fine-tuning")
        (directories.folder / MANIFEST).unlink()
        recipe = directories.folder / "recipe.toml"
        assert old in recipe.read_bytes()
        recipe.write_bytes(recipe.read_bytes().replace(old, new))
        ended = directories.run(RESUME["fine-tuned"])
        assert RESUME["fine-tuned"].judge(ended, directories.folder, None) == "refused", ended.err
