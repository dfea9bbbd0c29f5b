"""Members of hosts: standing queries that have no files of their own; the lists of their hosts tell of them.

    <root>/hosts/<name>                   that a standing query is a host
    <root>/streams/<name>.members/        its list of members (`operators.together.roster`)
    <root>/streams/<name>/                the log of all their answers (`log.slices`)

So making, finding and dropping one among ten thousand costs what one costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.catalog.query_info import QueryInfo
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage, decoded_name, encoded_name
from anabranch.log.stream import ANSWERS, FIRST, HOST, INFO, MEMBER, SINCE, StreamInfo
from anabranch.operators.together.changes import LEAVING, RUNNING
from anabranch.operators.together.roster import Entry, Roster, roster_of
from anabranch.schema import StreamSchema

if TYPE_CHECKING:
    from anabranch.catalog.catalog import Catalog

MEMBERS = "members"
"""The origin of a stream that lists the members of a host, which owns it."""
_PLACE = "hosts"


def list_name(host: str) -> str:
    """What the list of a host's members is called."""
    return f"{host}.{MEMBERS}"


class Hosted(NamedTuple):
    """A member, and its host."""

    host: str
    entry: Entry

    @property
    def info(self) -> QueryInfo:
        return QueryInfo.from_json({**self.entry.query, "host": self.host, "running": self.entry.state in RUNNING})


class HostedQueries:
    """The members of all hosts of a database."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._marks = catalog.root.child(_PLACE)
        self._readers: dict[str, StreamReader] = {}

    # -- hosts -------------------------------------------------------------------------------------

    def hosts(self) -> list[str]:
        return [decoded_name(name) for name in sorted(self._marks.files())]

    def is_host(self, name: str) -> bool:
        return self._marks.exists(encoded_name(name.lower()))

    def note_host(self, name: str) -> None:
        self._marks.make()
        self._marks.write_json(encoded_name(name.lower()), {"host": name})

    def forget_host(self, name: str) -> None:
        self._marks.delete(encoded_name(name.lower()))
        self._readers.pop(name.lower(), None)

    def roster(self, host: str) -> Roster:
        """Who is a member of a host now."""
        reader = self._reader(host)
        return roster_of(reader, reader.end().row)

    def _reader(self, host: str) -> StreamReader:
        storage = self._catalog.stream_storage(list_name(host))
        known = self._readers.get(host.lower())
        if known is None or known.was_dropped():
            known = self._readers[host.lower()] = StreamReader(storage)
        return known

    # -- members -----------------------------------------------------------------------------------

    def find(self, name: str) -> Hosted | None:
        """The member of a name; of one that moves, where it is now."""
        left = None
        for host in self.hosts():
            entry = self.roster(host).by_name.get(name.lower())
            if entry is not None and entry.state != LEAVING:
                return Hosted(host, entry)
            if entry is not None:
                left = Hosted(host, entry)
        return None if left is None or self._stands_alone(left) else left

    def all(self) -> Iterator[Hosted]:
        for host in self.hosts():
            for entry in self.roster(host).by_name.values():
                if entry.state != LEAVING or self.find(entry.name) == (host, entry):
                    yield Hosted(host, entry)

    def leaving(self) -> Iterator[Hosted]:
        """Those that go on elsewhere, and may have arrived there."""
        for host in self.hosts():
            for entry in list(self.roster(host).leaving.values()):
                yield Hosted(host, entry)

    def member_of(self, host: str, name: str, id: str) -> Entry | None:
        """A certain query, as a member of a host."""
        entry = self.roster(host).by_name.get(name.lower()) if self.is_host(host) else None
        return entry if entry is not None and entry.query["id"] == id else None

    def _stands_alone(self, left: Hosted) -> bool:
        """Whether a query that has left a host stands alone now."""
        info = self._catalog.query_alone(left.entry.name)
        return info is not None and info.id == left.entry.query["id"]

    def answers(self, found: Hosted) -> StreamInfo:
        """The stream of a member's answers."""
        data: Mapping[str, Any] = found.entry.data
        place = {
            HOST: encoded_name(found.host),
            MEMBER: str(found.entry.number),
            SINCE: str(data["since"]),
            FIRST: str(found.entry.first),
        }
        schema = StreamSchema.from_json(data["plan"]["schema"])
        query = data["query"]
        return StreamInfo(
            query["name"],
            schema,
            retain_us=found.entry.retain_us,
            origin=ANSWERS,
            owner=query["name"],
            options=place,
            id=data.get("answers", query["id"]),
        )

    def declare(self, found: Hosted, storage: Storage) -> StreamInfo:
        """The same, where others find it who know it by its directory alone."""
        info = self.answers(found)
        declared = storage.read_json(INFO)
        if not isinstance(declared, dict) or declared.get("id") != info.id:
            storage.delete_all()
            info.create(storage, logged=False)
        elif declared["options"] != info.options:
            info.save(storage)  # it has moved
        return info
