"""polyseme ask"""

from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import print_json, read_document, read_texts, report, suggest
from polyseme.cli.options import Json, Model, Weights, load_model
from polyseme.cli.progress import spinner


def ask(
    model: Model,
    text: Annotated[
        list[str] | None, typer.Argument(help="Questions, or texts to summarise or translate; or standard input.")
    ] = None,
    task: Annotated[str, typer.Option(help="answer, summarise, translate or choose.")] = "answer",
    file: Annotated[
        Path | None, typer.Option(help="File with one text per line; to summarise, the whole file is one text.")
    ] = None,
    passage: Annotated[Path | None, typer.Option(help="File with the passage that the questions refer to.")] = None,
    choice: Annotated[list[str] | None, typer.Option(help="Candidate answer. Repeatable.")] = None,
    shots: Annotated[
        str, typer.Option(help="File of few-shot examples, in the formats of evaluate --suite prompts.")
    ] = "",
    most: Annotated[int, typer.Option(min=1, help="Maximum number of examples in the prompt.")] = 5,
    language: Annotated[str, typer.Option(help="Language of the prompt template: en, zh, or auto.")] = "auto",
    max_tokens: Annotated[
        int, typer.Option(min=0, help="Maximum number of new tokens; 0: the default of the task.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    show: Annotated[bool, typer.Option("--show", help="Also print the prompts.")] = False,
    weights: Weights = "float32",
    json: Json = False,
) -> None:
    """Prompt a causal language model, zero-shot or few-shot.

    Answers questions, summarises, translates or chooses without fine-tuning. A prompt ends with 'A:' for question
    answering, 'TL;DR:' for summarisation and 'source =' for translation; Chinese texts are prompted in Chinese.
    Examples in the prompt (--shots) show the model what is expected.

    \b
    Examples:
      polyseme ask runs/gpt2 'Who lent the money?' --passage story.txt
      polyseme ask runs/gpt2 --task summarise --file article.txt
      polyseme ask runs/gpt2 'the old bank' --task translate --shots pairs.tsv --most 3
      polyseme ask runs/gpt2 'What do bakers sell?' --task choose --choice bread --choice money
    """
    texts = [read_document(file)] if task == "summarise" and not text else read_texts(text, file)
    values = {
        "task": task,
        "passage": read_document(passage) if passage else "",
        "choices": tuple(choice or ()),
        "shots": shots,
        "most": most,
        "language": language,
        "max_tokens": max_tokens,
        "seed": seed,
    }
    from polyseme.evaluation.prompting.ask import AskConfig
    from polyseme.evaluation.prompting.ask import ask as ask_model

    config = AskConfig.parse(values, group="ask")
    loaded = load_model(model, weights=weights)
    with spinner("answering"):
        replies = ask_model(loaded, texts, config)
    for reply in replies:
        if json:
            row: dict[str, Any] = {"text": reply.text, "answer": reply.answer}
            if reply.choices:
                row["choices"] = {name: round(share, 6) for name, share in reply.choices.items()}
            print_json(row | ({"prompt": reply.prompt} if show else {}))
            continue
        if show:
            report(reply.prompt)
        shares = ", ".join(f"{name} {share:.3f}" for name, share in reply.choices.items())
        print(" ".join(reply.answer.split()) + (f"\t({shares})" if shares else ""))
    if shots and not min((reply.num_shots for reply in replies), default=0):
        report("no example fits into the context of the model; use shorter ones")
    suggest("evaluate {} --suite prompts --data FILE", model)
