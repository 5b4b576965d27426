"""What every test may use: a cache of its own, a little text, and a tiny model of each family."""

import os

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # no test is timed
settings.load_profile("patient")

# Before torch and the peer are imported. Threads that wait for each other cost tiny models more than they give.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

WORDS = (
    "the old bank by the river lends money to every farmer who can swim and the new bank in town does not. "
    "a bat slept in the barn while the boys looked for their other bat. she lit a match before the match began. "
    "spring came late this year, the spring behind the mill was dry, and the spring of the watch broke on a Monday. "
    "他在苹果公司上班，每天早上吃一个苹果。河边的银行昨天关门了，人们在岸上等着。杜鹃在杜鹃花旁边唱歌。"
)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's cache out of the tests."""
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def little_documents() -> list[str]:
    """Forty little documents that are all different."""
    sentences = [sentence.strip() + "." for sentence in WORDS.replace("。", ".").split(".") if sentence.strip()]
    turned = [sentences[number % len(sentences) :] + sentences[: number % len(sentences)] for number in range(40)]
    return [" ".join(part) + f" It was day {number}." for number, part in enumerate(turned)]


@pytest.fixture(scope="session")
def documents() -> list[str]:
    """Forty little documents that are all different."""
    return little_documents()


@pytest.fixture(scope="session")
def corpus_file(documents: list[str], tmp_path_factory: pytest.TempPathFactory):
    """The documents as a text file."""
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path
