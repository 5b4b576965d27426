"""polyseme ask"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import say, suggest, texts, working, write_json
from polyseme.errors import DataError


def ask(
    model: Annotated[str, typer.Argument(help="Directory of a left-to-right model.")],
    text: Annotated[
        list[str] | None, typer.Argument(help="Questions, or what to summarise or translate; else standard input.")
    ] = None,
    task: Annotated[str, typer.Option(help="answer, summarise, translate or choose.")] = "answer",
    file: Annotated[Path | None, typer.Option(help="A text a line; what to summarise, as a whole.")] = None,
    passage: Annotated[Path | None, typer.Option(help="File with the passage that questions are about.")] = None,
    choice: Annotated[list[str] | None, typer.Option(help="Something to choose. Repeated.")] = None,
    shots: Annotated[
        str, typer.Option(help="File of examples to show first, such as evaluate --suite prompts takes.")
    ] = "",
    most: Annotated[int, typer.Option(min=1, help="Show so many of them at most.")] = 5,
    language: Annotated[str, typer.Option(help="Of the words around: en, zh, or auto, as the text is.")] = "auto",
    max_tokens: Annotated[int, typer.Option(min=0, help="Tokens to write at most; 0: as usual for the task.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed writes the same summary.")] = 0,
    show: Annotated[bool, typer.Option("--show", help="Show what the model is given, too.")] = False,
    weights: Annotated[str, typer.Option(help="float32; or int8, several times as fast.")] = "float32",
    json: Annotated[bool, typer.Option("--json", help="A JSON object a text.")] = False,
) -> None:
    """Ask a model that only goes on from a text, by putting the question as a text that goes on with the answer.

    Nothing is learnt: questions end in 'A:', summaries are called for by 'TL;DR:', translations by 'source ='; what is
    Chinese is asked in Chinese. Examples, one or a few, show what is meant.

    \b
    Examples:
      polyseme ask runs/gpt2 'Who lent the money?' --passage story.txt
      polyseme ask runs/gpt2 --task summarise --file article.txt
      polyseme ask runs/gpt2 'the old bank' --task translate --shots pairs.tsv --most 3
      polyseme ask runs/gpt2 'What do bakers sell?' --task choose --choice bread --choice money
    """
    given = [_whole(file)] if task == "summarise" and not text else texts(text, file)
    told = {
        "task": task,
        "passage": _whole(passage) if passage else "",
        "choices": tuple(choice or ()),
        "shots": shots,
        "most": most,
        "language": language,
        "max_tokens": max_tokens,
        "seed": seed,
    }
    from polyseme.evaluate.asking import AskConfig
    from polyseme.evaluate.asking import ask as put
    from polyseme.opening import load

    settings = AskConfig.parse(told, group="ask")
    loaded = load(model, weights=weights)
    with working("asking"):
        replies = put(loaded, given, settings)
    for reply in replies:
        if json:
            row = {"text": reply.text, "answer": reply.answer}
            more = {"choices": {name: round(share, 6) for name, share in reply.choices.items()}}
            write_json(row | (more if reply.choices else {}) | ({"prompt": reply.prompt} if show else {}))
            continue
        if show:
            say(reply.prompt)
        shares = ", ".join(f"{name} {share:.3f}" for name, share in reply.choices.items())
        print(" ".join(reply.answer.split()) + (f"\t({shares})" if shares else ""))
    least = min((reply.num_shown for reply in replies), default=0)
    if shots and not least:
        say("the model is too short for any of the examples; give shorter ones")
    suggest(f"polyseme evaluate {shlex.quote(model)} --suite prompts --data FILE")


def _whole(file: Path | None) -> str:
    """All of a file, or of standard input, as one text."""
    if file is None:
        return "\n".join(texts(None, None))
    try:
        content = file.read_bytes().decode("utf-8", "replace").strip()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}); check the path") from None
    if not content:
        raise DataError(f"{file} holds no text; write some")
    return content
