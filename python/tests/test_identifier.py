"""Identifiers over arrays, and what there is."""

import numpy as np
import pytest
import thermocline as tc
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

NAMES = [entry.name for entry in tc.identifiers()]


@settings(max_examples=25)
@given(
    st.sampled_from(NAMES),
    st.lists(st.integers(0, 30), max_size=200),
    st.integers(0, 200),
)
def test_many_at_once_are_one_by_one(name: str, pages: list[int], cut: int) -> None:
    at_once, in_parts, one_by_one = (tc.Identifier(name, 31) for _ in range(3))
    expected = [bool(one_by_one.record([page])[0]) for page in pages]
    assert at_once.record(pages).tolist() == expected
    first, second = (in_parts.record(part).tolist() for part in (pages[:cut], pages[cut:]))
    assert first + second == expected
    np.testing.assert_array_equal(at_once.hotness(range(31)), one_by_one.hotness(range(31)))


def test_hot_is_what_reaches_the_threshold() -> None:
    wdac = tc.Identifier("wdac", 100)
    hot = wdac.record(np.array([1, 2, 1, 1, 1, 3], dtype=np.int64))
    assert hot.dtype == np.bool_
    index = wdac.hotness([1, 2, 3])
    assert (index >= wdac.threshold).tolist()[0]
    wdac.reset()
    assert wdac.hotness([1]).tolist() == [0.0]
    dam = tc.Identifier("dam", 100)
    dam.record([1] * 8)
    before = dam.hotness([1])[0]
    dam.decay()
    assert dam.hotness([1])[0] < before
    assert dam.decay_writes is not None
    assert tc.Identifier("mbf", 10, filters=8).memory_bits > 0


def test_mistakes_are_named() -> None:
    with pytest.raises(tc.ConfigurationError, match="unknown identifier `nope`; there are"):
        tc.Identifier("nope", 10)
    with pytest.raises(tc.ConfigurationError, match="no parameter `colour`"):
        tc.Identifier("mbf", 10, colour=1)
    with pytest.raises(tc.ConfigurationError, match="pages=0"):
        tc.Identifier("mbf", 0)
    mbf = tc.Identifier("mbf", 10)
    cases: list[tuple[ArrayLike, str]] = [
        ([1, 10], "page 10 at index 1 is out of range"),
        ([-1], "page -1 at index 0"),
        ([0.5], "type float64"),
        ([[1]], r"shape \(1, 1\)"),
    ]
    for pages, message in cases:
        with pytest.raises(tc.ConfigurationError, match=message):
            mbf.record(pages)
    assert mbf.record([]).tolist() == []


def test_what_there_is_has_sources() -> None:
    for entries in (tc.policies(), tc.identifiers(), tc.buffers()):
        assert all(entry.summary and entry.source for entry in entries)
    hat = next(policy for policy in tc.policies() if policy.name == "hat")
    assert hat.tiers is not None
    assert "nonhot_ratio" in [parameter.name for parameter in hat.parameters]
    assert all(device.read_ms >= 0 for device in tc.devices())
    assert {"ssd", "hdd"} == set(tc.drives())
