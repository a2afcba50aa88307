"""What scripts/mutate is made of. One module, one subject:

mutant.py      what a mutant is and how it is written down
candidates.py  where a C++ file can be changed (needs tree-sitter)
schemata.py    one text that holds all mutants of a file, chosen at run time
compiling.py   which mutants compile
selection.py   which of them are taken, by seed
building.py    the changed copy of the source tree and its build
programs.py    one run of a test program under a mutant
running.py     the tests against no mutant, then against each
reporting.py   counts, survivors, docs/mutation.md
"""
