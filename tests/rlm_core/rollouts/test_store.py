"""Trees on disk: found by key, whole after a crash, published in order."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from rlm_core.records import Query, Rollout, Status, Turn, Usage
from rlm_core.rollouts import RolloutConfig, RolloutStore, read_rollouts, rollout_key

QUERY = Query(id="q", question="where?", context={"p": {"title": "T", "abstract": "", "text": "long " * 1000}})


def make_tree(name: str) -> Rollout:
    turn = Turn(text="```python\n1\n```", completion_ids=(1, 2), logprobs=(-0.5, -0.25), cue="Turn 1 of 4")
    child = Rollout(f"{name}.0", parent_id=name, depth=1, turns=(turn,), status=Status.OUT_OF_TURNS)
    return Rollout(name, turns=(turn,), children=(child,), answer=["übrig"], query_id="q")


def test_trees_are_found_again_by_key(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path / "store.jsonl")
    for name in ("a", "b"):
        store.add(f"key-{name}", make_tree(name))
    assert store.get("key-b") == make_tree("b")
    again = RolloutStore(tmp_path / "store.jsonl")
    assert ("key-a" in again, "key-c" in again, len(again)) == (True, False, 2)
    assert list(again.rollouts(["key-b", "key-a"])) == [make_tree("b"), make_tree("a")]
    with pytest.raises(KeyError):
        again.get("key-c")


def test_a_line_cut_by_a_crash_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    store = RolloutStore(path)
    store.add("a", make_tree("a"))
    whole = path.stat().st_size
    store.add("b", make_tree("b"))
    path.write_bytes(path.read_bytes()[: whole + 100])
    after = RolloutStore(path)
    assert ("a" in after, "b" in after) == (True, False)
    after.add("c", make_tree("c"))
    assert after.get("c") == make_tree("c")
    assert [r.id for r in read_rollouts(path)] == ["a", "c"]


DAMAGE = (
    b'{"key": "a"}\n',
    b"\x00\xff\xfe\n",
    b"[" * 100_000 + b"\n",
    b'{"version": 1, "key": "x", "rollout": 3}\n',
    b"7\n",
)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_line_costs_no_other_tree(damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.jsonl"
    store = RolloutStore(path)
    store.add("a", make_tree("a"))
    first = path.stat().st_size
    path.write_bytes(path.read_bytes() + damage)
    RolloutStore(path).add("b", make_tree("b"))
    after = RolloutStore(path)
    assert list(after.rollouts(["a", "b"])) == [make_tree("a"), make_tree("b")]
    assert "x" not in after
    assert f"store.jsonl: byte {first}: not a stored rollout, made again" in caplog.text


def test_rows_of_another_schema_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_text(json.dumps({"version": 0, "key": "a", "rollout": {"id": "a"}}) + "\n")
    assert "a" not in RolloutStore(path)


def test_publishing_is_whole_and_in_order(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path / "store.jsonl")
    for name in ("a", "b", "c"):
        store.add(name, make_tree(name))
    out = tmp_path / "out" / "rollouts.jsonl"
    assert store.publish(out, ["c", "a"]) == 2
    assert [r.id for r in read_rollouts(out)] == ["c", "a"]
    with pytest.raises(KeyError):
        store.publish(out, ["a", "missing"])
    assert [r.id for r in read_rollouts(out)] == ["c", "a"]  # untouched
    assert [p.name for p in out.parent.iterdir()] == ["rollouts.jsonl"]


def test_without_times_no_duration_is_left(tmp_path: Path) -> None:
    tree = make_tree("a")
    slow = dataclasses.replace(tree.turns[0], model_seconds=2.5, repl_seconds=0.1)
    usage = Usage(turns=1, model_seconds=2.5, repl_seconds=0.1, wall_seconds=3.0)
    child = dataclasses.replace(tree.children[0], turns=(slow,), usage=usage)
    timed = dataclasses.replace(tree, turns=(slow,), children=(child,), usage=usage)
    store = RolloutStore(tmp_path / "store.jsonl")
    store.add("a", timed)
    store.publish(tmp_path / "out.jsonl", ["a"], times=False)
    text = (tmp_path / "out.jsonl").read_text()
    assert set(re.findall(r'"(\w*seconds)": ([^,}]+)', text)) == {
        (name, "0.0") for name in ("model_seconds", "repl_seconds", "wall_seconds")
    }
    (found,) = read_rollouts(tmp_path / "out.jsonl")
    assert dataclasses.replace(found, usage=timed.usage, turns=timed.turns, children=timed.children) == timed
    assert store.get("a") == timed  # the store keeps them


def test_the_key_holds_all_that_shapes_a_tree() -> None:
    config = RolloutConfig()
    paper = {"title": "T", "abstract": "", "text": "long " * 500 + "LONG " + "long " * 499}
    keys = {
        rollout_key(QUERY, 0, config, "expert"),
        rollout_key(QUERY, 1, config, "expert"),
        rollout_key(QUERY, 0, config, "another"),
        rollout_key(QUERY, 0, dataclasses.replace(config, temperature=0.5), "expert"),
        rollout_key(QUERY, 0, dataclasses.replace(config, prompt="compact"), "expert"),
        rollout_key(dataclasses.replace(QUERY, question="why?"), 0, config, "expert"),
        rollout_key(dataclasses.replace(QUERY, context={"p": paper}), 0, config, "expert"),
        rollout_key(dataclasses.replace(QUERY, context={"r": QUERY.context["p"]}), 0, config, "expert"),  # type: ignore[index]
    }
    assert len(keys) == 8
    assert rollout_key(QUERY, 0, config, "expert") == rollout_key(
        dataclasses.replace(QUERY, tier="2"), 0, config, "expert"
    )
