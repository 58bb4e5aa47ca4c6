"""Hot-data identifiers: which pages are written often, and lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thermocline import _thermocline
from thermocline.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from thermocline._options import Value

__all__ = ["Identifier"]


class Identifier:
    """A hot-data identifier with its state.

    It is told a stream of pages, in the papers the writes that reach a flash device, and says of
    each whether it is hot with it. Time is the number of pages recorded.

    Parameters
    ----------
    name : str
        A registered identifier; see :func:`identifiers`.
    pages : int
        Page ids are less than this; from 1 to 2**31. Exact identifiers keep a few bytes for each.
    **parameters : Value
        Its parameters.

    Raises
    ------
    ConfigurationError
        If there is no such identifier or parameter, or the parameters do not go together.

    References
    ----------
    Park, Du, "Hot Data Identification for Flash-based Storage Systems Using Multiple Bloom
    Filters", MSST '11, for ``mbf``; :func:`identifiers` names the source of each.

    Examples
    --------
    >>> import thermocline as tc
    >>> mbf = tc.Identifier("mbf", 1 << 20)
    >>> mbf.record([4711, 4711, 4711, 12])
    array([False, False,  True, False])
    >>> mbf.memory_bits // 8
    1024
    """

    def __init__(self, name: str, pages: int, **parameters: Value) -> None:
        if not 1 <= pages <= 2**31:
            message = f"pages={pages}: expected a whole number from 1 to 2**31"
            raise ConfigurationError(message)
        self._state = _thermocline.Identifier(name, pages, list(parameters.items()))
        self.name = name
        self.pages = pages

    def __repr__(self) -> str:
        return f"<thermocline.Identifier {self.name}: {self.memory_bits:,} bits>"

    def record(self, pages: ArrayLike) -> NDArray[np.bool_]:
        """Record pages in order, and say of each whether it is hot with it.

        Parameters
        ----------
        pages : array_like
            Page ids, shape ``(n,)``, each in ``[0, self.pages)``.

        Returns
        -------
        NDArray[np.bool_]
            True for hot pages, shape ``(n,)``.

        Raises
        ------
        ConfigurationError
            If a page is not a whole number in this range.
        """
        return self._state.record(self._checked(pages))

    def hotness(self, pages: ArrayLike) -> NDArray[np.float64]:
        """Return the hot data index of pages as things stand, without recording them.

        Parameters
        ----------
        pages : array_like
            Page ids, shape ``(n,)``, each in ``[0, self.pages)``.

        Returns
        -------
        NDArray[np.float64]
            Values to compare with the threshold, shape ``(n,)``.

        Raises
        ------
        ConfigurationError
            If a page is not a whole number in this range.
        """
        return self._state.hotness(self._checked(pages))

    def decay(self) -> None:
        """Forget at once what it would forget at the next decay."""
        self._state.decay()

    def reset(self) -> None:
        """Forget everything."""
        self._state.reset()

    @property
    def threshold(self) -> float:
        """The hot data index from which on a page is hot."""
        return self._state.threshold

    @property
    def decay_writes(self) -> int | None:
        """Number of pages between two decays; None if it forgets with every page."""
        return self._state.decay_writes

    @property
    def memory_bits(self) -> int:
        """The state in bits, as stored."""
        return self._state.memory_bits

    def _checked(self, pages: ArrayLike) -> NDArray[np.uint32]:
        column = np.asarray(pages)
        if column.ndim != 1:
            message = f"pages have the shape {column.shape}: expected (n,)"
            raise ConfigurationError(message)
        if len(column) == 0:
            return np.empty(0, dtype=np.uint32)
        if not np.issubdtype(column.dtype, np.integer):
            message = f"pages have the type {column.dtype}: expected whole numbers"
            raise ConfigurationError(message)
        if column.min() < 0 or column.max() >= self.pages:
            place = int(np.argmax((column < 0) | (column >= self.pages)))
            message = (
                f"page {column[place]} at index {place} is out of range: this identifier was made "
                f"for pages from 0 to {self.pages - 1}"
            )
            raise ConfigurationError(message)
        return np.ascontiguousarray(column, dtype=np.uint32)
