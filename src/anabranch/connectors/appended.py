"""Streams that programs and INSERT append to: what CREATE STREAM without FROM declares."""

from __future__ import annotations

from anabranch.connectors.base import Connector, Declared, Option
from anabranch.dataspace.access import Access
from anabranch.log.feed import Feed
from anabranch.log.stream import APPENDED, StreamInfo, feed_options
from anabranch.schema import StreamSchema
from anabranch.settings import PER_STREAM, SETTINGS, Settings


class Appended(Connector):
    """Rows are what is appended; its options are the settings that a stream may have its own value of."""

    name = APPENDED
    options = tuple(Option(setting.name, setting.help) for setting in SETTINGS if setting.name in PER_STREAM)
    appendable = True

    def declare(self, said: Declared, access: Access) -> StreamInfo:
        schema = StreamSchema.of(said.columns, said.time)
        feed = None if said.changes_by is None else Feed.declare(said.changes_by, said.key, schema.arrow)
        return StreamInfo(
            said.name,
            schema,
            said.skew_us,
            said.retain_us,
            options={**Settings.for_stream(said.options), **({} if feed is None else feed_options(feed))},
            idle_us=said.idle_us,
        )
