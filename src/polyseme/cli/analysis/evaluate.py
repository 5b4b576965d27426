"""polyseme evaluate"""

from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import check_output, print_json, print_rows, print_table, report, suggest, write_output
from polyseme.cli.options import Columns, Json, Model, load_model, parse_columns
from polyseme.cli.progress import spinner


def evaluate(
    model: Model,
    data: Annotated[Path, typer.Option(help="File or folder with the data of the suite.")],
    suite: Annotated[
        str | None,
        typer.Option(
            help="task: a fine-tuned model on a labelled file. likelihood: bits per character. words: word similarity "
            "and analogies. senses: word sense disambiguation, by layer. minimal-pairs: grammatical acceptability. "
            "retrieval: search with labelled or derived queries, beside BM25. "
            "prompts: zero-shot and few-shot prompting. translation: BLEU."
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Task name; required if the model has several tasks.")] = None,
    columns: Columns = None,
    method: Annotated[str, typer.Option(help="Analogies: 3cosadd or 3cosmul.")] = "3cosadd",
    most: Annotated[int, typer.Option(min=0, help="Maximum number of items of each set; 0: all.")] = 0,
    shots: Annotated[int, typer.Option(min=0, help="Few-shot examples in each prompt.")] = 0,
    examples: Annotated[str, typer.Option(help="File of few-shot examples; by default those of --data.")] = "",
    language: Annotated[str, typer.Option(help="Language of the prompt template: en, zh, or auto.")] = "auto",
    split: Annotated[str, typer.Option(help="Retrieval: train, dev or test queries.")] = "test",
    seed: Annotated[int, typer.Option(min=0, help="Random seed for sampling items.")] = 0,
    chart: Annotated[Path | None, typer.Option(help="Chart (.svg) of the metrics with their standard errors.")] = None,
    json: Json = False,
) -> None:
    """Evaluate a model on a benchmark.

    Also reports how many items the vocabulary covers.

    task: a labelled file, possibly in a language without training labels. words: two words and a score per line,
    separated by tabs; ': name' starts a section of analogies, four words per line. minimal-pairs: rows with
    sentence_good and sentence_bad, as in BLiMP. translation: a table with the columns source and target. senses: a
    folder with WORD.train.tsv and WORD.test.tsv (text, index, sense), or with train.tsv and test.tsv of pairs (WiC).
    retrieval: a folder of the BEIR format (corpus.jsonl, queries.jsonl, qrels/test.tsv), or text to derive queries
    from.

    prompts: a causal language model is prompted with the items of a file: text (predict its last word), context,
    choices and answer, source and target, text and summary, or SQuAD's JSON. docs/evaluation.md documents the metrics.

    \b
    Examples:
      polyseme evaluate runs/bert-reviews --data test.tsv
      polyseme evaluate runs/skipgram --suite words --data wordsim353.tsv
      polyseme evaluate runs/bert --suite senses --data coarsewsd --most 500
      polyseme evaluate runs/gpt2 --suite likelihood --data 'test/*.txt'
      polyseme evaluate runs/bert --suite minimal-pairs --data blimp --most 100 --chart blimp.svg
      polyseme evaluate runs/skipgram --suite retrieval --data scifact
      polyseme evaluate runs/gpt2 --suite prompts --data questions.jsonl --shots 4
      polyseme evaluate runs/en-de --suite translation --data test.tsv
    """
    check_output(chart, ".svg", option="--chart")
    loaded = load_model(model)
    if suite == "task" or (suite is None and loaded.tasks):
        with spinner("evaluating"):
            metrics = loaded.score_task(data, task=task, columns=parse_columns(columns))
        if json:
            print_json(metrics)
        else:
            cells = [[name.replace("_", " "), f"{value:.4f}"] for name, value in metrics.items()]
            print_table(cells, header=["metric", "value"])
        suggest("predict {} FILE", model)
        return
    with spinner("evaluating"):
        options = {"most": most, "shots": shots, "examples": examples, "language": language, "split": split}
        results = loaded.evaluate(data, suite=suite or "words", method=method, seed=seed, **options)
    if chart is not None:
        from polyseme.evaluation.chart import draw_metrics

        title = f"{Path(model).name}: {suite or 'words'} of {data.name}"
        write_output(chart, draw_metrics(results, title=title), option="--chart")
        report(f"Saved {chart}: metrics with two standard errors to either side.")
    rows: list[dict[str, Any]]
    if json:
        rows = [
            {"set": one.name, "section": one.section, "metric": one.metric, "value": one.value}
            | {"standard_error": one.standard_error, "scored": one.num_scored, "items": one.num_items}
            for one in results
        ]
    else:
        errors = ["" if one.standard_error is None else f"± {one.standard_error:.3f}" for one in results]
        rows = [
            {"set": one.name, "section": one.section or "(all)", "metric": one.metric, "value": one.value}
            | {"s.e.": error, "scored": f"{one.num_scored:,} of {one.num_items:,}"}
            for one, error in zip(results, errors, strict=True)
        ]
    print_rows(rows, as_json=json)
    suggest("compare {} OTHER_MODEL --data FILE --out report", model)
