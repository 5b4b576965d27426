"""polyseme evaluate"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.check import columns_of
from polyseme.cli.console import say, table, working, write_json
from polyseme.errors import ConfigError, DataError


def evaluate(
    model: Annotated[str, typer.Argument(help="Directory of a model, or a file of word vectors.")],
    data: Annotated[
        Path,
        typer.Option(
            help="A labelled file; text; questions; a set, or a folder of sets: words, or pairs of sentences."
        ),
    ],
    suite: Annotated[
        str | None,
        typer.Option(
            help="task: what it is fine-tuned for. likelihood: bits per character. words: vectors against people's "
            "judgement. senses: of words, by layer. minimal-pairs: grammar. prompts: questions in words. "
            "translate: BLEU."
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Which task, of a model that knows several.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of another name: text=review; of tags by number: tag=4.")
    ] = None,
    method: Annotated[str, typer.Option(help="How analogies are completed: 3cosadd or 3cosmul.")] = "3cosadd",
    most: Annotated[int, typer.Option(min=0, help="So many items of each set, drawn by the seed; 0: all.")] = 0,
    shots: Annotated[int, typer.Option(min=0, help="Examples before each prompt.")] = 0,
    examples: Annotated[str, typer.Option(help="The file that they are drawn from; else the questions.")] = "",
    language: Annotated[str, typer.Option(help="Of prompts: en, zh, or auto, as the questions are.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same items.")] = 0,
    chart: Annotated[Path | None, typer.Option(help="Draw the figures with their errors too, as FILE.svg.")] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a figure.")] = False,
) -> None:
    """Measure a model on sets that others have made, and say how much of them it knows.

    A fine-tuned model is asked about a labelled file, which may be in a language that it never saw labels of. Pairs are
    two words and a score a line, between tabs; ': name' begins a section of analogies, four words a line. Minimal pairs
    are rows with sentence_good and sentence_bad, as BLiMP has them. Translations are compared with those of a table
    with the columns source and target. Senses stand in a folder, as WORD.train.tsv and WORD.test.tsv with text, index
    and sense, or as train.tsv and test.tsv with pairs of texts (WiC).

    Prompts need a model that writes. The file tells what it is asked: text (its last word), context, choices and
    answer, source and target, text and summary, or SQuAD's JSON. docs/evaluation.md says what the figures mean.

    \b
    Examples:
      polyseme evaluate runs/bert-reviews --data test.tsv
      polyseme evaluate runs/skipgram --suite words --data wordsim353.tsv
      polyseme evaluate runs/bert --suite senses --data coarsewsd --most 500
      polyseme evaluate runs/gpt2 --suite likelihood --data 'test/*.txt'
      polyseme evaluate runs/bert --suite minimal-pairs --data blimp --most 100 --chart blimp.svg
      polyseme evaluate runs/gpt2 --suite prompts --data questions.jsonl --shots 4
      polyseme evaluate runs/en-de --suite translate --data test.tsv
    """
    if chart is not None and chart.suffix != ".svg":
        raise ConfigError(f"{chart} should end in .svg; leave --chart away for the table alone")
    if chart is not None and not chart.absolute().parent.is_dir():
        raise DataError(f"{chart} cannot be written ({chart.parent} is no folder); choose another --chart")
    from polyseme.opening import load

    loaded = load(model)
    if suite == "task" or (suite is None and loaded.tasks):
        with working("evaluating"):
            found = loaded.score_task(data, task=task, columns=columns_of(column or []))
        if json:
            write_json(found)
        else:
            table(
                [[name.replace("_", " "), f"{value:.4f}"] for name, value in found.items()], header=["figure", "value"]
            )
        return
    with working("evaluating"):
        told = {"most": most, "shots": shots, "examples": examples, "language": language, "seed": seed}
        scores = loaded.evaluate(data, suite=suite or "words", method=method, **told)
    if chart is not None:
        from polyseme.evaluate.chart import draw_figures
        from polyseme.files import write_file

        drawing = draw_figures(scores, title=f"{Path(model).name}: {suite or 'words'} of {data.name}")
        try:
            write_file(chart, drawing)
        except OSError as error:
            raise DataError(f"{chart} cannot be written ({error.strerror}); choose another --chart") from None
        say(f"{chart}: the figures, with two standard errors to either side")
    if json:
        for score in scores:
            write_json(
                {
                    "set": score.name,
                    "section": score.section,
                    "measure": score.measure,
                    "value": _rounded(score.value),
                    "error": _rounded(score.error),
                    "found": score.num_found,
                    "items": score.num_items,
                }
            )
        return
    rows = [
        [
            score.name,
            score.section or "(all)",
            score.measure,
            "–" if score.value is None else f"{score.value:.3f}",
            "" if score.error is None else f"± {score.error:.3f}",
            f"{score.num_found:,} of {score.num_items:,}",
        ]
        for score in scores
    ]
    table(rows, header=["set", "section", "measure", "value", "error", "known"])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
