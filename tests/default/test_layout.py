import itertools

from lisdd_jax.default.layout import ColumnLayout


def test_every_column_has_one_place():
    for num_physics, num_terms in itertools.product(range(1, 4), range(4)):
        layout = ColumnLayout(num_physics, num_terms)
        names = ["1", "axis", *["physics"] * num_physics, *["term"] * num_terms, "response"]
        assert layout.size == len(names)
        assert names[layout.physics] == ["physics"] * num_physics
        assert names[layout.terms] == ["term"] * num_terms
        assert names[: layout.num_directions] == ["1", "axis", *["physics"] * num_physics]
        assert hash(layout) == hash(ColumnLayout(num_physics, num_terms))
