"""Retrieval datasets derived from text: queries are not in the documents, whatever the language and the seed."""

import pytest

from polyseme.datasets.derived_retrieval import derive_retrieval_sets, split_passages

SUBJECTS = ["river", "bank", "bat", "match", "spring", "farmer", "mill", "watch", "barn", "town"]
NAMES = ["title to paragraph", "first sentence to rest", "sentence to neighbours"]


def english(number):
    subject = SUBJECTS[number % len(SUBJECTS)]
    sentence = "This is sentence {} about the {} number {}, which is long enough to be a query."
    body = " ".join(sentence.format(place, subject, number) for place in range(12))
    return f"About {subject} {number}.\n{body}"


def chinese(number):
    body = "".join(f"这是关于第{number}条河流的第{place}个足够长的句子。" for place in range(12))
    return f"第{number}条河流。\n{body}"


@pytest.mark.parametrize("write", [english, chinese])
def test_queries_are_not_in_the_documents(write):
    sets = derive_retrieval_sets(map(write, range(40)), most_queries=25, most_documents=300, seed=0)
    assert [one.name for one in sets] == NAMES
    for one in sets:
        assert 20 <= len(one.queries) <= 25 and len(one.documents) <= 300
        assert not any(query in text for query in one.queries.values() for text in one.documents.values())
        assert len({*one.queries.values()}) == len(one.queries)
        assert len({*one.documents.values()}) == len(one.documents)
        for id, query in one.queries.items():
            number = "".join(filter(str.isdigit, query.split("about")[-1] if write is english else query[:8]))
            assert one.relevance[id] and all(number in one.documents[document] for document in one.relevance[id])


def test_neighbours_are_the_sentences_before_and_after():
    *_, neighbours = derive_retrieval_sets(map(english, range(40)), most_queries=30, most_documents=400, seed=0)
    for id, query in neighbours.queries.items():
        place = int(query.split()[3])
        found = sorted(int(neighbours.documents[one].split()[3]) for one in neighbours.relevance[id])
        assert found == [place - 1, place + 1]


def test_the_seed_decides():
    def derive(seed):
        return derive_retrieval_sets(map(english, range(60)), most_queries=20, most_documents=100, seed=seed)

    assert derive(0) == derive(0) != derive(1)


def test_ambiguous_queries_and_small_sets_are_omitted():
    repeated = [english(0)] * 60  # every query has copies
    assert derive_retrieval_sets(repeated, most_queries=50, most_documents=500, seed=0) == []
    assert derive_retrieval_sets(map(english, range(5)), most_queries=50, most_documents=500, seed=0) == []


@pytest.mark.parametrize("write", [english, chinese])
def test_passages(write):
    document = write(3)
    passages = list(split_passages(document))
    assert len(passages) > 1 and max(map(len, passages)) <= (600 if write is english else 200)
    assert "".join("".join(passages).split()) == "".join(document.split())
    assert all(passage.endswith((".", "。")) for passage in passages)
    assert list(split_passages("")) == list(split_passages(" \n ")) == []
