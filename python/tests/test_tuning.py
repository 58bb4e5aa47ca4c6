"""Tuning: better on the traces for tuning, and none of those held out is looked at before."""

import builtins
import threading
from collections.abc import Callable
from typing import Any

import pytest
import thermocline as tc
from thermocline import tuning

TIERS: dict[str, tc.Size] = {"ram": "5%", "flash": "2x"}


@pytest.fixture(scope="module")
def trace() -> tc.Trace:
    return tc.Trace.generate("zipf", requests=6_000, pages=900, seed=4, write_share=0.3)


@pytest.fixture(scope="module")
def other() -> tc.Trace:
    return tc.Trace.generate("zipf", requests=5_000, pages=700, seed=5, alpha=0.7)


def test_every_policy_has_a_space_that_holds_its_defaults() -> None:
    for entry in tc.policies():
        if not any(one.name != "seed" for one in entry.parameters):
            with pytest.raises(tc.ConfigurationError, match="no parameter to tune"):
                tuning._space(entry.name, entry.parameters, None)
            continue
        for one in entry.parameters:
            if one.name == "seed":
                continue
            default = tuning._default(one)
            try:
                (space,) = tuning._space(entry.name, entry.parameters, [one.name])
            except tc.ConfigurationError as error:
                # One that takes words, or one that is 0 and has no greatest value.
                why = "several words" if one.kind == "words" else "pass one, as in"
                assert why in str(error)  # noqa: PT017, only some have none
                continue
            if space.min is not None and space.max is not None and default != "auto":
                assert isinstance(default, int | float)
                assert space.min <= default <= space.max, (entry.name, space)


def test_tuned_parameters_are_no_worse_where_they_were_tuned(trace: tc.Trace) -> None:
    pytest.importorskip("optuna")
    found = tc.tune(trace, "hat", TIERS, trials=20, seed=2, progress=False)
    assert found.reduction >= 0
    trials = found.trials.to_pylist()
    assert [row["trial"] for row in trials] == list(range(20))
    tried = [row["reduction"] for row in trials if row["reduction"] is not None]
    assert found.reduction == pytest.approx(max(tried))
    assert max(tried) > 0, "the first part of this trace has room for better parameters"
    # What it says are figures of runs on the parts of the trace.
    first, second = found.table.to_pylist()
    assert (first["side"], second["side"]) == ("tune", "hold-out")
    cut = round(len(trace) * 0.7)
    for row, part in ((first, trace[:cut]), (second, trace[cut:])):
        own = {f"hat.{name}": value for name, value in found.best.items()}
        tuned = tc.simulate(part, "hat", TIERS, parameters=own, progress=False)
        plain = tc.simulate(part, "hat", TIERS, progress=False)
        assert (row["default"], row["tuned"]) == (plain.io_time_ms, tuned.io_time_ms)
        greatest = max(plain.io_time_ms, tuned.io_time_ms)
        assert row["reduction"] == (plain.io_time_ms - tuned.io_time_ms) / greatest
    assert found.held_out_reduction == second["reduction"]
    assert "on traces held out by" in repr(found)


def test_the_same_arguments_give_the_same(trace: tc.Trace, other: tc.Trace) -> None:
    pytest.importorskip("optuna")

    def tuned(seed: int, threads: int) -> tc.Tuning:
        arguments: dict[str, Any] = {"trials": 12, "seed": seed, "threads": threads, "batch": 4}
        return tc.tune(
            [trace, other], "hat", TIERS, objective="miss_ratio", progress=False, **arguments
        )

    one, two, three = tuned(1, 1), tuned(1, 3), tuned(2, 3)
    assert one.trials.equals(two.trials)
    assert one.table.equals(two.table)
    assert one.best == two.best
    assert not one.trials.equals(three.trials)
    assert len(one.table) == 4


def test_the_hold_out_is_not_touched_while_tuning(
    trace: tc.Trace, other: tc.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    ran: list[tuple[bool, bool]] = []
    lock = threading.Lock()
    simulate: Callable[..., tc.Run] = tc.simulate

    def watched(given: tc.Trace, *arguments: Any, **options: Any) -> tc.Run:
        with lock:
            own = any(name.startswith("hat.") for name in options["parameters"])
            ran.append((given is other, own))
        return simulate(given, *arguments, **options)

    monkeypatch.setattr(tuning, "simulate", watched)
    calls = []
    tc.tune(
        trace,
        "hat",
        TIERS,
        hold_out=other,
        trials=9,
        threads=1,
        progress=lambda *told: calls.append((told, len(ran))),
    )
    # The defaults and eight settings, and then both sides once more.
    assert len(ran) == 9 + 4
    assert [is_held_out for is_held_out, _ in ran] == [False] * 11 + [True] * 2
    assert calls == [((9, 9, 0), 9)]


def test_objectives_may_be_functions_and_seeds_are_averaged(trace: tc.Trace) -> None:
    pytest.importorskip("optuna")
    seen: list[int] = []

    def flash_writes(run: tc.Run) -> float:
        seen.append(run.parameters.get("seed", 0))
        return float(run.table.column("flash_page_writes")[0].as_py())

    def miss_ratio(run: tc.Run) -> float:
        seen.append(run.parameters["seed"])
        return run.miss_ratio

    found = tc.tune(
        trace, "hat", TIERS, objective=flash_writes, trials=3, threads=1, progress=False
    )
    assert found.objective == "flash_writes"
    assert seen == [0] * len(seen)
    seen.clear()
    tc.tune(
        trace,
        "hyperbolic",
        {"ram": "5%"},
        objective=miss_ratio,
        trials=1,
        seeds=2,
        threads=1,
        progress=False,
    )
    assert seen == [1, 2] * 5


def test_what_cannot_be_tuned_is_told(
    trace: tc.Trace, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"policy": "hatt"}, tc.ConfigurationError, "unknown policy `hatt`"),
        ({"policy": "lru"}, tc.ConfigurationError, "`lru` has no parameter to tune"),
        ({"search": ["x"]}, tc.ConfigurationError, "`hat` has no parameter `x` to tune"),
        (
            {"policy": "auto", "search": ["candidates"]},
            tc.ConfigurationError,
            "'candidates'.: a parameter of several words cannot be tuned",
        ),
        (
            {"search": {"nonhot_ratio": (0.5, 2.0)}},
            tc.ConfigurationError,
            r"invalid range \(0.5, 2.0\)",
        ),
        ({"hold_out": 1.5}, tc.ConfigurationError, "hold_out=1.5: expected a share"),
        ({"hold_out": []}, tc.ConfigurationError, "hold_out: pass at least one"),
        ({"hold_out": trace}, tc.ConfigurationError, "is among the traces for tuning"),
        ({"hold_out": tmp_path / "absent"}, tc.TraceError, "hold_out: file not found"),
        ({"trials": 0}, tc.ConfigurationError, "trials=0"),
        (
            {"tiers": {"ram": ["1%", "2%"], "flash": "2x"}},
            tc.ConfigurationError,
            "one size per tier",
        ),
        ({"objective": "speed"}, tc.ConfigurationError, "unknown column; a run has: "),
    ]
    pytest.importorskip("optuna")
    plain: dict[str, Any] = {"traces": trace, "policy": "hat", "tiers": TIERS, "trials": 2}
    for keys, family, message in cases:
        with pytest.raises(family, match=message):
            tc.tune(**{**plain, **keys}, progress=False)
    importing = builtins.__import__

    def without_optuna(name: str, *arguments: Any) -> Any:
        if name == "optuna":
            raise ImportError(name)
        return importing(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_optuna)
    with pytest.raises(tc.ConfigurationError, match=r"pip install 'thermocline\[tune\]'"):
        tc.tune(**plain)
