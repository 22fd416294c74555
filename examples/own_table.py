"""A CSV of one's own and no idea what is missing: a constant and powers of the axis will do.

``python examples/own_table.py TABLE RESPONSE PHYSICS AXIS [CONDITION]``; else pipe friction.
"""

import sys

import jax
import pandas as pd

import lisdd_jax

# Powers of one column are nearly alike: in single precision their third digits differ.
jax.config.update("jax_enable_x64", True)

PIPE = ("examples/blasius_pipe.csv", "log10(friction_coef)", "log10(Re)", "log10(Re)", "Re > 3500")


def diagnose(path, response, physics, axis, condition=None):
    table = pd.read_csv(path)
    if condition:
        table = table.query(condition)
    library = ["1", f"({axis})", f"({axis})^2", f"({axis})^3"]
    return lisdd_jax.fit(f"{response} ~ {physics} | {axis}", table, library=library)


def main(words=PIPE):
    found = diagnose(*words)
    print(found)
    for term in found.terms.itertuples():
        print(f"  {term.coefficient:+.4g} {term.term}, standard error {term.stderr:.2g}")


if __name__ == "__main__":
    main(sys.argv[1:] or PIPE)
