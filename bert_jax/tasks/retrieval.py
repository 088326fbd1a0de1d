"""How well vectors find the documents that answer a query: BEIR's folders, and the Cranfield collection's own files."""

import csv
import dataclasses
import json
import re
from pathlib import Path

import numpy as np

from bert_jax.embed import embed_texts
from bert_jax.errors import UserError
from bert_jax.search import top_k

CUT = 10
DEEP_CUT = 100
QRELS = ("qrels/test.tsv", "qrels.tsv")
CRANFIELD = ("cran.all.1400", "cran.qry", "cranqrel")


@dataclasses.dataclass(frozen=True)
class Collection:
    """documents, queries: texts by id, in the order of their files. judged: for a query the gain of each document that
    answers it, above 0."""

    documents: dict[str, str]
    queries: dict[str, str]
    judged: dict[str, dict[str, float]]


def evaluate(model, path, batch_size):
    """Figures of a models.Model on a folder: `ndcg@10`, `recall@10`, `recall@100` and `mrr@10`, means over the queries
    that have an answer, and how many `queries` and `documents` there are."""
    collection = read_collection(path)
    ids = list(collection.documents)
    documents = embed_texts(model, collection.documents.values(), batch_size=batch_size)
    queries = embed_texts(model, [collection.queries[query] for query in collection.judged], batch_size=batch_size)
    _, rows = top_k(queries, documents, DEEP_CUT)
    found = [[ids[row] for row in one] for one in rows]
    return figures(found, list(collection.judged.values())) | {"queries": len(found), "documents": len(ids)}


def figures(found, judged):
    """The means over queries; found: the ids that each has found, the best first; judged: as in Collection.

    nDCG as trec_eval's ndcg_cut: gains as they are judged, over log2(rank + 1).
    """
    each = {"ndcg@10": [], "recall@10": [], "recall@100": [], "mrr@10": []}
    for ids, gains in zip(found, judged, strict=True):
        gained = np.array([gains.get(document, 0.0) for document in ids])
        ideal = np.sort(np.array(list(gains.values())))[::-1]
        each[f"ndcg@{CUT}"].append(_discounted(gained[:CUT]) / _discounted(ideal[:CUT]))
        for cut in (CUT, DEEP_CUT):
            each[f"recall@{cut}"].append(np.count_nonzero(gained[:cut]) / len(gains))
        ranks = np.flatnonzero(gained[:CUT]) + 1
        each[f"mrr@{CUT}"].append(1 / ranks[0] if len(ranks) else 0.0)
    return {name: float(np.mean(values)) for name, values in each.items()}


def _discounted(gains):
    return float((gains / np.log2(np.arange(len(gains)) + 2)).sum())


def read_collection(path):
    """The Collection of a folder in BEIR's layout (corpus.jsonl, queries.jsonl, qrels/test.tsv or qrels.tsv) or with
    the files of Cranfield. UserError for another folder, for an id that stands twice and for a judgement of an unknown
    one."""
    folder = Path(path)
    if (folder / "corpus.jsonl").is_file():
        return _checked(folder, *_read_beir(folder))
    if all((folder / name).is_file() for name in CRANFIELD):
        return _checked(folder, *_read_cranfield(folder))
    raise UserError(f"{folder}: expected corpus.jsonl, queries.jsonl and {QRELS[0]}, or {', '.join(CRANFIELD)}")


def _checked(folder, documents, queries, judgements):
    judged = {}
    for query, document, gain in judgements:
        for kind, known, name in (("query", queries, query), ("document", documents, document)):
            if name not in known:
                raise UserError(f"{folder}: a judgement names the {kind} {name!r}, which is not there")
        if gain > 0:
            judged.setdefault(query, {})[document] = gain
    if not judged:
        raise UserError(f"{folder}: no query has a document that answers it")
    return Collection(documents, queries, {query: judged[query] for query in queries if query in judged})


def _read_beir(folder):
    documents = _by_id(
        folder / "corpus.jsonl", lambda row: " ".join(filter(None, (row.get("title"), row["text"]))).strip()
    )
    queries = _by_id(folder / "queries.jsonl", lambda row: row["text"])
    path = next((folder / name for name in QRELS if (folder / name).is_file()), None)
    if path is None:
        raise UserError(f"{folder}: has neither {QRELS[0]} nor {QRELS[1]}")
    with open(path, encoding="utf-8", newline="\n") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    judgements = []
    for line, cells in enumerate(rows[1:], 2):
        try:
            query, document, gain = cells
            judgements.append((query, document, float(gain)))
        except ValueError as error:
            raise UserError(f"{path}, line {line}: expected query-id, corpus-id and score, parted by tabs") from error
    return documents, queries, judgements


def _by_id(path, text_of):
    texts = {}
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            name, text = str(row["_id"]), text_of(row)
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}, line {number}: expected a JSON object with _id and text") from error
        if name in texts:
            raise UserError(f"{path}, line {number}: the id {name!r} stands twice")
        texts[name] = text
    return texts


def _read_cranfield(folder):
    """Judgements number the queries by their order, not by their .I. Codes 1 to 4 are relevant, alike; -1, which the
    collection does not explain, is not."""
    all_of, queries_of, judged_of = (folder / name for name in CRANFIELD)
    documents = {number: f"{parts.get('T', '')} {parts.get('W', '')}".strip() for number, parts in _records(all_of)}
    queries = {str(place): parts["W"] for place, (_, parts) in enumerate(_records(queries_of), 1)}
    judgements = []
    for line in judged_of.read_text().splitlines():
        if line.strip():
            query, document, code = line.split()
            judgements.append((query, document, float(int(code) > 0)))
    return documents, queries, judgements


def _records(path):
    """(number, {mark: text}) of each record: .I begins one, .T, .A, .B and .W begin its parts."""
    for record in re.split(r"^\.I +", path.read_text(encoding="latin-1"), flags=re.MULTILINE)[1:]:
        number, *parts = re.split(r"^\.([TABW]) *\n", record, flags=re.MULTILINE)
        marks, texts = parts[::2], parts[1::2]
        yield number.strip(), {mark: " ".join(text.split()) for mark, text in zip(marks, texts, strict=True)}
