"""Recipes by name, changed, and as the program resolves them."""

import tomllib

import narrowgauge as ng


def test_names_and_text_are_those_of_the_program(program):
    names = ng.recipes()
    assert {"fp32", "nvfp4", "mxfp4-sr-rht"} <= set(names)
    for name in ("fp32", "nvfp4", "fp8-lm"):
        said = program("recipes", name).splitlines()
        said = [line for line in said if not line.startswith("#")]
        assert "\n".join(said).strip() == ng.Recipe(name).resolved.strip()


def test_overrides_change_keys():
    plain = ng.Recipe("nvfp4")
    dotted = ng.Recipe("nvfp4", {"linear.fprop.input": {"format": "mxfp4"}, "compute": "fp32"})
    nested = ng.Recipe("nvfp4", {"linear": {"fprop": {"input.format": "mxfp4"}}, "compute": "fp32"})
    assert dotted.hash == nested.hash != plain.hash and len(plain.hash) == 16
    assert tomllib.loads(dotted.resolved)["compute"] == "fp32"
    assert "changed" in dotted.name and plain.name == "nvfp4"
    assert ng.Recipe(plain.words).hash == plain.hash
