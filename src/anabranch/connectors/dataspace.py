"""Streams whose rows are a data set of a data server. Flight takes a while to load: only those who ask for rows do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.connectors.base import Connector, Declared, Option
from anabranch.dataspace.access import Access
from anabranch.errors import AnabranchError, CatalogError
from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

_LOOK_SECONDS = 1.0


class DataSpace(Connector):
    """Rows stay on the server and are fetched as they are read; without columns, they are the data set's."""

    name = "dataspace"
    options = (
        Option("url", "Where the server listens: grpc://host:port, or grpc+tls://host:port.", needed=True),
        Option("dataset", "Which of its data sets.", needed=True),
        Option("token", "What the server wants to hear from who may ask.", secret=True),
        Option("token_file", "A file that holds it, which is read whenever the server is asked."),
        Option("tls_root", "A file with the certificate to trust."),
    )
    example = "url 'grpc://host:port', dataset 'name'"
    said = True
    asks_for_columns = True
    logged = False
    place = "a data server"

    def declare(self, said: Declared, access: Access) -> StreamInfo:
        from anabranch.dataspace.declaring import declare

        self.check_options(said.name, said.options)
        if "token" in said.options and "token_file" in said.options:
            raise CatalogError("OPTIONS_CONTRADICT", "a token and a token_file are given", hint="leave one out")
        schema, options = declare(said.columns, said.time, said.options, access)
        return StreamInfo(said.name, schema, origin=self.name, options=options)

    def open(self, info: StreamInfo, storage: Storage, access: Access | None, *, history: bool) -> Reader:
        from anabranch.dataspace.remote_reader import RemoteReader

        return RemoteReader(info, access)

    def look(self, info: StreamInfo, storage: Storage, access: Access | None) -> End | None:
        from anabranch.dataspace.remote_reader import RemoteReader

        try:
            return RemoteReader(info, access, _LOOK_SECONDS).end()
        except AnabranchError:
            return None

    def filled_by(self, info: StreamInfo) -> str:
        return f"{self.name} {info.options.get('url')}/{info.options.get('dataset')}"

    def note(self, info: StreamInfo) -> str:
        return f"from {self.filled_by(info)}"
