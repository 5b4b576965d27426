"""Fixtures for all tests: a separate cache, and a small corpus."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # no test is timed
settings.load_profile("patient")

# Before torch and transformers are imported. More threads would only slow tiny models down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

WORDS = (
    "the old bank by the river lends money to every farmer who can swim and the new bank in town does not. "
    "a bat slept in the barn while the boys looked for their other bat. she lit a match before the match began. "
    "spring came late this year, the spring behind the mill was dry, and the spring of the watch broke on a Monday. "
    "他在苹果公司上班，每天早上吃一个苹果。河边的银行昨天关门了，人们在岸上等着。杜鹃在杜鹃花旁边唱歌。"
)


@pytest.fixture(autouse=True, scope="session")
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep session fixtures out of the user's cache."""
    yield from _fresh_cache(tmp_path_factory)


@pytest.fixture(autouse=True, scope="module")
def _module_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache per test module, so that no module finds what another has left."""
    yield from _fresh_cache(tmp_path_factory)


def _fresh_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def little_documents() -> list[str]:
    """Forty small documents, all different."""
    sentences = [sentence.strip() + "." for sentence in WORDS.replace("。", ".").split(".") if sentence.strip()]
    rotated = [sentences[number % len(sentences) :] + sentences[: number % len(sentences)] for number in range(40)]
    return [" ".join(document) + f" It was day {number}." for number, document in enumerate(rotated)]


@pytest.fixture(scope="session")
def documents() -> list[str]:
    """Forty small documents, all different."""
    return little_documents()


@pytest.fixture(scope="session")
def corpus_file(documents: list[str], tmp_path_factory: pytest.TempPathFactory):
    """The documents as a text file."""
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path
