"""Dates among the parameters of a pipeline."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from alphaswarm_rl.core.errors import DataError


def _is_a_date(value: str) -> str:
    from alphaswarm_rl.arrays.moments import moment

    try:
        moment(value)
    except DataError as error:
        raise ValueError(str(error)) from error
    return value


#: A date as text, kept as it was written.
DateText = Annotated[str, AfterValidator(_is_a_date)]
