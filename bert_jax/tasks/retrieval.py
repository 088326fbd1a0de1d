"""How well vectors find the documents that answer a query: BEIR's folders, and the Cranfield collection's own files."""

import csv
import dataclasses
import json
import math
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
    """documents, queries: texts by id, in the order of their files. judged: the gain, above 0, of each document that
    answers a query, for those of the queries that have one."""

    documents: dict[str, str]
    queries: dict[str, str]
    judged: dict[str, dict[str, float]]


def evaluate(model, path, batch_size):
    """Figures of a models.Model on a folder: `ndcg@10`, `recall@10`, `recall@100` and `mrr@10`, fractions.

    They are means over the `queries` that have an answer; so many others are left out as `unanswered`; `documents` is
    how many are searched. Raises UserError as `read_collection` does, and for a batch below 1.
    """
    if batch_size < 1:
        raise UserError(f"--batch_size={batch_size}: expected 1 or more")
    collection = read_collection(path)
    ids = list(collection.documents)
    documents = embed_texts(model, collection.documents.values(), batch_size=batch_size)
    queries = embed_texts(model, [collection.queries[query] for query in collection.judged], batch_size=batch_size)
    _, rows = top_k(queries, documents, DEEP_CUT)
    found = [[ids[row] for row in one] for one in rows]
    counts = {"queries": len(found), "unanswered": len(collection.queries) - len(found), "documents": len(ids)}
    return figures(found, list(collection.judged.values())) | counts


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
    the files of Cranfield.

    Raises UserError for another folder, for a line that is not as it has to be, for an id that stands twice, and for a
    judgement of what is not there or of what is judged otherwise, too.
    """
    folder = Path(path)
    if (folder / "corpus.jsonl").is_file():
        return _checked(folder, *_read_beir(folder))
    if all((folder / name).is_file() for name in CRANFIELD):
        return _checked(folder, *_read_cranfield(folder))
    wanted = f"corpus.jsonl, queries.jsonl and {' or '.join(QRELS)} (BEIR), or {', '.join(CRANFIELD)} (Cranfield)"
    raise UserError(f"{folder}: {'expected' if folder.is_dir() else 'no such folder: expected one with'} {wanted}")


def _checked(folder, documents, queries, judgements):
    gains = {}
    for query, document, gain in judgements:
        for kind, known, name in (("query", queries, query), ("document", documents, document)):
            if name not in known:
                raise UserError(f"{folder}: a judgement names the {kind} {name!r}, which is not there")
        if gains.setdefault(query, {}).setdefault(document, gain) != gain:
            raise UserError(f"{folder}: document {document!r} is judged twice, and not alike, for query {query!r}")
    judged = {
        query: {document: gain for document, gain in gains[query].items() if gain > 0}
        for query in queries
        if max(gains.get(query, {}).values(), default=0) > 0
    }
    if not judged:
        raise UserError(f"{folder}: no query has a document that answers it")
    return Collection(documents, queries, judged)


def _read_beir(folder):
    path = next((folder / name for name in QRELS if (folder / name).is_file()), None)
    if path is None:
        raise UserError(f"{folder}: has neither {QRELS[0]} nor {QRELS[1]}")
    documents = _by_id(folder / "corpus.jsonl", lambda row: f"{row.get('title') or ''} {row['text']}".strip())
    queries = _by_id(folder / "queries.jsonl", lambda row: row["text"])
    rows = list(csv.reader(_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE))
    # A file without its header would lose a judgement.
    if not rows or len(rows[0]) != 3 or _number(rows[0][2]) is not None:
        raise UserError(f"{path}, line 1: expected the header query-id, corpus-id, score, parted by tabs")
    judgements = []
    for line, cells in enumerate(rows[1:], 2):
        if not any(cells):
            continue
        gain = _number(cells[2]) if len(cells) == 3 else None
        if gain is None:
            raise UserError(f"{path}, line {line}: expected query-id, corpus-id and score, parted by tabs")
        judgements.append((*cells[:2], gain))
    return documents, queries, judgements


def _number(text):
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _lines(path, encoding="utf-8-sig"):
    try:
        return path.read_bytes().decode(encoding).replace("\r\n", "\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error


def _by_id(path, text_of):
    texts = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            name, text = str(row["_id"]), text_of(row)
            if not isinstance(row["text"], str):
                raise TypeError("text")
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
    documents = {}
    for number, parts in _records(all_of):
        if number in documents:
            raise UserError(f"{all_of}: the id {number!r} stands twice")
        documents[number] = f"{parts.get('T', '')} {parts.get('W', '')}".strip()
    queries = {str(place): parts.get("W", "") for place, (_, parts) in enumerate(_records(queries_of), 1)}
    judgements = []
    for line, text in enumerate(_lines(judged_of), 1):
        cells = text.split()
        if cells and (len(cells) != 3 or _number(cells[2]) is None):
            raise UserError(f"{judged_of}, line {line}: expected a query, a document and a code")
        if cells:
            judgements.append((*cells[:2], float(_number(cells[2]) > 0)))
    return documents, queries, judgements


def _records(path):
    """(number, {mark: text}) of each record: .I begins one, .T, .A, .B and .W begin its parts."""
    text = "\n".join(_lines(path, "latin-1"))
    for record in re.split(r"^\.I +", text, flags=re.MULTILINE)[1:]:
        number, *parts = re.split(r"^\.([TABW]) *\n", record, flags=re.MULTILINE)
        marks, texts = parts[::2], parts[1::2]
        yield number.strip(), {mark: " ".join(text.split()) for mark, text in zip(marks, texts, strict=True)}
