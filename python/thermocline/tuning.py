"""Parameters tuned on some traces, and judged on others."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa

from thermocline._options import checked
from thermocline._progress import Progress, watching
from thermocline.catalogue import Parameter, policies
from thermocline.errors import ConfigurationError, TraceError
from thermocline.lab import TraceLike, simulate
from thermocline.trace import Trace

if TYPE_CHECKING:
    from optuna.trial import Trial
    from typing_extensions import Unpack

    from thermocline._options import HierarchyOptions, Size, Value
    from thermocline.results import Run

__all__ = ["Tuning", "tune"]

SEED = "seed"
"""The parameter that says where random numbers begin; it is not tuned."""

WIDEST = 1e6
"""The widest range of a parameter whose default does not say what can be of use."""

LOG_FROM = 100.0
"""Ranges whose ends differ by this factor are searched on a logarithmic scale."""


class Tuning:
    """Results of tuning, on the traces that it tuned on and on those that it held out.

    Attributes
    ----------
    policy : str
        The policy.
    objective : str
        Quantity to be minimised: a column of a :class:`Run`, or the name of a function.
    best : dict[str, Value]
        The parameters that are best on the traces for tuning; those of the defaults if nothing
        is better.
    trials : pyarrow.Table
        A row per setting that was tried, the defaults first: ``trial``, the parameters,
        ``reduction`` (the mean over the traces for tuning), and ``error`` for a setting that
        cannot be.
    table : pyarrow.Table
        A row per trace with its ``side`` (``"tune"`` or ``"hold-out"``), the objective with the
        ``default`` and with the ``tuned`` parameters, and the ``reduction``.
    """

    def __init__(
        self,
        policy: str,
        objective: str,
        best: Mapping[str, Value],
        trials: pa.Table,
        table: pa.Table,
    ) -> None:
        self.policy = policy
        self.objective = objective
        self.best = dict(best)
        self.trials = trials
        self.table = table

    @property
    def reduction(self) -> float:
        """The mean reduction of the objective on the traces for tuning; at least 0."""
        return self._mean("tune")

    @property
    def held_out_reduction(self) -> float:
        """The mean reduction on the traces held out; far below :attr:`reduction` if overfitted."""
        return self._mean("hold-out")

    def _mean(self, side: str) -> float:
        return fmean(row["reduction"] for row in self.table.to_pylist() if row["side"] == side)

    def __repr__(self) -> str:
        return (
            f"<thermocline.Tuning {self.policy}: {self.objective} reduced by "
            f"{self.reduction:.1%}, on traces held out by {self.held_out_reduction:.1%}>"
        )


def tune(
    traces: TraceLike | Sequence[TraceLike],
    policy: str,
    tiers: Mapping[str, Size],
    *,
    hold_out: float | TraceLike | Sequence[TraceLike] = 0.3,
    search: Sequence[str] | Mapping[str, tuple[float, float] | None] | None = None,
    objective: str | Callable[[Run], float] = "io_time_ms",
    trials: int = 50,
    seeds: int = 3,
    seed: int = 1,
    batch: int = 8,
    threads: int | None = None,
    progress: Progress = None,
    **options: Unpack[HierarchyOptions],
) -> Tuning:
    """Tune the parameters of a policy on some traces, and judge them on others.

    Optuna's sampler chooses settings within the ranges of the registry. The defaults are the first
    setting that is tried. Only when the best one is chosen, it runs on the traces held out, beside
    the defaults. The same arguments give the same result, for any number of threads.

    A reduction is (d - m) / max(d, m) of the objective d with the defaults and m with other
    parameters, as in the reports of corpora; the mean over traces counts.

    Parameters
    ----------
    traces : Trace or str or PathLike, or a sequence of them
        The traces for tuning.
    policy : str
        A registered policy; see :func:`policies`.
    tiers : Mapping[str, Size]
        The cache tiers, each with one size, as for :func:`simulate`.
    hold_out : float, or Trace or str or PathLike, or a sequence of them, optional
        The traces to judge on; or the share of each trace, in ``(0, 1)``, at its end, that is
        held out. Caches begin empty on it.
    search : Sequence[str] or Mapping[str, tuple[float, float] or None], optional
        The parameters to tune; if not given all but ``seed``, those whose range has no end and
        those that take several words; of a number, its range instead of the registry's.
    objective : str or callable, optional
        Quantity to be minimised: a column of :attr:`Result.table` such as ``"io_time_ms"``,
        ``"miss_ratio"``, ``"flash_page_writes"`` or, with ``timing="events"``, ``"read_p99_us"``;
        or a function from a :class:`Run` to a number.
    trials : int, optional
        Number of settings to try, the defaults among them, >= 1.
    seeds : int, optional
        Number of seeds with which a policy that draws random numbers runs; their mean counts, >= 1.
    seed : int, optional
        The seed of the sampler, >= 0.
    batch : int, optional
        Settings that are chosen before their results are looked at, >= 1. It changes what is
        tried; `threads` does not.
    threads : int, optional
        Number of runs at once, >= 1; default: the number of processors.
    progress : bool or callable, optional
        Show a progress bar, or call this function with it; default: a bar on a terminal.
    **options : HierarchyOptions
        More about the hierarchy; ``parameters`` of it are not tuned. See
        :class:`HierarchyOptions`.

    Returns
    -------
    Tuning
        The best parameters, all trials, and the figures of both sides.

    Raises
    ------
    ConfigurationError
        If the policy, a parameter, a size or an option cannot be, or Optuna is missing.
    TraceError
        If a trace cannot be read.
    """
    for name, number in (("trials", trials), ("seeds", seeds), ("batch", batch)):
        if number < 1:
            message = f"{name}={number}: expected a whole number of at least 1"
            raise ConfigurationError(message)
    entry = next((one for one in policies() if one.name == policy), None)
    if entry is None:
        known = ", ".join(one.name for one in policies())
        message = f"policy: unknown policy `{policy}`; the policies are: {known}"
        raise ConfigurationError(message)
    space = _space(policy, entry.parameters, search)
    study = _study(seed)
    sides = _sides(traces, hold_out)
    is_random = any(one.name == SEED for one in entry.parameters)
    lab = _Lab(policy, tiers, objective, checked(options), range(1, seeds + 1) if is_random else ())
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as executor:
        tuned_on = sides.tune()
        with watching(progress, "trials") as watch:
            searching = _Searching(lab, space, tuned_on, executor, study)
            while len(searching.rows) < trials:
                searching.step(min(batch, trials - len(searching.rows)))
                if watch is not None:
                    watch(len(searching.rows), trials, 0)
        rows, chosen = searching.rows, searching.best
        # From here on nothing is chosen any more.
        both = [("tune", one) for one in tuned_on]
        both += [("hold-out", one) for one in sides.hold_out()]
        jobs = [(one, setting) for _, one in both for setting in ({}, chosen)]
        judged = list(executor.map(lambda job: lab.value(*job), jobs))
    names = [one.name for one in space]
    plain = {one.name: _default(one) for one in space}
    rows[0].update(plain)
    columns = ["trial", *names, "reduction", "error"]
    table = {
        "trace": [one._compiled.path for _, one in both],
        "side": [side for side, _ in both],
        "default": judged[::2],
        "tuned": judged[1::2],
        "reduction": [_reduction(*pair) for pair in zip(judged[::2], judged[1::2], strict=True)],
    }
    name = objective if isinstance(objective, str) else getattr(objective, "__name__", "objective")
    tried = pa.table({column: [row.get(column) for row in rows] for column in columns})
    return Tuning(policy, name, chosen or plain, tried, pa.table(table))


class _Searching:
    """The settings that were tried, and the best of them."""

    def __init__(
        self,
        lab: _Lab,
        space: Sequence[Parameter],
        traces: Sequence[Trace],
        executor: Executor,
        study: Any,
    ) -> None:
        self.lab = lab
        self.space = space
        self.traces = traces
        self.executor = executor
        self.study = study
        self.defaults = list(executor.map(lambda trace: lab.value(trace, {}), traces))
        self.rows: list[dict[str, Any]] = [{"trial": 0, "reduction": 0.0, "error": None}]
        self.best: dict[str, Value] = {}
        self.reduction = 0.0

    def step(self, count: int) -> None:
        """Try so many settings at once."""
        asked = [self.study.ask() for _ in range(count)]
        settings = [{one.name: _suggest(trial, one) for one in self.space} for trial in asked]
        jobs = [(trace, setting) for setting in settings for trace in self.traces]
        found = list(self.executor.map(lambda job: self.lab.attempt(*job), jobs))
        for place, (trial, setting) in enumerate(zip(asked, settings, strict=True)):
            values = found[place * len(self.traces) : (place + 1) * len(self.traces)]
            self._take(trial, setting, values)

    def _take(self, trial: Any, setting: dict[str, Value], values: list[float | str]) -> None:
        error = next((one for one in values if isinstance(one, str)), None)
        row = {"trial": len(self.rows), **setting, "reduction": None, "error": error}
        self.rows.append(row)
        if error is not None:
            self.study.tell(trial, state=_failed())
            return
        pairs = zip(self.defaults, cast("list[float]", values), strict=True)
        reduction = fmean(_reduction(default, other) for default, other in pairs)
        row["reduction"] = reduction
        self.study.tell(trial, reduction)
        if reduction > self.reduction:
            self.reduction, self.best = reduction, setting


class _Lab(NamedTuple):
    """Judgement of a setting on a trace."""

    policy: str
    tiers: Mapping[str, Size]
    objective: str | Callable[[Run], float]
    options: HierarchyOptions
    seeds: Sequence[int]

    def value(self, trace: Trace, setting: Mapping[str, Value]) -> float:
        """Give the objective, the mean over seeds."""
        if not self.seeds:
            return self._value(trace, setting)
        return fmean(self._value(trace, {**setting, SEED: seed}) for seed in self.seeds)

    def attempt(self, trace: Trace, setting: Mapping[str, Value]) -> float | str:
        """Give the objective, or why the setting cannot be."""
        try:
            return self.value(trace, setting)
        except ConfigurationError as error:
            return str(error)

    def _value(self, trace: Trace, setting: Mapping[str, Value]) -> float:
        own = {f"{self.policy}.{name}": value for name, value in setting.items()}
        options = dict(self.options)
        options["parameters"] = {**self.options.get("parameters", {}), **own}
        run = simulate(
            trace, self.policy, self.tiers, progress=False, **cast("HierarchyOptions", options)
        )
        if callable(self.objective):
            found = float(self.objective(run))
        elif self.objective in run.table.column_names:
            found = run.table.column(self.objective)[0].as_py()
        else:
            known = ", ".join(run.table.column_names)
            message = f"objective={self.objective!r}: unknown column; a run has: {known}"
            raise ConfigurationError(message)
        if not isinstance(found, int | float) or not math.isfinite(found):
            message = (
                f"objective: it is {found!r} on `{trace._compiled.path}`, and must be a number"
            )
            raise ConfigurationError(message)
        return float(found)


class _Sides(NamedTuple):
    """The traces of both sides; those held out are opened when they are asked for."""

    traces: list[Trace]
    share: float | None
    others: list[TraceLike]

    def tune(self) -> list[Trace]:
        return [one[: self._cut(one)] for one in self.traces] if self.share else self.traces

    def hold_out(self) -> list[Trace]:
        if self.share:
            return [one[self._cut(one) :] for one in self.traces]
        return [one if isinstance(one, Trace) else Trace.open(one) for one in self.others]

    def _cut(self, trace: Trace) -> int:
        return min(max(round(len(trace) * (1 - (self.share or 0))), 1), len(trace) - 1)


def _sides(
    traces: TraceLike | Sequence[TraceLike], hold_out: float | TraceLike | Sequence[TraceLike]
) -> _Sides:
    if isinstance(hold_out, int | float):
        if not 0 < hold_out < 1:
            message = f"hold_out={hold_out}: expected a share above 0 and below 1, or traces"
            raise ConfigurationError(message)
        others: list[TraceLike] = []
    else:
        others = _listed("hold_out", hold_out)
    tuned = _listed("traces", traces)
    paths = {os.path.realpath(one) for one in tuned if not isinstance(one, Trace)}
    for one in others:
        is_same = any(one is other for other in tuned)
        if is_same or (not isinstance(one, Trace) and os.path.realpath(one) in paths):
            message = f"hold_out: {one!r} is among the traces for tuning"
            raise ConfigurationError(message)
        if not isinstance(one, Trace) and "://" not in str(one) and not os.path.exists(one):  # noqa: PTH110, as given
            message = f"hold_out: file not found: `{os.fspath(one)}`"
            raise TraceError(message)
    opened = [one if isinstance(one, Trace) else Trace.open(one) for one in tuned]
    share = float(hold_out) if isinstance(hold_out, int | float) else None
    return _Sides(opened, share, others)


def _listed(name: str, traces: TraceLike | Sequence[TraceLike]) -> list[TraceLike]:
    if isinstance(traces, Trace | str | PathLike):
        return [traces]
    found = list(traces)
    if not found:
        message = f"{name}: pass at least one trace"
        raise ConfigurationError(message)
    return found


def _space(
    policy: str,
    known: Sequence[Parameter],
    asked: Sequence[str] | Mapping[str, tuple[float, float] | None] | None,
) -> list[Parameter]:
    """Give the parameters to tune, with their ranges."""
    by_name = {one.name: one for one in known if one.name != SEED}
    if isinstance(asked, str):
        asked = [asked]
    names = list(by_name) if asked is None else list(asked)
    if not names:
        message = f"policy: `{policy}` has no parameter to tune"
        raise ConfigurationError(message)
    space = []
    for name in names:
        if name not in by_name:
            message = (
                f"search: `{policy}` has no parameter `{name}` to tune; it has: "
                f"{', '.join(by_name) or 'none'}"
            )
            raise ConfigurationError(message)
        one = by_name[name]
        ends = asked[name] if isinstance(asked, Mapping) else None
        if one.kind in {"integer", "real"}:
            try:
                space.append(_ranged(one, ends))
            except ConfigurationError:
                # Nobody asked for this one.
                if asked is not None:
                    raise
        elif one.kind == "words":
            if asked is not None:
                message = f"search[{name!r}]: a parameter of several words cannot be tuned: omit it"
                raise ConfigurationError(message)
        elif ends is not None:
            message = f"search[{name!r}]: not a number, so it has no range: pass None"
            raise ConfigurationError(message)
        else:
            space.append(one)
    return space


def _ranged(one: Parameter, ends: tuple[float, float] | None) -> Parameter:
    """Give a number its range: the caller's, or the registry's near the default."""
    least, most = one.min or 0.0, math.inf if one.max is None else one.max
    if ends is None:
        # Ranges of the registry say what can be, up to billions; a hundredth to a hundred times
        # the default is what can be of use.
        default = _number(one.default)
        low, high = least, most
        if default:
            low, high = max(low, default / 100), min(high, default * 100)
        elif high - low > WIDEST:
            message = f"search[{one.name!r}]: its range is open: pass one, as in (0, 100)"
            raise ConfigurationError(message)
    else:
        low, high = map(float, ends)
        if not least <= low < high <= most:
            message = f"search[{one.name!r}]: invalid range {ends}: expected {one.range}"
            raise ConfigurationError(message)
    if one.kind == "integer":
        low, high = math.ceil(low), math.floor(high)
    return replace(one, min=low, max=high)


def _suggest(trial: Trial, one: Parameter) -> Value:
    """Let the sampler choose a value."""
    if one.kind == "switch":
        return trial.suggest_categorical(one.name, [False, True])
    if one.kind == "choice":
        return trial.suggest_categorical(one.name, list(one.words or ()))
    least, most = one.min or 0.0, one.max or 0.0
    is_log = least > 0 and most / least >= LOG_FROM
    if one.kind == "integer":
        return trial.suggest_int(one.name, int(least), int(most), log=is_log)
    return trial.suggest_float(one.name, least, most, log=is_log)


def _number(text: str) -> float | None:
    """Give the number of a text; none for a word, such as ``auto``."""
    try:
        return float(text)
    except ValueError:
        return None


def _default(one: Parameter) -> Value:
    """Give the default as its type."""
    if one.kind == "switch":
        return one.default == "true"
    number = _number(one.default)
    if number is None:
        return one.default
    return int(number) if one.kind == "integer" else number


def _study(seed: int) -> Any:
    """Make Optuna's study, which is silent and seeded."""
    try:
        import optuna  # noqa: PLC0415, it is optional
    except ImportError:
        message = "tune needs Optuna: install it with `pip install 'thermocline[tune]'`"
        raise ConfigurationError(message) from None
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    optuna.logging.set_verbosity(verbosity)
    return study


def _failed() -> Any:
    from optuna.trial import TrialState  # noqa: PLC0415, it is optional

    return TrialState.FAIL


def _reduction(default: float, other: float) -> float:
    """Give the share by which a value is below the default's, from -1 to 1 if both are positive."""
    greatest = max(abs(default), abs(other))
    return (default - other) / greatest if greatest > 0 else 0.0
