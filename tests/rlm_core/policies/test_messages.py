"""Messages serve policies written for dataclasses and for mappings."""

import pytest

from rlm_core.policies import Message


def test_a_message_reads_like_a_mapping_too() -> None:
    message = Message("user", "hello", (1, 2))
    assert (message["role"], message["content"]) == ("user", "hello")
    with pytest.raises(KeyError, match="'role' and 'content'"):
        message["token_ids"]  # type: ignore[index]
