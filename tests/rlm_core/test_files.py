"""Files are whole or absent, and a crash costs at most the line that was being written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.files import (
    DamagedFile,
    append_jsonl,
    atomic_writer,
    content_key,
    read_json,
    read_jsonl,
    read_kept,
    write_json,
    write_jsonl,
)


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


JUNK = {
    "empty": b"",
    "binary": b"\x00\xff\xfe\x01",
    "half": b'{"text": "na\xc3',
    "deep": b"[" * 100_000,
    "digits": b"9" * 10_000,
}


@pytest.mark.parametrize("kind", JUNK)
def test_whatever_a_file_holds_its_name_is_told(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "paper.json"
    path.write_bytes(JUNK[kind])
    with pytest.raises(DamagedFile, match=r"paper\.json: not JSON .*delete the file to make it again"):
        read_json(path)
    path.write_bytes(b'{"n": 1}\n' + (JUNK[kind] or b"-") + b"\n")
    with pytest.raises(DamagedFile, match=r"paper\.json:2: not a JSON line"):
        list(read_jsonl(path, allow_cut_tail=True))


def test_a_tail_cut_inside_a_character_is_a_cut_tail(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_jsonl(path, {"n": 1})
    whole = path.read_bytes()
    for cut in '{"text": "ü€🙂'.encode(), b"\x00" * 50:
        for end in range(1, len(cut) + 1):
            path.write_bytes(whole + cut[:end])
            assert list(read_jsonl(path, allow_cut_tail=True)) == [{"n": 1}]


@pytest.mark.parametrize("kind", JUNK)
def test_a_damaged_cache_counts_as_absent(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "kept.json"
    assert read_kept(path, lambda row: row["n"]) is None
    assert not caplog.records
    path.write_bytes(JUNK[kind])
    assert read_kept(path, lambda row: row["n"]) is None
    write_json(path, {"m": 1})
    assert read_kept(path, lambda row: row["n"]) is None
    assert caplog.text.count("kept.json is damaged and is made again") == 2
    write_json(path, {"n": 1})
    assert read_kept(path, lambda row: row["n"]) == 1


def test_lone_surrogates_become_question_marks_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": "x\\ud800y", "b": "\\ud83d\\ude42"}\n')
    assert list(read_jsonl(path)) == [{"a": "x?y", "b": "🙂"}]
    append_jsonl(path, {"a": "\udfff"})
    write_json(tmp_path / "one.json", {"\ud800": 1})
    assert list(read_jsonl(path))[1] == {"a": "?"}
    assert read_json(tmp_path / "one.json") == {"?": 1}


def test_a_full_disk_is_told_with_the_file_and_leaves_the_old_one(tmp_path: Path) -> None:
    """/dev/full takes no byte, as a full disk; what it says of a descriptor has no name of its own."""
    with pytest.raises(OSError, match=r"No space left.*/dev/full"):
        append_jsonl(Path("/dev/full"), {"a": 1})
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"a": 1}])
    with pytest.raises(OSError, match=r"No space left.*rows\.jsonl"), atomic_writer(path) as out:
        with open("/dev/full", "w") as full:
            os.dup2(full.fileno(), out.fileno())
        out.write("x")
    assert list(read_jsonl(path)) == [{"a": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]


def test_names_as_long_as_the_system_takes_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".json")
    write_json(path, 1)
    assert read_json(path) == 1
