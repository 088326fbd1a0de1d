"""The verb `evaluate`: the scores of a fine-tuned model on labelled examples."""

import json
from pathlib import Path

from bert_jax.errors import UserError

DESCRIPTION = """Scores a model, ours or a Hugging Face folder, on labelled examples. Of a fine-tuned model: a GLUE task
from the folder of its download; classify, regress, ner, squad or swag on a file, or on the folder it was tuned on.
Labels are matched by name; scores are those that the fine-tuning run itself reported. Of any encoder's vectors: sts and
ranking on a file of pairs, retrieval on a folder of documents, queries and judgements."""
EXAMPLE = "bert-jax evaluate --task=mrpc --checkpoint=runs/mrpc --data=glue_data --json"
RETRIEVAL = "retrieval"


def add_arguments(parser):
    parser.add_argument("--task", required=True, metavar="NAME", help="as config.task.name, or retrieval")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="a fine-tuned run, or a Hugging Face folder")
    parser.add_argument("--data", required=True, metavar="PATH", help="folder of GLUE, or a file with labels")
    parser.add_argument("--first", default="text", metavar="COLUMN", help="of a file: the text (default: text)")
    parser.add_argument("--second", default="", metavar="COLUMN", help="of a file: the second text, if there is one")
    parser.add_argument("--label", default="label", metavar="COLUMN", help="of a file: the label (default: label)")
    parser.add_argument("--length", type=int, metavar="TOKENS", help="default: what the model was tuned on")
    parser.add_argument("--batch_size", type=int, default=32, metavar="N")
    parser.add_argument("--predictions", metavar="DIR", help="also write DIR/SPLIT.jsonl, one line an example")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object: scores of the file, or by split of a folder"
    )


def run(args):
    from bert_jax import parallel  # imported here: --help needs no jax
    from bert_jax.embed import embedding_head
    from bert_jax.model.presets import ComputeConfig
    from bert_jax.models import load_model
    from bert_jax.tasks import retrieval
    from bert_jax.tasks.finetune import scores_in_words, write_predictions
    from bert_jax.tasks.load import EMBEDDINGS, load_task
    from bert_jax.tasks.outputs import Forward
    from bert_jax.tasks.task import TaskConfig

    model = load_model(args.checkpoint)
    if args.task == RETRIEVAL:
        figures = retrieval.evaluate(model, args.data, args.batch_size)
        print(json.dumps(figures) if args.json else scores_in_words({Path(args.data).name: figures}))
        return
    is_file = Path(args.data).is_file()
    head = embedding_head(model) if args.task in EMBEDDINGS else model.head
    if head is None:
        raise UserError(f"--checkpoint {args.checkpoint} has no head of a task: fine-tune it first (bert-jax finetune)")
    where = {"validation" if is_file else "data": args.data}
    config = TaskConfig(args.task, **where, first=args.first, second=args.second, label=args.label)
    length = args.length or head.length or model.config.max_positions
    task = load_task(config, model.tokenizer, length, head)
    if not task.scored_splits():
        raise UserError(f"--data {args.data}: no split of {args.task} there has labels but the training examples")
    mesh = parallel.make_mesh(parallel.MeshConfig())
    parallel.check_batch("--batch_size", args.batch_size, mesh)
    forward = Forward(ComputeConfig(), model.config, head, mesh, args.batch_size, model.tokenizer.pad_id)
    scores = {}
    for name in task.scored_splits():
        split = task.splits[name]
        outputs = forward(model.params, split)
        scores[name] = task.score(split, outputs) | {"examples": len(split)}
        if args.predictions:
            write_predictions(Path(args.predictions), name, task.predictions(split, outputs))
    if args.json:
        print(json.dumps(scores["validation"] if is_file else scores))
        return
    for remark in task.remarks:
        print(remark)
    print(scores_in_words(scores))
