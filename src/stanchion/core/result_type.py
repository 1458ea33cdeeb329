"""The type variable of results: `JobHandle[int]`. A class without it has results of any type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # type checkers bring the module; Python 3.11 has no defaults of type variables
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

__all__ = ["R_co"]
