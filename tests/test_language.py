"""Names and prose use the vocabulary of the field: words of the project's early dialect may not come back."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

THIS_FILE = Path(__file__).resolve()
ROOT = THIS_FILE.parents[1]
PACKAGE = ROOT / "src" / "polyseme"

# A word of a Python identifier (snake_case and CamelCase are split), and what to write instead.
IDENTIFIERS = {
    "told": "config, reports, prints",
    "tells": "config, reports, prints",
    "said": "output, message",
    "asked": "request, target, input",
    "asking": "request, prompt",
    "learnt": "trained",
    "likeness": "similarity",
    "letters": "characters or bytes",
    "chance": "rng or probability",
    "chances": "probabilities",
    "lot": "random key",
    "lots": "random keys",
    "pace": "throughput, step_time",
    "course": "schedule",
    "foreign": "hf_mapping",
    "company": "cooccurrence",
    "merit": "selection_metric",
    "figure": "metric",
    "figures": "metrics",
    "noise": "standard_error",
    "look": "validation, evaluate",
    "looks": "validations",
    "looked": "evaluated",
    "gone": "resumed, generated",
    "going": "resuming, running",
    "stretch": "span, chunk",
    "stretches": "spans, chunks",
    "side": "split",
    "sides": "splits",
    "apart": "bi_encoder, separate",
    "nearness": "similarity, weighting",
    "kept": "cached, saved",
}
WHOLE_IDENTIFIERS = {"rate": "learning_rate, mask_probability", "rates": "learning_rates"}

BETTER = {**IDENTIFIERS, **WHOLE_IDENTIFIERS}

# In docstrings, comments, messages, help, playground and documentation.
PROSE = {
    r"\b(told|tells?)\b": "config, reports, prints",
    r"\b(says?|said)\b": "reports, prints, use",
    r"\blearnt\b|\blearn(s|ed|ing)? from\b": "trained on, learned",
    r"\b(go|goes|gone|going) on\b": "resume, continue, generate",
    r"\bwriting on\b": "text generation",
    r"\b(fill|fills|filling) (in )?(the )?blanks?\b": "masked-token prediction",
    r"\blikeness\b": "semantic similarity",
    r"\bmeaning in context\b": "word sense disambiguation",
    r"\b(what|whatever) (is|was|are|were) asked\b|\basked for\b|\b(is|are) asked\b": "target, input, request",
    r"\blooks? at the dev\b|\ba look at\b|\blooks? without\b": "validation",
    r"\b(words|those|tokens) that (a|the|its|their) (vocabulary|model) (lacks|does not (have|know))\b": "OOV words",
    r"\bcompany\b": "co-occurrence",
    r"\bstand near\b": "co-occur",
    r"\bnumbers (of|in) a vector\b|\bnumbers (a|each) (word|vector)\b|\bof so many numbers\b": "dimensions",
    r"\bletters\b": "characters or bytes",
    r"\brate of (learning|masking)\b": "learning rate, masking probability",
    r"\b(nats|bits) an? \w+": "nats/token, bits per character",
    r"\bpace\b": "throughput, step time",
    r"\bchances of\b|\bby lot\b|\blots are\b": "random generator, probability",
    r"\bfigures? of merit\b|\bmerits?\b": "metric",
    r"\b(beyond|within|above) noise\b": "significant at two standard errors",
    r"\bcommonest answer\b|\bnothing (is |was )?learnt\b": "majority baseline",
    r"\bgiven vectors\b": "pretrained embeddings",
    r"\bforeign\b": "Hugging Face",
    r"\bread (apart|together)\b": "bi-encoder, cross-encoder",
    r"\bleaves? (\w+ ){1,3}away\b|\bleave away\b|\bleft away\b": "remove, omit",
    r"\b(is|are) no (?!longer|more|less|larger|smaller|better|worse|faster|slower)[a-z]+\b": "is not a valid X",
    r"\bso (many|much)\b": "N",
    r"\bthe very (?!first|last|end|best|beginning)\w+": "the same",
    r"[\"'`]questions[\"'`]|\b(search|similarity) and questions\b": "question answering",
    r"(?<!part-of-speech )\btagging\b|\bclassifying\b": "sequence labelling, text classification",
    r"\b(on|task of|tasks of) pairs\b": "sentence-pair classification",
    r"\brows? of (tokens|ids)\b|\btokens? (of|in|per) (a |each )?row\b": "a sequence (of tokens)",
    r"\b(the|each|every|next|last|filled|hollow) marks?\b": "milestones; markers (of a chart)",
    r"\b(train|dev|test|training|held-out) parts?\b|\bparts of the (text|corpus|data|run)s?\b": "split, shard",
    r"\bparked\b|\bparks (its|their)\b": "attention sink",
    r"\bdata sets?\b": "dataset",
}

# In Chinese texts.
CHINESE = {
    r"空格": "掩码, [MASK] (空格 is a space)",
    r"框架": "内嵌显示",
    r"家族": "模型类型",
    r"词类(?!型)": "词聚类",
    r"惊奇|没想到": "惊异度（surprisal）",
    r"比较报告": "对比报告",
    r"提问": "运行; 问题",
    r"画图": "绘制",
    r"正在提供|没有提供的": "已加载, 未能加载",
    r"做不到这一点|有得看": "不支持此功能",
    r"看的词元|被看的": "查询（query）, 键（key）",
    r"闲置|看首个|看得很散|没有特别之处": "attention sink, 分布分散, 无明显关注对象",
    r"顶层为": "共 N 层",
    r"处理器秒|每秒词元": "CPU 时间（秒）, 词元/秒",
    r"有多自然": "对数概率",
    r"总取|最可能的词元": "贪心解码",
    r"文字相同": "结果可复现",
    r"续写": "生成",
}

# Sentences of the generated corpora and word lists are data.
DATA = {
    "datasets/town/templates.toml",
    "comparison/measure/stop_words.py",
}

# (file, matched text): why it stays.
JUSTIFIED = {
    ("docs/results/enwiki/report.md", "company"): "a nearest neighbour in the results",
    ("tests/evaluation/prompting/test_few_shot.py", "said"): "the text of a prompt",
}

# Terms that a reader searches for, and where they must be found: in a module's docstring, or in a page.
TERMS = {
    "out-of-vocabulary": ("tokenization/oov_model.py", "inference/scores.py", "docs/evaluation.md", "README.md"),
    "perplexity": ("evaluation/perplexity.py", "docs/evaluation.md", "README.md"),
    "beam search": ("inference/beam_search.py", "README.md"),
    "KV cache": ("layers/kv_cache.py", "inference/generation.py", "README.md"),
    "learning rate": ("training/optimization/lr_schedules.py", "docs/tasks.md"),
    "downstream": ("docs/tasks.md", "docs/evaluation.md", "README.md"),
    "co-occurrence": ("static_embeddings/cooccurrence.py", "static_embeddings/svd.py", "README.md"),
    "text generation": ("inference/generation.py", "docs/serving.md", "README.md"),
    "sequence labelling": ("tasks/sequence_labelling.py", "docs/tasks.md", "README.md"),
    "masked language model": ("objectives/masked_lm.py", "models/bert.py", "docs/evaluation.md", "README.md"),
}


def words_of(identifier):
    for part in identifier.strip("_").split("_"):
        yield from (word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+", part))


def identifiers(tree):
    """Every name that a module defines: classes, functions, arguments, fields and variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def prose_of(path):
    """Lines of text that people read: comments and strings of Python, everything else whole."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def complaints(path):
    name = str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT))
    found = []
    if path.suffix == ".py":
        for line, identifier in identifiers(ast.parse(path.read_text(encoding="utf-8"))):
            bad = [word for word in words_of(identifier) if word in IDENTIFIERS]
            bad += [identifier] if identifier.strip("_") in WHOLE_IDENTIFIERS else []
            found += [(line, word, BETTER.get(word.strip("_"), ""), identifier) for word in bad]
    if name not in DATA:
        patterns = CHINESE if name.endswith(".zh.md") else PROSE | CHINESE
        for line, text in prose_of(path):
            for pattern, better in patterns.items():
                found += [(line, match[0].lower(), better, text.strip()) for match in re.finditer(pattern, text, re.I)]
    return [
        f"{name}:{line}: {word!r}: write {better} — {where:.120}"
        for line, word, better, where in sorted(found)
        if (name, word) not in JUSTIFIED
    ]


SOURCES = [
    *(path for suffix in ("py", "js", "css", "html", "toml") for path in sorted(PACKAGE.rglob(f"*.{suffix}"))),
    *sorted({*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")} - {THIS_FILE}),
    *(path for suffix in ("md", "svg") for path in sorted((ROOT / "docs").rglob(f"*.{suffix}"))),
    *(
        ROOT / name
        for name in ("README.md", "README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")
    ),
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_vocabulary_is_that_of_the_field(path):
    assert not complaints(path), "\n".join(complaints(path))


@pytest.mark.parametrize(("term", "place"), [(term, place) for term, places in TERMS.items() for place in places])
def test_terms_of_the_field_are_where_readers_look_for_them(term, place):
    path = PACKAGE / place if place.endswith(".py") else ROOT / place
    text = path.read_text(encoding="utf-8")
    prose = ast.get_docstring(ast.parse(text)) if path.suffix == ".py" else text
    assert prose and term.lower() in " ".join(prose.lower().split()), f"name {term!r} in the documentation of {place}"
