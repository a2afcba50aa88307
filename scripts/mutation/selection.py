"""Which mutants are taken.

The order is by a hash of the seed and a mutant's stable id, so a change of the sources moves few others.
Kinds take their shares (what a kind cannot fill goes to the others), and within a kind the file is next
that is furthest behind its share of all places.
"""

import hashlib

from mutation.mutant import KINDS


def order(seed, candidate):
    return hashlib.sha256(f"{seed}\0{candidate.id}".encode()).hexdigest()


def quotas(count, available):
    """How many of each kind, at most what there is."""
    quota = {kind: 0 for kind in KINDS}
    left = count
    while left > 0:
        open_kinds = [kind for kind in KINDS if quota[kind] < available[kind]]
        if not open_kinds:
            break
        kind = min(open_kinds, key=lambda k: ((quota[k] + 1) / KINDS[k], list(KINDS).index(k)))
        quota[kind] += 1
        left -= 1
    return quota


def overlaps(candidate, taken):
    """The same place with the same kind of change: two arguments of one call, exchanged twice."""
    return any(c.kind == candidate.kind and c.start == candidate.start and c.end == candidate.end for c in taken)


def select(by_file, seed, count):
    """{file: candidates} -> the chosen [(file, candidate)], by file and position."""
    queues = {kind: {} for kind in KINDS}
    for file, candidates in by_file.items():
        for candidate in sorted(candidates, key=lambda c: order(seed, c)):
            queues[candidate.kind].setdefault(file, []).append(candidate)
    total = {file: len(candidates) for file, candidates in by_file.items()}
    taken = {file: [] for file in by_file}
    quota = quotas(count, {kind: sum(map(len, queues[kind].values())) for kind in KINDS})
    for kind in sorted(KINDS, key=lambda k: sum(map(len, queues[k].values()))):  # rare kinds choose first
        for _ in range(quota[kind]):
            files = [file for file, queue in queues[kind].items() if queue]
            if not files:
                break
            file = min(files, key=lambda f: ((len(taken[f]) + 1) / total[f], order(seed, queues[kind][f][0])))
            queue = queues[kind][file]
            chosen = next((c for c in queue if not overlaps(c, taken[file])), queue[0])
            queue.remove(chosen)
            taken[file].append(chosen)
    return [(file, c) for file in sorted(taken) for c in sorted(taken[file], key=lambda c: (c.start, c.end, c.id))]
