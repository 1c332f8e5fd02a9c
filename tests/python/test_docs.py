"""The blocks of docs/python.md run, one after the other."""

import re

import pytest
from conftest import ROOT


def blocks_of(page, language="python"):
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.parametrize("page", ["docs/python.md"])
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(page)
    assert len(blocks) >= 7
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert (tmp_path / "runs" / "sums-2" / "model").is_dir()
