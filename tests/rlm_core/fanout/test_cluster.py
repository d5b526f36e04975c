"""A Ray cluster of two nodes on this machine, one of which is killed in mid-work: no item is lost and none comes twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlm_core.fanout import ClusterError, spread

STUBS = Path(__file__).resolve().parents[2] / "stubs"


def test_nothing_to_do_needs_no_cluster():
    items: list[int] = []
    assert list(spread(lambda item, file: None, items, file_of=lambda item: Path("x"), executor="ray")) == []


def test_an_address_without_a_cluster_says_how_to_start_one(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("a")
    with pytest.raises(ClusterError, match=r"no Ray cluster at 127\.0\.0\.1:1 .*ray start --head"):
        list(spread(_never, [1], file_of=lambda item: file, executor="ray", address="127.0.0.1:1"))


def _never(item: int, file: Path) -> None:
    raise AssertionError("there is no cluster to run this")


@pytest.mark.proof
def test_a_node_that_dies_in_mid_work_loses_nothing(tmp_path, monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(STUBS))  # for the nodes; sys.path is for this process
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.syspath_prepend(str(STUBS))
    import page_worker

    files = [tmp_path / f"{name}.pdf" for name in "ab"]
    for file in files:
        file.write_text(f"content of {file.name}")
    memory = {"object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **memory})
    try:
        nodes = [cluster.add_node(num_cpus=1, **memory) for _ in range(2)]
        seen: dict[int, object] = {}
        places: dict[int, int] = {}
        outcomes = spread(
            page_worker.read,
            range(40),
            file_of=lambda number: files[number // 20],
            executor="ray",
            address=cluster.address,
        )
        for number, outcome in outcomes:
            assert number not in seen
            seen[number] = outcome
            if isinstance(outcome, tuple):
                places[number] = outcome[2]
            if len(set(places.values())) == 2 and len(nodes) == 2:  # both nodes have worked
                cluster.remove_node(nodes.pop(), allow_graceful=False)
    finally:
        cluster.shutdown()
        sys.modules.pop("page_worker", None)
    assert len(nodes) == 1, "the second node was never killed"
    assert set(seen) == set(range(40))
    assert isinstance(seen.pop(13), ValueError)
    assert all(outcome[:2] == (n, f"content of {'ab'[n // 20]}.pdf") for n, outcome in seen.items())  # type: ignore[index]
