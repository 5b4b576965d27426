"""Prompting: exact prompts, and metrics of a scripted model with known answers."""

import json
import math
from types import SimpleNamespace

import pytest
from tests.evaluation.random_models import random_model

import polyseme as ps
from polyseme.errors import ConfigError, DataError
from polyseme.evaluation.prompting.ask import AskConfig, ask
from polyseme.evaluation.prompting.few_shot import score_prompts
from polyseme.evaluation.prompting.items import read_prompts
from polyseme.evaluation.prompting.templates import PromptTemplate, detect_language, prompt_templates
from polyseme.evaluation.rouge import rouge
from polyseme.inference.scores import Score
from polyseme.tokenization.word_segmentation import choose_segmenter


class ScriptedModel:
    """Returns scripted answers and scores, and records its prompts."""

    def __init__(self, tokenizer, answers=(), nats=None, limit=1000):
        self.encoder = SimpleNamespace(config=SimpleNamespace(max_length=limit))
        self.tokenizer, self.answers, self.nats = tokenizer, [*answers], nats or {}
        self.prompts, self.options = [], {}

    def generate(self, prompts, **options):
        self.prompts += prompts
        self.options = options
        return [self.answers.pop(0) for _ in prompts]

    def score(self, texts, *, after=None):
        self.prompts += after
        return [
            Score(
                kind="likelihood",
                nats=self.nats[text],
                num_tokens=len(text.split()),
                num_words=1,
                num_characters=len(text),
                is_greedy=self.nats[text] < 1,
            )
            for text in texts
        ]


@pytest.fixture(scope="module")
def random_gpt2(documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    return random_model("gpt2", documents, "model.max_length=64", folder=folder)


@pytest.fixture
def scripted(random_gpt2):
    return lambda *answers, **more: ScriptedModel(random_gpt2.tokenizer, answers, **more)


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


def short(results):
    return [(result.metric, result.value, result.num_scored, result.num_items) for result in results]


def test_last_word(scripted, tmp_path):
    file = lines(
        tmp_path / "last.jsonl", {"text": 'He said: "the old\nbank'}, {"text": "I don't like it!"}, {"text": "one"}
    )
    model = scripted(nats={" bank": 0.5, " it": 3.5})
    right, perplexity = score_prompts(model, file)
    assert model.prompts == ['He said: "the old', "I don't like"]
    assert (right.name, right.section, right.metric) == ("last", "complete, 0-shot", "accuracy")
    assert (right.value, right.standard_error, right.num_items) == (0.5, 0.5, 2)
    assert perplexity.metric == "perplexity of the word" and perplexity.value == pytest.approx(math.exp(2))
    assert perplexity.standard_error == pytest.approx(math.exp(2) * 1.5)


def test_last_word_of_chinese_text(tmp_path):
    file = lines(tmp_path / "last.jsonl", {"text": "他每天早上吃一个苹果。"}, {"text": "人们在岸上等着银行"})
    questions = read_prompts(file)
    assert questions.language == "zh"
    words = ["果", "行"] if choose_segmenter("auto") == "none" else ["苹果", "银行"]
    assert [item.answers for item in questions.items] == [(word,) for word in words]
    assert questions.items[0].example == "他每天早上吃一个苹果"


def test_choices(scripted, tmp_path):
    file = lines(
        tmp_path / "choices.jsonl",
        {"context": "Bakers sell", "choices": ["fresh bread", "money"], "answer": 0},
        {"context": "What do banks lend?", "choices": ["bread", "money", "a lot of money"], "answer": 1},
    )
    nats = {" fresh bread": 8.0, " money": 5.0, " bread": 7.0, " a lot of money": 9.0}
    model = scripted(nats=nats)
    found = score_prompts(model, file)
    assert [*dict.fromkeys(model.prompts)] == ["Bakers sell", "What do banks lend?\nA:"]
    # Per token 4 and 5, 7 and 5 and 2.25; per character .67 and .83, 1.17 and .83 and .6.
    assert short(found) == [
        ("accuracy per token", 0.5, 2, 2),
        ("accuracy per character", 0.5, 2, 2),
        ("accuracy in total", 0.5, 2, 2),
    ]
    assert score_prompts(scripted(nats=dict.fromkeys(nats, 5.0)), file)[2].value == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_choices_in_chinese(tmp_path):
    rows = [{"context": "女的到底生谁的气?", "choices": ["老师", "丈夫"], "answer": 1}]
    (item,) = read_prompts(lines(tmp_path / "choices.jsonl", *rows)).items
    assert item.example == "女的到底生谁的气?\n答：丈夫"


def test_answers(scripted, tmp_path):
    file = squad(
        tmp_path / "questions.json",
        ("The old bank lends money.", "What does it lend?", "money", "old bank"),
        ("The mill was dry.", "Who broke it?"),
    )
    model = scripted(" the money\n", "nobody")
    f1, exact = score_prompts(model, file)
    assert model.prompts[0] == "The old bank lends money.\n\nQ: What does it lend?\nA:"
    assert model.options == {"max_tokens": 30, "seed": 0, "stop": ("\n",), "temperature": 0.0}
    assert short([f1, exact]) == [("f1", 0.5, 2, 2), ("exact", 0.5, 2, 2)], "articles do not count"
    file = squad(tmp_path / "zh.json", ("银行昨天关门了。", "银行什么时候关门？", "昨天"))
    f1, _ = score_prompts(scripted("昨"), file)
    assert f1.value == pytest.approx(2 / 3), "by characters"
    assert read_prompts(file).items[0].example == "银行昨天关门了。\n\n问：银行什么时候关门？\n答：昨天"


def test_summaries(scripted, tmp_path):
    file = lines(tmp_path / "articles.jsonl", {"text": "Long.  ", "summary": "The bank lends money."})
    model = scripted(" The bank. It lends. A lot. Of money.")
    found = score_prompts(model, file, seed=3)
    assert model.prompts == ["Long.\nTL;DR:"]
    assert model.options["top_k"] == 2 and model.options["temperature"] == 1 and model.options["seed"] == 3
    assert [result.metric for result in found] == ["rouge-1", "rouge-2", "rouge-l"]
    # Three sentences count: "the bank it lends a lot", seven words that share three of four with the reference.
    assert [result.value for result in found] == pytest.approx([6 / 10, 2 / 8, 6 / 10])
    (item,) = read_prompts(lines(tmp_path / "zh.jsonl", {"text": "银行昨天关门了。", "summary": "关门"})).items
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
def test_translations(scripted, tmp_path, source, target, prompt):
    pytest.importorskip("sacrebleu")
    file = tmp_path / "pairs.tsv"
    file.write_text(f"source\ttarget\n{source}\t{target}\n", encoding="utf-8")
    model = scripted(f" {target} And so on.")
    (found,) = score_prompts(model, file)
    assert model.prompts == [prompt] and (found.metric, found.section) == ("bleu", "translate, 0-shot")
    assert found.value == pytest.approx(100) or "." not in target
    assert read_prompts(file, "en").items[0].question == f"{source} ="


def test_solved_examples_precede_the_question(scripted, tmp_path):
    rows = [{"text": f"day {n} is number {n}"} for n in range(9)]
    file = lines(tmp_path / "last.jsonl", *rows)
    model = scripted(nats={f" {n}": 2.0 for n in range(9)})
    found = score_prompts(model, file, shots=2, most=4, seed=1)
    assert found[0].section == "complete, 2-shot" and found[0].num_items == len(model.prompts) == 4
    for prompt in model.prompts:
        *examples, question = prompt.split("\n\n")
        assert len({*examples}) == 2 and question.endswith("is number") and f"{question} {question[4]}" not in examples
    again, other = scripted(nats=model.nats), scripted(nats=model.nats)
    score_prompts(again, file, shots=2, most=4, seed=1)
    score_prompts(other, file, shots=2, most=4, seed=2)
    assert again.prompts == model.prompts != other.prompts
    elsewhere = lines(tmp_path / "more.jsonl", {"text": "night is dark"})
    model = scripted(nats=model.nats)
    score_prompts(model, file, shots=1, examples=str(elsewhere))
    assert model.prompts[0] == "night is dark\n\nday 0 is number"
    with pytest.raises(DataError, match=r"more.jsonl has 1 other examples with answers; use fewer --shots"):
        score_prompts(model, file, shots=2, examples=str(elsewhere))


def test_truncated_prompts_are_counted(scripted, tmp_path):
    file = lines(
        tmp_path / "last.jsonl", {"text": "the bank"}, {"text": "the old bank by the river lends " * 9 + "money"}
    )
    found = score_prompts(scripted(nats={" bank": 1.0, " money": 2.0}, limit=20), file)
    assert (found[0].num_scored, found[0].num_items) == (1, 2)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.jsonl", '{"text": "a b", "label": "x"}', r"no task has these columns \(label, text\)"),
        ("a.txt", "text", "is plain text; write questions as .jsonl"),
        ("a.jsonl", "", r"no task has these columns \(none\)"),
        ("a.jsonl", '{"text": "word"}', "has no questions"),
        ("a.jsonl", '{"text": 3}', "line 1: column 'text' is not text"),
        ("a.json", "[]", "not in SQuAD format"),
        ("a.jsonl", '{"context": "a", "choices": ["b", "c"], "answer": "d"}', "the answer is not one of the choices"),
    ],
)
def test_malformed_file_is_refused(tmp_path, name, content, why):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=why):
        read_prompts(tmp_path / name)


def test_templates_are_data():
    assert detect_language(["Apple 苹果公司的新产品", "苹果苹果"]) == "zh" and detect_language(["the 苹果", ""]) == "en"
    assert prompt_templates()["answer"]["zh"].question(passage="", question="谁？") == "问：谁？\n答："
    # Braces in a text are not placeholders.
    assert prompt_templates()["translate"]["en"].question(source="{source} {0}") == "{source} {0} ="
    assert prompt_templates()["translate"]["en"].format_answer("{answer}") == " {answer}"
    assert isinstance(prompt_templates()["complete"]["en"], PromptTemplate)


# --- real models


@pytest.fixture(scope="module")
def theirs(random_gpt2, tmp_path_factory):
    """A GPT-2 directory written by transformers, with its tokenizer."""
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
            assert all(result.value is not None and result.standard_error is not None for result in found)
        assert model.ask(["What?"], passage="The bank lends money.") == model.ask(
            ["What?"], passage="The bank lends money."
        )


def test_last_word_equals_transformers(theirs, tmp_path):
    """Compare with the log-probabilities of transformers."""
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
            log_probabilities = model(ids).logits[0].log_softmax(-1)
        nats.append(-sum(log_probabilities[place - 1, ids[0, place]].item() for place in range(start, ids.shape[1])))
        right.append(
            all(log_probabilities[place - 1].argmax() == ids[0, place] for place in range(start, ids.shape[1]))
        )
    found = ps.load(theirs).evaluate(lines(tmp_path / "l.jsonl", *[{"text": t} for t in texts]), suite="prompts")
    assert found[0].value == sum(right) / 3
    assert found[1].value == pytest.approx(math.exp(sum(nats) / 3), rel=1e-4)


@pytest.mark.parametrize("family", ["elmo", "ulmfit", "nnlm"])
def test_other_causal_families(documents, family, tmp_path):
    model = random_model(family, documents)
    file = lines(tmp_path / "last.jsonl", {"text": "the old bank"}, {"text": "the old quagga"})
    right, perplexity = model.evaluate(file, suite="prompts")
    assert right.value is not None and perplexity.value > 1


@pytest.mark.parametrize("family", ["bert", "skipgram"])
def test_other_models_are_refused(documents, family, tmp_path):
    file = lines(tmp_path / "last.jsonl", {"text": "the old bank"})
    if family == "skipgram":
        (tmp_path / "vectors.txt").write_text("bank 1 2\nriver 3 4\n")
        model = ps.load(tmp_path / "vectors.txt")
    else:
        model = random_model(family, documents)
    for use in (lambda: model.evaluate(file, suite="prompts"), lambda: model.ask(["Who?"])):
        with pytest.raises(ConfigError, match="cannot score continuations"):
            use()


# --- ask


def ask_all(model, *texts, **options):
    return ask(model, texts, AskConfig(**options))


def test_ask(scripted):
    model = scripted(" 1984. And more.\n")
    (result,) = ask_all(model, "When was it?", passage="It was in 1984.", max_tokens=7)
    assert result.prompt == model.prompts[0] == "It was in 1984.\n\nQ: When was it?\nA:"
    assert result.answer == "1984. And more." and model.options["max_tokens"] == 7
    assert ask_all(scripted("x"), "谁？")[0].prompt == "问：谁？\n答："
    assert ask_all(scripted("x"), "Who?", language="zh")[0].prompt == "问：Who?\n答："
    written = " The bank. It lends. A lot. Of money."
    assert ask_all(scripted(written), "Long text.", task="summarise")[0].answer == "The bank. It lends. A lot."
    assert ask_all(scripted("x"), "苹果", task="translate")[0].prompt == "请将下列中文翻译成英文，中文：苹果，英文："
    assert ask_all(scripted("x"), "apple", task="translate", language="zh")[0].prompt.endswith("英文：apple，中文：")
    assert ask_all(scripted("x"), "apple", task="translate")[0].prompt == "apple ="


def test_ask_with_examples(scripted, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("source\ttarget\n" + "".join(f"the bank {n}\tdie Bank {n}\n" for n in range(9)))
    (result,) = ask_all(scripted("x"), "the river", task="translate", shots=str(file), most=2)
    assert result.prompt == "the bank 0 = die Bank 0\nthe bank 1 = die Bank 1\nthe river ="
    (short,) = ask_all(scripted("x", limit=150), "the river", task="translate", shots=str(file), most=9)
    assert 2 < short.num_shots == short.prompt.count("\n") < 9 and "bank 8" in short.prompt, (
        "the last examples that fit"
    )
    file.write_text("source\ttarget\nthe bank\t银行银行\n", encoding="utf-8")
    (result,) = ask_all(scripted("x"), "the river", task="translate", shots=str(file))
    assert result.prompt.startswith("请将下列英文翻译成中文，英文：the bank，中文：银行银行\n请将下列英文")
    with pytest.raises(DataError, match="has examples of translate, not of answer; use --task translate"):
        ask_all(scripted("x"), "Who?", shots=str(file))


def test_ask_to_choose(scripted):
    (result,) = ask_all(
        scripted(nats={" bread": 2.0, " old money": 2.0}), "Bakers sell", task="choose", choices=("bread", "old money")
    )
    assert result.answer == "old money" and result.prompt == "Bakers sell"
    assert result.choices == pytest.approx({"bread": 1 / (1 + math.e), "old money": math.e / (1 + math.e)})
    with pytest.raises(ConfigError, match="nothing to choose from"):
        ask_all(scripted(), "Bakers sell", task="choose", choices=("bread",))
