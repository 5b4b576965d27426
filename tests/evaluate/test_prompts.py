"""Prompts: what a model is shown, to the letter; and figures of models whose answers are known."""

import json
import math
from types import SimpleNamespace

import pytest
from random_models import random_model

import polyseme as ps
from polyseme.errors import ConfigError, DataError
from polyseme.evaluate.asking import AskConfig, ask
from polyseme.evaluate.overlap import rouge
from polyseme.evaluate.prompts import score_prompts
from polyseme.evaluate.questions import read_questions
from polyseme.evaluate.templates import Template, language_of, template
from polyseme.scoring import Score
from polyseme.text.units import choose_segmenter


class Told:
    """A model that says what it is told to, and remembers what it was asked."""

    def __init__(self, tokenizer, answers=(), nats=None, limit=1000):
        self.encoder = SimpleNamespace(config=SimpleNamespace(max_length=limit))
        self.tokenizer, self.answers, self.nats = tokenizer, [*answers], nats or {}
        self.asked, self.sampling = [], {}

    def generate(self, prompts, **sampling):
        self.asked += prompts
        self.sampling = sampling
        return [self.answers.pop(0) for _ in prompts]

    def score(self, texts, *, after=None):
        self.asked += after
        return [
            Score(
                kind="likelihood",
                nats=self.nats[text],
                num_tokens=len(text.split()),
                num_words=1,
                num_characters=len(text),
                likeliest=self.nats[text] < 1,
            )
            for text in texts
        ]


@pytest.fixture(scope="module")
def random_gpt2(documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    return random_model("gpt2", documents, "model.max_length=64", folder=folder)


@pytest.fixture
def told(random_gpt2):
    return lambda *answers, **more: Told(random_gpt2.tokenizer, answers, **more)


def lines(path, *rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def squad(path, *rows):
    paragraphs = [
        {
            "context": passage,
            "qas": [
                {
                    "id": question,
                    "question": question,
                    "answers": [{"text": text, "answer_start": passage.index(text)} for text in answers],
                    "is_impossible": not answers,
                }
            ],
        }
        for passage, question, *answers in rows
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}, ensure_ascii=False), encoding="utf-8")
    return path


def short(figures):
    return [(figure.measure, figure.value, figure.num_found, figure.num_items) for figure in figures]


def test_the_last_word(told, tmp_path):
    file = lines(
        tmp_path / "last.jsonl", {"text": 'He said: "the old\nbank'}, {"text": "I don't like it!"}, {"text": "one"}
    )
    model = told(nats={" bank": 0.5, " it": 3.5})
    right, perplexity = score_prompts(model, file)
    assert model.asked == ['He said: "the old', "I don't like"]
    assert (right.name, right.section, right.measure) == ("last", "complete, 0-shot", "accuracy")
    assert (right.value, right.error, right.num_items) == (0.5, 0.5, 2)
    assert perplexity.measure == "perplexity of the word" and perplexity.value == pytest.approx(math.exp(2))
    assert perplexity.error == pytest.approx(math.exp(2) * 1.5)


def test_the_last_word_of_chinese(tmp_path):
    file = lines(tmp_path / "last.jsonl", {"text": "他每天早上吃一个苹果。"}, {"text": "人们在岸上等着银行"})
    asked = read_questions(file)
    assert asked.language == "zh"
    words = ["果", "行"] if choose_segmenter("auto") == "none" else ["苹果", "银行"]
    assert [item.answers for item in asked.items] == [(word,) for word in words]
    assert asked.items[0].example == "他每天早上吃一个苹果"


def test_choices(told, tmp_path):
    file = lines(
        tmp_path / "choices.jsonl",
        {"context": "Bakers sell", "choices": ["fresh bread", "money"], "answer": 0},
        {"context": "What do banks lend?", "choices": ["bread", "money", "a lot of money"], "answer": 1},
    )
    nats = {" fresh bread": 8.0, " money": 5.0, " bread": 7.0, " a lot of money": 9.0}
    model = told(nats=nats)
    found = score_prompts(model, file)
    assert [*dict.fromkeys(model.asked)] == ["Bakers sell", "What do banks lend?\nA:"]
    # Per token 4 and 5, 7 and 5 and 2.25; per character .67 and .83, 1.17 and .83 and .6.
    assert short(found) == [
        ("accuracy per token", 0.5, 2, 2),
        ("accuracy per character", 0.5, 2, 2),
        ("accuracy of the whole", 0.5, 2, 2),
    ]
    assert score_prompts(told(nats=dict.fromkeys(nats, 5.0)), file)[2].value == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_choices_in_chinese(tmp_path):
    rows = [{"context": "女的到底生谁的气?", "choices": ["老师", "丈夫"], "answer": 1}]
    (item,) = read_questions(lines(tmp_path / "choices.jsonl", *rows)).items
    assert item.example == "女的到底生谁的气?\n答：丈夫"


def test_answers(told, tmp_path):
    file = squad(
        tmp_path / "questions.json",
        ("The old bank lends money.", "What does it lend?", "money", "old bank"),
        ("The mill was dry.", "Who broke it?"),
    )
    model = told(" the money\n", "nobody")
    f1, exact = score_prompts(model, file)
    assert model.asked[0] == "The old bank lends money.\n\nQ: What does it lend?\nA:"
    assert model.sampling == {"max_tokens": 30, "seed": 0, "stop": ("\n",), "temperature": 0.0}
    assert short([f1, exact]) == [("f1", 0.5, 2, 2), ("exact", 0.5, 2, 2)], "articles do not count"
    file = squad(tmp_path / "zh.json", ("银行昨天关门了。", "银行什么时候关门？", "昨天"))
    f1, _ = score_prompts(told("昨"), file)
    assert f1.value == pytest.approx(2 / 3), "by characters"
    assert read_questions(file).items[0].example == "银行昨天关门了。\n\n问：银行什么时候关门？\n答：昨天"


def test_summaries(told, tmp_path):
    file = lines(tmp_path / "articles.jsonl", {"text": "Long.  ", "summary": "The bank lends money."})
    model = told(" The bank. It lends. A lot. Of money.")
    found = score_prompts(model, file, seed=3)
    assert model.asked == ["Long.\nTL;DR:"]
    assert model.sampling["top_k"] == 2 and model.sampling["temperature"] == 1 and model.sampling["seed"] == 3
    assert [figure.measure for figure in found] == ["rouge-1", "rouge-2", "rouge-l"]
    # Three sentences count: the bank it lends a lot. Three of four words of the other are in seven; the bank is.
    assert [figure.value for figure in found] == pytest.approx([6 / 10, 2 / 8, 6 / 10])
    (item,) = read_questions(lines(tmp_path / "zh.jsonl", {"text": "银行昨天关门了。", "summary": "关门"})).items
    assert item.example == "银行昨天关门了。\n摘要：关门"


def test_rouge_by_hand():
    assert rouge("the cat sat on the mat", "the mat the cat") == pytest.approx(
        {"rouge-1": 2 * 4 / 10, "rouge-2": 2 * 2 / 8, "rouge-l": 2 * 2 / 10}
    )
    assert rouge("苹果公司", "苹果 shop")["rouge-1"] == pytest.approx(2 * 2 / 7)
    assert rouge("a", "") == {"rouge-1": 0.0, "rouge-2": 0.0, "rouge-l": 0.0}


@pytest.mark.parametrize(
    ("source", "target", "prompt"),
    [
        ("the old bank", "die alte Bank", "the old bank ="),
        ("他每天吃苹果。", "He eats apples.", "请将下列中文翻译成英文，中文：他每天吃苹果。，英文："),
        ("He eats apples.", "他每天吃苹果。", "请将下列英文翻译成中文，英文：He eats apples.，中文："),
    ],
)
def test_translations(told, tmp_path, source, target, prompt):
    pytest.importorskip("sacrebleu")
    file = tmp_path / "pairs.tsv"
    file.write_text(f"source\ttarget\n{source}\t{target}\n", encoding="utf-8")
    model = told(f" {target} And so on.")
    (found,) = score_prompts(model, file)
    assert model.asked == [prompt] and (found.measure, found.section) == ("bleu", "translate, 0-shot")
    assert found.value == pytest.approx(100) or "." not in target
    assert read_questions(file, "en").items[0].question == f"{source} ="


def test_examples_come_first(told, tmp_path):
    rows = [{"text": f"day {n} is number {n}"} for n in range(9)]
    file = lines(tmp_path / "last.jsonl", *rows)
    model = told(nats={f" {n}": 2.0 for n in range(9)})
    found = score_prompts(model, file, shots=2, most=4, seed=1)
    assert found[0].section == "complete, 2-shot" and found[0].num_items == len(model.asked) == 4
    for prompt in model.asked:
        *examples, question = prompt.split("\n\n")
        assert len({*examples}) == 2 and question.endswith("is number") and f"{question} {question[4]}" not in examples
    again, other = told(nats=model.nats), told(nats=model.nats)
    score_prompts(again, file, shots=2, most=4, seed=1)
    score_prompts(other, file, shots=2, most=4, seed=2)
    assert again.asked == model.asked != other.asked
    elsewhere = lines(tmp_path / "more.jsonl", {"text": "night is dark"})
    model = told(nats=model.nats)
    score_prompts(model, file, shots=1, examples=str(elsewhere))
    assert model.asked[0] == "night is dark\n\nday 0 is number"
    with pytest.raises(DataError, match=r"more.jsonl has 1 other examples with answers; ask for fewer --shots"):
        score_prompts(model, file, shots=2, examples=str(elsewhere))


def test_how_many_fit_is_said(told, tmp_path):
    file = lines(
        tmp_path / "last.jsonl", {"text": "the bank"}, {"text": "the old bank by the river lends " * 9 + "money"}
    )
    found = score_prompts(told(nats={" bank": 1.0, " money": 2.0}, limit=20), file)
    assert (found[0].num_found, found[0].num_items) == (1, 2)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.jsonl", '{"text": "a b", "label": "x"}', r"its columns are those of no prompt \(label, text\)"),
        ("a.txt", "text", "is plain text; write questions as .jsonl"),
        ("a.jsonl", "", r"those of no prompt \(none\)"),
        ("a.jsonl", '{"text": "word"}', "holds nothing to ask"),
        ("a.jsonl", '{"text": 3}', "line 1: the column 'text' is not text"),
        ("a.json", "[]", "no 'data' where SQuAD has one"),
        ("a.jsonl", '{"context": "a", "choices": ["b", "c"], "answer": "d"}', "the answer is none of the choices"),
    ],
)
def test_files_that_ask_nothing(tmp_path, name, content, why):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=why):
        read_questions(tmp_path / name)


def test_what_is_data():
    assert language_of(["Apple 苹果公司的新产品", "苹果苹果"]) == "zh" and language_of(["the 苹果", ""]) == "en"
    assert template("answer", "zh").question(passage="", question="谁？") == "问：谁？\n答："
    # What a text has in braces is text.
    assert template("translate", "en").question(source="{source} {0}") == "{source} {0} ="
    assert template("translate", "en").reply("{answer}") == " {answer}"
    assert isinstance(template("complete", "en"), Template)


# --- models that exist


@pytest.fixture(scope="module")
def theirs(random_gpt2, tmp_path_factory):
    """A GPT-2 that the transformers library made and wrote, tokenizer and all."""
    import transformers

    folder = tmp_path_factory.mktemp("models") / "theirs"
    tokenizer = transformers.AutoTokenizer.from_pretrained(random_gpt2.folder)
    tokenizer.save_pretrained(folder)
    ids = {"bos_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = transformers.GPT2Config(vocab_size=300, n_positions=64, n_embd=32, n_layer=1, n_head=2, **ids)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def test_every_task_on_both_kinds_of_directory(random_gpt2, theirs, tmp_path):
    files = [
        lines(tmp_path / "last.jsonl", {"text": "the old bank"}, {"text": "the boys looked for their bat"}),
        lines(tmp_path / "c.jsonl", *[{"context": "banks lend", "choices": ["money", "bats"], "answer": 0}] * 2),
        squad(tmp_path / "s.json", ("The bank lends money.", "What?", "money"), ("The mill.", "What?", "mill")),
        lines(tmp_path / "sum.jsonl", *[{"text": "The bank lends money.", "summary": "A bank."}] * 2),
        lines(tmp_path / "t.jsonl", *[{"source": "the bank", "target": "die Bank"}, {"source": "a", "target": "b"}]),
    ]
    for folder in (random_gpt2.folder, theirs):
        model = ps.load(folder)
        for file in files:
            found = model.evaluate(file, suite="prompts", shots=1)
            assert found == model.evaluate(file, suite="prompts", shots=1)
            assert all(figure.value is not None and figure.error is not None for figure in found)
        assert model.ask(["What?"], passage="The bank lends money.") == model.ask(
            ["What?"], passage="The bank lends money."
        )


def test_the_last_word_by_hand(theirs, tmp_path):
    """Which word they would write, they say themselves."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(theirs).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(theirs)
    texts = ["the old bank", "the boys looked for their bat", "a spring"]
    nats, right = [], []
    for text in texts:
        start = len(tokenizer(text.rsplit(" ", 1)[0])["input_ids"]) + 1
        ids = torch.tensor([[tokenizer.eos_token_id, *tokenizer(text)["input_ids"]]])
        with torch.inference_mode():
            chances = model(ids).logits[0].log_softmax(-1)
        nats.append(-sum(chances[place - 1, ids[0, place]].item() for place in range(start, ids.shape[1])))
        right.append(all(chances[place - 1].argmax() == ids[0, place] for place in range(start, ids.shape[1])))
    found = ps.load(theirs).evaluate(lines(tmp_path / "l.jsonl", *[{"text": t} for t in texts]), suite="prompts")
    assert found[0].value == sum(right) / 3
    assert found[1].value == pytest.approx(math.exp(sum(nats) / 3), rel=1e-4)


@pytest.mark.parametrize("family", ["elmo", "ulmfit", "nnlm"])
def test_other_families_that_write(documents, family, tmp_path):
    model = random_model(family, documents)
    file = lines(tmp_path / "last.jsonl", {"text": "the old bank"}, {"text": "the old quagga"})
    right, perplexity = model.evaluate(file, suite="prompts")
    assert right.value is not None and perplexity.value > 1


@pytest.mark.parametrize("family", ["bert", "skipgram"])
def test_models_that_cannot_are_told_apart(documents, family, tmp_path):
    file = lines(tmp_path / "last.jsonl", {"text": "the old bank"})
    if family == "skipgram":
        (tmp_path / "vectors.txt").write_text("bank 1 2\nriver 3 4\n")
        model = ps.load(tmp_path / "vectors.txt")
    else:
        model = random_model(family, documents)
    for use in (lambda: model.evaluate(file, suite="prompts"), lambda: model.ask(["Who?"])):
        with pytest.raises(ConfigError, match="cannot go on from a text: that needs a left-to-right model, and this"):
            use()


# --- ask


def put(model, *texts, **settings):
    return ask(model, texts, AskConfig(**settings))


def test_asking(told):
    model = told(" 1984. And more.\n")
    (reply,) = put(model, "When was it?", passage="It was in 1984.", max_tokens=7)
    assert reply.prompt == model.asked[0] == "It was in 1984.\n\nQ: When was it?\nA:"
    assert reply.answer == "1984. And more." and model.sampling["max_tokens"] == 7
    assert put(told("x"), "谁？")[0].prompt == "问：谁？\n答："
    assert put(told("x"), "Who?", language="zh")[0].prompt == "问：Who?\n答："
    written = " The bank. It lends. A lot. Of money."
    assert put(told(written), "Long text.", task="summarise")[0].answer == "The bank. It lends. A lot."
    assert put(told("x"), "苹果", task="translate")[0].prompt == "请将下列中文翻译成英文，中文：苹果，英文："
    assert put(told("x"), "apple", task="translate", language="zh")[0].prompt.endswith("英文：apple，中文：")
    assert put(told("x"), "apple", task="translate")[0].prompt == "apple ="


def test_asking_after_examples(told, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("source\ttarget\n" + "".join(f"the bank {n}\tdie Bank {n}\n" for n in range(9)))
    (reply,) = put(told("x"), "the river", task="translate", shots=str(file), most=2)
    assert reply.prompt == "the bank 0 = die Bank 0\nthe bank 1 = die Bank 1\nthe river ="
    (short,) = put(told("x", limit=150), "the river", task="translate", shots=str(file), most=9)
    assert 2 < short.num_shown == short.prompt.count("\n") < 9 and "bank 8" in short.prompt, (
        "as many as fit, the last ones"
    )
    file.write_text("source\ttarget\nthe bank\t银行银行\n", encoding="utf-8")
    (reply,) = put(told("x"), "the river", task="translate", shots=str(file))
    assert reply.prompt.startswith("请将下列英文翻译成中文，英文：the bank，中文：银行银行\n请将下列英文")
    with pytest.raises(DataError, match="has examples to translate, not to answer; say --task translate"):
        put(told("x"), "Who?", shots=str(file))


def test_asking_to_choose(told):
    (reply,) = put(
        told(nats={" bread": 2.0, " old money": 2.0}), "Bakers sell", task="choose", choices=("bread", "old money")
    )
    assert reply.answer == "old money" and reply.prompt == "Bakers sell"
    assert reply.choices == pytest.approx({"bread": 1 / (1 + math.e), "old money": math.e / (1 + math.e)})
    with pytest.raises(ConfigError, match="nothing to choose from"):
        put(told(), "Bakers sell", task="choose", choices=("bread",))
