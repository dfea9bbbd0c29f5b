"""What a standing query may read again after a micro-batch is kept for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.engine.options import SourceOptions
from anabranch.log import retention
from anabranch.log.storage import Storage
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.offset import Offsets
from anabranch.operators.opening import of_log

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


def hold_what_is_needed(
    operator: Operator, end: Offsets, readers: Mapping[str, Reader], scratch: str | None, options: SourceOptions
) -> None:
    """Tell retention, once a micro-batch that goes to `end` is over."""
    if options.holder is None:
        return
    for name, floor in operator.held(end, Inputs(readers, scratch)).items():
        retention.hold(Storage(options.streams[name]), options.holder, *of_log(floor, readers[name]))
