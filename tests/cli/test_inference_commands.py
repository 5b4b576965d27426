"""Trained models on the command line and in Python, compared with the transformers library."""

import dataclasses
import json
import math
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import polyseme as ps
from polyseme.inference.generation import GenerationConfig, choose_token
from polyseme.objectives.causal_lm import CausalLm

TEXTS = ["the old bank by the river", "她在苹果公司上班。", "A bat slept in the barn!", "spring"]
LONG = "the spring behind the mill was dry and the new bank in town does not lend money. " * 12


@pytest.fixture(scope="module")
def masked(bert):
    return ps.load(bert)


@pytest.fixture(scope="module")
def causal(gpt2):
    return ps.load(gpt2)


@pytest.fixture(scope="module")
def peers(trained):
    """The same directories in transformers, without missing or unexpected weights."""
    import transformers

    opened = {}
    for family, kind in [("bert", transformers.AutoModelForPreTraining), ("gpt2", transformers.AutoModelForCausalLM)]:
        model, notes = kind.from_pretrained(trained / family, output_loading_info=True)
        assert not any(notes[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")), notes
        opened[family] = (model.eval(), transformers.AutoTokenizer.from_pretrained(trained / family))
    return opened


def rows(ended):
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


# --- the directory


def test_public_names_are_exported(masked):
    assert isinstance(masked, ps.Pretrained)
    ids = torch.tensor([[1, 2, 3]])
    assert len(masked.encoder(ps.Batch.of(ids)).layers) == len(masked.encoder.widths)


def test_transformers_sees_the_same_logits(masked, causal, peers):
    ids = torch.randint(5, 200, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        theirs = peers["gpt2"][0](ids).logits
        ours = causal.objective.parts[0].logits(causal.encoder, causal.encoder(ps.Batch.of(ids)).layers[-1])
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
        answer = peers["bert"][0](ids)
        encoded = masked.encoder(ps.Batch.of(ids))
        following, hidden = masked.objective.parts
        torch.testing.assert_close(
            hidden.logits(masked.encoder, encoded.layers[-1]), answer.prediction_logits, atol=1e-4, rtol=0
        )
        judged = following.output(masked.encoder.pool(encoded))
        torch.testing.assert_close(judged, answer.seq_relationship_logits, atol=1e-4, rtol=0)


def some_lines():
    rng = random.Random(0)
    words = [
        "the",
        "old",
        "bank",
        "River",
        "苹果公司",
        "岸上",
        "café",
        "naïve",
        "🙂",
        "👩\u200d👩\u200d👧",
        "don't",
        "3.14",
    ]
    words += [
        "x_y",
        "<tag>",
        "[MASK]",
        "Ünïcode",
        "ﬁne",
        "Ａ",
        "ß",
        "İ",
        "\u200b",
        "\u00a0",
        "e\u0301",
        "<|endoftext|>",
    ]
    marks = ["", ".", "!", "。", "，", "…", "?!", "\t", "  ", "\n"]
    lines = [" ".join(rng.choices(words, k=rng.randrange(1, 9))) + rng.choice(marks) for _ in range(250)]
    codes = [*range(32, 0x250), *range(0x4E00, 0x4F00), *range(0x1F600, 0x1F640)]
    characters = ["".join(map(chr, rng.choices(codes, k=20))) for _ in range(60)]
    return [*lines, *characters, "", " ", LONG]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_transformers_reads_the_same_tokens(trained, peers, family):
    ours, theirs = ps.load(trained / family).tokenizer, peers[family][1]
    for line in some_lines():
        assert ours.encode(line).ids == theirs(line)["input_ids"], repr(line)
        ids = ours.encode(line, specials=False).ids
        assert ids == theirs(line, add_special_tokens=False)["input_ids"]
    if family == "gpt2":
        assert all(ours.decode(ours.encode(line).ids, skip_specials=False) == line for line in some_lines()), (
            "bytes lose nothing"
        )


def test_the_model_card(trained, bert):
    card = (bert / "README.md").read_text()
    assert "`corpus.txt`" in card and "budget 40steps, seed 0" in card and "40 steps" in card
    assert "masked-token loss" in card and "next-sentence accuracy" in card
    assert f"ps.load('{bert}')" in card and "AutoModel" in card
    assert "bits per character" in (trained / "gpt2" / "README.md").read_text()


def test_the_card_of_a_command_names_the_command(tmp_path, polyseme, corpus_file, monkeypatch):
    words = [
        "pretrain",
        "gpt2",
        "--corpus",
        corpus_file,
        "--out",
        tmp_path / "a run",
        "--size",
        "tiny",
        "--budget",
        "2steps",
    ]
    words += [
        "--set",
        "model.vocab_size=400",
        "--set",
        "model.width=16",
        "--set",
        "training.batch_tokens=64",
        "--seed",
        "3",
    ]
    monkeypatch.setattr("sys.argv", ["polyseme", *map(str, words)])
    ended = polyseme(*words)
    assert ended.code == 0 and ended.out == ""
    last = ended.err.splitlines()[-1]
    assert last.startswith(f"next: polyseme generate '{tmp_path / 'a run'}' '"), "it ends with the next command to try"
    card = (tmp_path / "a run" / "README.md").read_text()
    assert f"polyseme pretrain gpt2 --out '{tmp_path / 'a run'}' --corpus {corpus_file} --size tiny" in card
    recipe = ps.load(tmp_path / "a run").recipe
    assert recipe.training.seed == 3 and recipe.training.steps == 2 and recipe.training.budget == "2steps"


def test_a_run_is_not_overwritten_and_a_finished_run_can_be_resumed(tmp_path, corpus_file):
    settings = ["model.vocab_size=400", "model.width=16", "training.batch_tokens=64", "training.threads=1"]
    options = {"corpus": [corpus_file], "out": tmp_path / "run", "size": "tiny"}
    ps.pretrain("bert", **options, budget="3steps", settings=settings)
    with pytest.raises(ps.CheckpointError, match="--resume"):
        ps.pretrain("bert", **options, budget="3steps", settings=settings)
    assert ps.pretrain("bert", **options, resume=True).recipe.training.steps == 3


def test_info(bert, gpt2, polyseme, tmp_path, masked):
    (facts,) = rows(polyseme("info", bert, "--json"))
    assert (
        facts["family"] == facts["transformers"] == "bert" and facts["state"] == "finished" and facts["changed"] == []
    )
    assert facts["parameters"] == sum(weight.numel() for weight in masked.encoder.parameters())
    assert (
        facts["steps"] == 40
        and facts["tokens"] == 40 * 256
        and set(facts["dev"]) >= {"masked_lm", "next_sentence_accuracy"}
    )
    plain = polyseme("info", bert)
    assert plain.code == 0 and plain.err == f"next: polyseme serve {bert}\n" and "masked_lm_accuracy" in plain.out
    copy = shutil.copytree(bert, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config))  # the same settings, another file
    (copy / "tokenizer_config.json").unlink()
    refused = polyseme("info", copy)
    assert refused.code == 2 and "config.json" in refused.err
    (facts,) = rows(polyseme("info", copy, "--no-verify", "--json"))
    assert facts["changed"] == ["config.json", "tokenizer_config.json"]
    (copy / "model.safetensors").unlink()
    ended = polyseme("info", copy, "--no-verify")
    assert ended.code == 0 and "unfinished" in ended.out
    assert ended.err == f"next: polyseme pretrain bert --out {copy} --resume\n"
    (copy / "history.jsonl").write_text('{"step": 3}\n[]\n')
    shutil.copy(bert / "model.safetensors", copy)
    assert "steps" not in rows(polyseme("info", copy, "--no-verify", "--json"))[0]


def test_doctor(polyseme):
    (facts,) = rows(polyseme("doctor", "--json"))
    assert (
        facts["torch"] == torch.__version__
        and facts["cores"] >= 1
        and facts["memory_free"] > 0
        and facts["gigaflops"] >= 1
    )
    ended = polyseme("doctor")
    assert ended.code == 0 and "memory free" in ended.out and ended.err


def test_sample(polyseme, tmp_path):
    ended = polyseme("sample", "town", "--out", tmp_path / "town", "--seed", "1")
    assert ended.code == 0 and ended.out == ""
    files = [path for path in (tmp_path / "town").rglob("*") if path.is_file()]
    assert len(files) > 2 and all(str(path) in ended.err for path in files)
    assert ended.err.splitlines()[-1].startswith("next: polyseme pretrain ")
    assert polyseme("sample", "town", "--out", tmp_path / "town").code == 2, "what is there stays"


@pytest.mark.parametrize("kind", ["word", "wordpiece", "byte-bpe"])
def test_tokenizer_train(polyseme, tmp_path, corpus_file, documents, kind):
    from polyseme.corpora.corpus import Corpus
    from polyseme.tokenization.config import TokenizerConfig
    from polyseme.tokenization.tokenizer import Tokenizer

    specials = "gpt2" if kind == "byte-bpe" else "bert"
    words = [
        "tokenizer",
        "train",
        "--corpus",
        corpus_file,
        "--kind",
        kind,
        "--specials",
        specials,
        "--vocab-size",
        "350",
    ]
    ended = polyseme(*words, "--out", tmp_path / "made")
    assert ended.code == 0 and ended.out == "" and f"{tmp_path / 'made'}: " in ended.err
    config = TokenizerConfig(kind=kind, specials=specials)
    trained = Tokenizer.train(config, Corpus(corpus_file), vocab_size=350)
    made = Tokenizer.load(tmp_path / "made")
    assert made.fingerprint == trained.fingerprint and made.vocab_size <= 350
    assert made.encode(documents[0]) == trained.encode(documents[0])


# --- texts in


@pytest.mark.parametrize("verb", ["score", "embed"])
def test_arguments_a_file_and_standard_input_are_the_same(polyseme, bert, tmp_path, verb):
    file = tmp_path / "lines.txt"
    file.write_text("\n\n".join(TEXTS) + "\n", encoding="utf-8")
    json_too = ["--json"] if verb == "score" else []
    by_argument = polyseme(verb, bert, *TEXTS, *json_too)
    assert by_argument.code == 0 and by_argument.err.startswith("next: polyseme evaluate ")
    assert polyseme(verb, bert, "--file", file, *json_too) == by_argument
    assert polyseme(verb, bert, *json_too, stdin="\r\n".join(TEXTS)) == by_argument
    assert [row["text"] for row in rows(by_argument)][: len(TEXTS)] == TEXTS


# --- fill


def test_fill(polyseme, bert, masked, peers):
    text = "The [MASK] bank by the [MASK]."
    masks = masked.fill(text, top=3)
    (row,) = rows(polyseme("fill", bert, text, "--top", "3", "--json"))
    assert row["text"] == text and len(row["masks"]) == len(masks) == 2
    for shown, mask in zip(row["masks"], masks, strict=True):
        assert [one["token"] for one in shown] == [one.token for one in mask]
        assert [one["probability"] for one in shown] == pytest.approx([one.probability for one in mask], abs=1e-6)
    model, tokenizer = peers["bert"]
    given = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        probabilities = model(**given).prediction_logits[0].softmax(-1)
    places = (given["input_ids"][0] == tokenizer.mask_token_id).nonzero().flatten()
    for mask, place in zip(masks, places, strict=True):
        best = probabilities[place].topk(3)
        assert [one.token for one in mask] == tokenizer.convert_ids_to_tokens(best.indices)
        assert [one.probability for one in mask] == pytest.approx(best.values.tolist(), abs=1e-4)
    table = polyseme("fill", bert, text, "--top", "3").out.splitlines()
    assert table[0].split("\t") == ["text", "mask", "token", "probability"] and len(table) == 7


def test_fill_far_into_a_long_text(masked):
    alone = masked.fill("a [MASK] " + LONG)[0], masked.fill(LONG + " [MASK].")[0]
    first, last = masked.fill("a [MASK] " + LONG + " [MASK].")
    assert [one.token for one in first] == [one.token for one in alone[0]], "each mask is read in its own context"
    assert [one.token for one in last] == [one.token for one in alone[1]]
    (mask,) = masked.fill(LONG + "the [MASK].", top=2)
    assert len(mask) == 2 and 1 >= sum(one.probability for one in mask) > 0
    assert len(masked.fill("[MASK]", top=10**9)[0]) == masked.tokenizer.vocab_size


# --- generate


def endless(model):
    """The language model without an end token, so that every run has the same length."""
    return dataclasses.replace(model.language_model, end=None)


def test_greedy_decoding_equals_that_of_transformers(causal, peers):
    model, _ = peers["gpt2"]
    for prompt in ("the", "她在", "spring came late"):
        ids = causal.tokenizer.encode(prompt, specials=False).ids[:8]
        for penalty in (1.0, 1.3, 0.8):
            with torch.inference_mode():
                theirs = model.generate(
                    torch.tensor([ids]),
                    attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                    do_sample=False,
                    max_new_tokens=40,
                    repetition_penalty=penalty,
                    eos_token_id=10**6,  # neither stops early
                    pad_token_id=0,
                )[0, len(ids) :].tolist()
            from polyseme.inference.generation import generate_batch

            settings = GenerationConfig(max_tokens=40, repetition_penalty=penalty)
            ours = [token for (token,) in generate_batch(endless(causal), [ids], settings)]
            assert ours == theirs, (prompt, penalty)
            text = causal.generate(causal.tokenizer.decode(ids), max_tokens=40, repetition_penalty=penalty)
            end = causal.tokenizer.specials.end
            written = theirs[: theirs.index(end)] if end in theirs else theirs
            if causal.tokenizer.encode(causal.tokenizer.decode(ids), specials=False).ids == ids:
                assert text == causal.tokenizer.decode(written)


def test_generation_beyond_the_maximum_length(causal):
    """The older half of the context is dropped: the text continues as if the newer half had been the prompt."""
    from polyseme.inference.generation import generate_batch

    limit = causal.encoder.config.max_length
    model = endless(causal)
    prompt = causal.tokenizer.encode("the old bank by the river", specials=False).ids
    whole = [token for (token,) in generate_batch(model, [prompt], GenerationConfig(max_tokens=3 * limit))]
    assert len(whole) == 3 * limit
    seen = prompt + whole[: limit - len(prompt) + 1]  # the model was full, and one more token was written from that
    newer = GenerationConfig(max_tokens=limit // 2)
    again = [token for (token,) in generate_batch(model, [seen[-(limit // 2) :]], newer)]
    start = len(seen) - len(prompt)
    assert whole[start : start + limit // 2] == again
    assert causal.generate(LONG, max_tokens=5), "a prompt longer than the model"


def test_the_context_is_read_again_beyond_the_maximum_length(causal, monkeypatch):
    """One token at a time until the cache is full; then the newer half at once."""
    from polyseme.inference.generation import generate_batch

    limit = causal.encoder.config.max_length
    prompt = causal.tokenizer.encode("the old bank by the river", specials=False).ids
    given, real = [], causal.encoder.forward

    def forward(batch, state=None):
        given.append(batch.ids[0].tolist())
        return real(batch, state)

    monkeypatch.setattr(causal.encoder, "forward", forward)
    settings = GenerationConfig(max_tokens=3 * limit, temperature=1.0)
    seen = prompt + [token for (token,) in generate_batch(endless(causal), [prompt], settings)]
    assert [len(ids) for ids in given[: limit - len(prompt) + 3]] == [
        len(prompt),
        *[1] * (limit - len(prompt)),
        limit // 2,
        1,
    ]
    position = len(prompt)
    for ids in given:
        assert ids == seen[position - len(ids) : position]
        position += 1
    assert {len(ids) for ids in given[1:]} == {1, limit // 2}


def test_tokens_beyond_the_maximum_length_are_greedy(causal):
    """Checked by hand: the truncated context, read without a cache, gives the same token."""
    from polyseme.inference.generation import generate_batch

    limit = causal.encoder.config.max_length
    head = causal.objective.parts[0]
    for length in (limit - 1, limit, limit + 1, 2 * limit + 3):
        prompt = (causal.tokenizer.encode(LONG, specials=False).ids * 3)[:length]
        ((first,),) = generate_batch(endless(causal), [prompt], GenerationConfig(max_tokens=1))
        view = prompt if length < limit else prompt[-(limit - 1) :]
        with torch.inference_mode():
            logits = head.logits(causal.encoder, causal.encoder(ps.Batch.of(torch.tensor([view]))).layers[-1][0, -1])
        assert first == int(logits.argmax())


SAMPLING = {"max_tokens": 30, "temperature": 1.0}


def test_sampling_depends_on_the_seed_only(causal):
    texts = [causal.generate("the", seed=seed, **SAMPLING) for seed in range(6)]
    assert texts == [causal.generate("the", seed=seed, **SAMPLING) for seed in range(6)]
    assert len(set(texts)) > 3
    torch.manual_seed(99)
    assert causal.generate("the", seed=0, **SAMPLING) == texts[0], "torch's global generator is not used"


def test_the_narrowest_choice_is_greedy(causal):
    greedy = causal.generate("the", max_tokens=30)
    assert causal.generate("the", top_k=1, seed=5, **SAMPLING) == greedy
    assert causal.generate("the", top_p=1e-9, seed=5, **SAMPLING) == greedy
    assert causal.generate("the", max_tokens=30, temperature=1e-3, seed=5) == greedy
    assert causal.generate("the", max_tokens=30, temperature=1e-300, seed=5) == greedy


def test_sampling_frequencies():
    """Compared with probabilities computed by hand."""
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    rng = torch.Generator().manual_seed(0)

    def drawn(**settings):
        counts = torch.zeros(4)
        for _ in range(4000):
            counts[choose_token(logits, [], GenerationConfig(temperature=1.0, **settings), rng)] += 1
        return counts / 4000

    torch.testing.assert_close(drawn(), logits.exp(), atol=0.03, rtol=0)
    torch.testing.assert_close(drawn(top_k=2), torch.tensor([0.625, 0.375, 0, 0]), atol=0.03, rtol=0)
    torch.testing.assert_close(drawn(top_p=0.7), torch.tensor([0.625, 0.375, 0, 0]), atol=0.03, rtol=0)
    torch.testing.assert_close(drawn(top_p=0.81), torch.tensor([0.526, 0.316, 0.158, 0]), atol=0.03, rtol=0)


def test_streamed_pieces_join_to_the_text(causal):
    for seed in range(8):
        pieces = list(causal.stream("她在", seed=seed, max_tokens=60, temperature=1.2))
        assert "".join(pieces) == causal.generate("她在", seed=seed, max_tokens=60, temperature=1.2)
        assert len(pieces) > 5
        assert not any("\ufffd" in piece for piece in pieces[:-1]) or "\ufffd" in "".join(pieces[:-1])


def test_stop_strings(causal):
    whole = causal.generate("the", max_tokens=60)
    for stop in {whole[5:7], whole[10:14], whole[20:21]}:
        written = causal.generate("the", max_tokens=60, stop=(stop,))
        assert written == whole[: whole.index(stop)]
    assert causal.generate("the", max_tokens=60, stop=("never to be seen",)) == whole


def test_generate_by_command(polyseme, gpt2, causal):
    for options, settings in [
        (["--temperature", "0"], {"temperature": 0.0, "top_p": 0.95}),
        (["--seed", "3"], {"temperature": 0.8, "top_p": 0.95, "seed": 3}),
        (["--top-k", "5", "--top-p", "1", "--temperature", "1.5", "--repetition-penalty", "1.2"],
         {"temperature": 1.5, "top_k": 5, "repetition_penalty": 1.2}),
        (["--stop", "e", "--stop", "a"], {"temperature": 0.8, "top_p": 0.95, "stop": ("e", "a")}),
    ]:  # fmt: skip
        text = causal.generate("the old", max_tokens=20, **settings)
        words = ["generate", gpt2, "the old", "--max-tokens", "20", *options]
        assert polyseme(*words).out == f"the old{text}\n"
        assert rows(polyseme(*words, "--json")) == [{"prompt": "the old", "text": text}]
    both = rows(polyseme("generate", gpt2, "--json", "--temperature", "0", stdin="the\na bat\n"))
    assert [row["text"] for row in both] == [causal.generate("the"), causal.generate("a bat")]
    assert causal.generate("") == causal.generate(causal.tokenizer.token(causal.tokenizer.specials.end))


def test_several_prompts_at_once(causal, polyseme, gpt2):
    texts = ["the", "她在", "", "spring came late this year", "a bat", LONG, "the old bank"] * 2
    for settings in ({}, {"temperature": 1.0, "top_p": 0.9, "seed": 3}, {"stop": ("e", "a")}, {"max_tokens": 2}):
        assert causal.generate(texts, **settings) == [causal.generate(text, **settings) for text in texts]
    assert causal.generate([]) == []
    lines = polyseme("generate", gpt2, "the", "a bat", "--temperature", "0", "--max-tokens", "5").out
    assert lines == "".join(f"{text}{causal.generate(text, max_tokens=5)}\n" for text in ("the", "a bat"))


def test_int8_weights(causal, masked, polyseme, gpt2, bert):
    in_bytes = ps.load(gpt2, weights="int8")
    texts = ["the old bank by the river", "她在", LONG]
    for kind, floats, folder in ((in_bytes, causal, gpt2), (ps.load(bert, weights="int8"), masked, bert)):
        for one, other in zip(kind.score(texts), floats.score(texts), strict=True):
            assert one.nats != other.nats and one.nats == pytest.approx(other.nats, rel=0.01)
        (row,) = rows(polyseme("score", folder, texts[0], "--weights", "int8", "--json"))
        assert row["nats"] == pytest.approx(kind.score(texts[:1])[0].nats, rel=1e-5)
    written = polyseme("generate", gpt2, "the", "--weights", "int8", "--temperature", "0").out
    assert written == f"the{in_bytes.generate('the')}\n"


# --- score


def test_likelihoods_by_hand(causal, peers, polyseme, gpt2):
    model, tokenizer = peers["gpt2"]
    scores = causal.score(TEXTS)
    for text, score in zip(TEXTS, scores, strict=True):
        ids = torch.tensor([[tokenizer.eos_token_id, *tokenizer(text)["input_ids"]]])
        with torch.inference_mode():
            nats = F.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="sum").item()
        assert score.kind == "likelihood" and score.nats == pytest.approx(nats, abs=1e-4)
        assert score.num_tokens == ids.shape[1] - 1 and score.num_characters == len(text)
        assert score.perplexity == pytest.approx(math.exp(nats / score.num_tokens), rel=1e-5)
        assert score.bits_per_character == pytest.approx(nats / math.log(2) / len(text), rel=1e-5)
    shown = rows(polyseme("score", gpt2, *TEXTS, "--json"))
    assert [row["nats"] for row in shown[:-1]] == pytest.approx([score.nats for score in scores], abs=1e-6)
    assert shown[-1]["text"] == "(all)" and shown[-1]["nats"] == pytest.approx(
        sum(score.nats for score in scores), abs=1e-5
    )
    assert shown[0]["words"] == 6 and shown[1]["words"] == 9  # eight ideographs and a mark


def test_pseudo_likelihoods_by_hand(masked, peers):
    model, tokenizer = peers["bert"]
    for text, score in zip(TEXTS, masked.score(TEXTS), strict=True):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        nats = 0.0
        for place in range(1, ids.shape[1] - 1):
            hidden = ids.clone()
            hidden[0, place] = tokenizer.mask_token_id
            with torch.inference_mode():
                nats -= model(hidden).prediction_logits[0, place].log_softmax(-1)[ids[0, place]].item()
        assert score.kind == "pseudo-likelihood"
        assert score.num_oov == (ids == tokenizer.unk_token_id).sum() and (score.oov_nats > 0) == (score.num_oov > 0)
        assert score.nats - score.oov_nats == pytest.approx(nats, abs=1e-4) and score.num_tokens == ids.shape[1] - 2


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_score_does_not_depend_on_the_batch(trained, family):
    model = ps.load(trained / family)
    texts = [*TEXTS, LONG[:300], "", "a"]
    alone = [model.score([text])[0].nats for text in texts]
    together = [score.nats for score in model.score(texts * 3)]
    assert together == pytest.approx(alone * 3, abs=1e-5 * max(1, *alone), rel=1e-5)
    (empty,) = model.score([""])
    assert empty.nats == 0 and empty.num_tokens == 0 and math.isnan(empty.perplexity)


def test_each_token_of_a_long_text_is_scored_once(causal):
    """By hand: windows advance by half their length; each token has at least half a window of context."""
    limit = causal.encoder.config.max_length
    ids = [causal.tokenizer.specials.end, *causal.tokenizer.encode(LONG, specials=False).ids]
    assert len(ids) > 4 * limit
    head: CausalLm = causal.objective.parts[0]
    nats, done, scored = 0.0, 1, []
    while done < len(ids):
        begin = max(0, min(done - limit // 2, len(ids) - limit - 1))
        window = torch.tensor([ids[begin : begin + limit + 1]])
        with torch.inference_mode():
            logits = head.logits(causal.encoder, causal.encoder(ps.Batch.of(window[:, :-1])).layers[-1])[0]
        for place in range(done - begin, window.shape[1]):
            nats -= logits[place - 1].log_softmax(-1)[window[0, place]].item()
            scored.append(begin + place)
        done = begin + window.shape[1]
    assert scored == list(range(1, len(ids)))
    (score,) = causal.score([LONG])
    assert score.num_tokens == len(ids) - 1 and score.nats == pytest.approx(nats, abs=1e-3)


def test_a_long_text_and_a_masked_model(masked):
    (score,) = masked.score([LONG])
    assert score.num_tokens == len(masked.tokenizer.encode(LONG, specials=False).ids) > masked.encoder.config.max_length


# --- embed and encode


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_pools_by_hand(trained, peers, family):
    model, (theirs, tokenizer) = ps.load(trained / family), peers[family]
    for text in TEXTS:
        with torch.inference_mode():
            hidden = theirs(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
        for layer in (0, 1, -1):
            tokens = hidden[layer][0].numpy()
            pools = {"mean": tokens.mean(0), "max": tokens.max(0), "first": tokens[0], "last": tokens[-1]}
            for pool, vector in pools.items():
                np.testing.assert_allclose(model.embed([text], pool=pool, layer=layer)[0], vector, atol=1e-5)
        (encoding,) = model.encode([text])
        assert len(encoding.layers) == len(hidden) and encoding.layers[-1].shape == hidden[-1][0].shape
        np.testing.assert_allclose(encoding.layers[-1], hidden[-1][0].numpy(), atol=1e-5)
        assert len(encoding.tokens) == len(encoding.offsets) == len(encoding.layers[0])


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("pool", ["mean", "first", "last", "max"])
def test_a_vector_does_not_depend_on_the_batch(trained, family, pool):
    model = ps.load(trained / family)
    texts = [*TEXTS, "", " ", LONG, "a", LONG[:100]]
    alone = np.concatenate([model.embed([text], pool=pool) for text in texts])
    rng = random.Random(0)
    for _ in range(3):
        order = rng.choices(range(len(texts)), k=20)
        np.testing.assert_allclose(model.embed([texts[number] for number in order], pool=pool), alone[order], atol=1e-5)
    assert np.isfinite(alone).all() and model.embed([]).shape == (0, 32)


def test_embed_by_command(polyseme, bert, masked, tmp_path):
    vectors = masked.embed(TEXTS, pool="first", layer=1)
    shown = rows(polyseme("embed", bert, *TEXTS, "--pool", "first", "--layer", "1"))
    np.testing.assert_allclose([row["vector"] for row in shown], vectors, atol=1e-6)
    ended = polyseme("embed", bert, *TEXTS, "--pool", "first", "--layer", "1", "--out", tmp_path / "v.npy")
    assert ended.code == 0 and ended.out == ""
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy", allow_pickle=False), vectors)
    assert Path(tmp_path / "v.npy").is_file()
