#!/usr/bin/env python3
"""Trains models with antegrad and compares them with eager.

Two copies of each model with equal weights take five training steps, one eagerly and one compiled: by antegrad.compile of
the loss, and by torch.compile with antegrad as its backend. After each step the loss, all gradients, parameters and buffers
and the generator must be equal bit for bit, and no call may have run eagerly. Everything else is a failure, crashes included.
Models of the transformers package may also be refused by a typed error, or differ from eager in the same way as Dynamo's
graphs run eagerly.

    models.py run --out DIR [--only REGEX] [--jobs J] [--fresh]    resumes where it stopped; REGEX is searched in names
                                                                   such as plain/gpt/compile
    models.py report DIR [--page FILE] [--bench FILE]              writes docs/conformance_models.md and rows for
                                                                   scripts/bench_table

Results are lines of JSON in DIR, one per model and way.
"""

import re
import sys
import warnings

import torch
from contained import command_line, results_in, run_cases, serve, write_rows
from lockstep import train
from models_summary import OUTCOMES, counts_of, fails, page_of, rows_of
from zoo import PLAIN
from zoo.published import PUBLISHED

SECONDS_A_CASE = 300
TRAININGS = {(group, t.name): t for group, table in (("plain", PLAIN), ("transformers", PUBLISHED)) for t in table}


def cases_of(only):
    cases = [(*key, through) for key in TRAININGS for through in ("compile", "dynamo")]
    return [case for case in cases if re.search(only, "/".join(case))]


def answers_of(case):
    """The worker's answer for a case."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    group, name, through = case
    yield train(TRAININGS[group, name], through)


def record_of(answers):
    (answer,) = answers
    return {"status": "crashed", "detail": answer["crashed"]} if "crashed" in answer else answer


def run(arguments):
    def progress(record, number, total, seconds):
        print(f"{number}/{total} {'/'.join(record['case'])}: {record['status']} ({seconds:.0f} s)", flush=True)

    run_cases(__file__, cases_of(arguments.only), arguments, seconds=SECONDS_A_CASE, request=list, record=record_of,
              progress=progress)
    return report_of(arguments.out)


def report_of(out, page=None, bench=None):
    order = cases_of("")
    records = sorted(results_in(out), key=lambda record: order.index(tuple(record["case"])))
    counts = counts_of(records)
    for record in records:
        if record["status"] != "passed":
            print(f"{record['status']} {'/'.join(record['case'])}: {record['detail']}")
    print(f"{len(records)} trainings: " + ", ".join(f"{counts[s]} {s}" for s in OUTCOMES if counts[s]))
    if page:
        page.write_text(page_of(records))
    if bench:
        write_rows(bench, rows_of(records))
    return 1 if not records or any(map(fails, records)) else 0


def main():
    parser, _, _ = command_line(__doc__)
    arguments = parser.parse_args()
    if arguments.command == "worker":
        return serve(answers_of)
    if arguments.command == "run":
        return run(arguments)
    return report_of(arguments.out, arguments.page, arguments.bench)


if __name__ == "__main__":
    sys.exit(main())
