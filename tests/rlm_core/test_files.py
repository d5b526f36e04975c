"""Files are whole or absent, and a crash costs at most the line that was being written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.files import append_jsonl, atomic_writer, content_key, read_json, read_jsonl, write_jsonl


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"a": 1}])
    with pytest.raises(RuntimeError), atomic_writer(path) as out:
        out.write("half")
        raise RuntimeError("disk full")
    assert list(read_jsonl(path)) == [{"a": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]


def test_append_drops_a_line_cut_by_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_jsonl(path, {"n": 1})
    with open(path, "ab") as out:
        out.write(b'{"n": 2, "text": "ha')
    assert list(read_jsonl(path, allow_cut_tail=True)) == [{"n": 1}]
    append_jsonl(path, {"n": 3})
    assert list(read_jsonl(path)) == [{"n": 1}, {"n": 3}]


def test_append_survives_a_cut_line_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_jsonl(path, {"n": 1})
    with open(path, "ab") as out:
        out.write(b'{"text": "' + b"x" * 200_000)
    append_jsonl(path, {"n": 2})
    assert list(read_jsonl(path)) == [{"n": 1}, {"n": 2}]


def test_a_broken_line_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\nnot json\n{"a": 2}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl:2: not a JSON line"):
        list(read_jsonl(path))
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match="expected a JSON object, got list"):
        list(read_jsonl(path))
    path.write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        read_json(path)


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3), max_size=5))
def test_rows_come_back_as_written(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    assert write_jsonl(path, rows) == len(rows)
    assert list(read_jsonl(path)) == rows


def test_a_content_key_holds_all_its_parts() -> None:
    assert content_key("a", {"x": 1, "y": 2}) == content_key("a", {"y": 2, "x": 1})
    assert len({content_key("a", "b"), content_key("ab"), content_key("b", "a"), content_key(["a", "b"])}) == 4
