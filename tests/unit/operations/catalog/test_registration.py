"""Registration at moto's Glue over HTTP; and by a stub where moto differs, since it ignores VersionId."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from kinesis_assets.errors import CatalogFailed
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.settings import ClientSettings, ReadTiming
from kinesis_assets.operations.catalog import glue_catalog
from kinesis_assets.operations.catalog.glue_catalog import GlueCatalog
from kinesis_assets.operations.catalog.registration import Done, Registrar, register
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.run_files.states import CATALOG_FILE
from support.catalog_tables import Database, entry_of

pytestmark = pytest.mark.slow  # starts moto

FIRST, SECOND = {"id": "long"}, {"id": "long", "amount": "double"}
AGAIN = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def database(moto):
    return Database(moto)


@pytest.fixture
def catalog(moto):
    return GlueCatalog(ClientSettings(endpoint_url=moto))


def test_a_table_is_registered_and_again_when_its_columns_have_changed(catalog, database):
    assert register(catalog, entry_of(FIRST, database=database.name)) is Done.CREATED
    assert register(catalog, entry_of(FIRST, database=database.name, version=5)) is Done.NOTHING
    assert database.entry("orders")["VersionId"] == "1"
    assert register(catalog, entry_of(SECOND, database=database.name, version=6)) is Done.REPLACED
    assert database.columns("orders") == {"id": "bigint", "amount": "double"}
    assert register(catalog, entry_of(FIRST, database=database.name, version=4)) is Done.NOTHING
    assert database.columns("orders") == {"id": "bigint", "amount": "double"}


def test_a_table_that_was_created_again_replaces_its_entry(catalog, database):
    register(catalog, entry_of(SECOND, database=database.name, version=40))
    again = entry_of(FIRST, database=database.name, table_id=AGAIN)
    assert register(catalog, again) is Done.REPLACED
    assert database.columns("orders") == {"id": "bigint"}


def test_the_entry_of_a_crawler_is_replaced_only_by_force(catalog, database):
    database.create("orders", "s3://lake/orders/", UPDATED_BY_CRAWLER="nightly")
    entry = entry_of(FIRST, database=database.name)
    with pytest.raises(CatalogFailed, match=r"the crawler nightly made; .* left as it is\. Use another data"):
        register(catalog, entry)
    assert database.columns("orders") == {"col": "array<string>"}
    assert register(catalog, entry, force=True) is Done.REPLACED
    assert database.columns("orders") == {"id": "bigint"}
    assert "UPDATED_BY_CRAWLER" not in database.entry("orders")["Parameters"]


def test_an_entry_that_somebody_has_changed_is_replaced_only_by_force(catalog, database):
    register(catalog, entry_of(FIRST, database=database.name))
    storage = database.entry("orders")["StorageDescriptor"] | {"Columns": [{"Name": "id", "Type": "string"}]}
    database.change("orders", StorageDescriptor=storage)
    with pytest.raises(CatalogFailed, match="somebody has changed the columns"):
        register(catalog, entry_of(SECOND, database=database.name, version=1))
    assert database.columns("orders") == {"id": "string"}
    assert register(catalog, entry_of(SECOND, database=database.name, version=1), force=True) is Done.REPLACED
    assert database.columns("orders") == {"id": "bigint", "amount": "double"}


def test_the_entry_of_a_later_version_is_replaced_only_by_force(catalog, database):
    """The table was copied back from a backup, which it does not show."""
    register(catalog, entry_of(SECOND, database=database.name, version=40))
    restored = entry_of(FIRST, database=database.name, version=30)
    assert register(catalog, restored) is Done.NOTHING
    assert register(catalog, restored, force=True) is Done.REPLACED
    assert database.columns("orders") == {"id": "bigint"}
    assert register(catalog, restored, force=True) is Done.NOTHING


def test_the_entry_of_another_table_is_left_as_it_is(catalog, database):
    register(catalog, entry_of(FIRST, database=database.name))
    other = entry_of(FIRST, database=database.name, uri="s3://lake/others", table_id=AGAIN)
    with pytest.raises(CatalogFailed, match="the entry is that of another table, at s3://lake/orders/"):
        register(catalog, other)


def test_a_database_that_does_not_exist_is_not_created(catalog):
    with pytest.raises(CatalogFailed, match=r"CreateTable failed .*aws glue create-database .* Name=nowhere"):
        register(catalog, entry_of(FIRST, database="nowhere"))


def test_the_entries_of_a_database_that_this_package_made_are_listed(catalog, database):
    database.create("theirs", "s3://lake/theirs/")
    register(catalog, entry_of(FIRST, database=database.name))
    assert [found["Name"] for found in catalog.marked(database.name)] == ["orders"]


def test_a_service_that_cannot_be_reached_fails_after_one_short_attempt():
    timing = ReadTiming(connect_timeout=0.2, read_timeout=0.2)
    catalog = GlueCatalog(ClientSettings("eu-central-1", "http://127.0.0.1:9", timing=timing))
    with pytest.raises(CatalogFailed, match="GetTable failed with EndpointConnectionError") as failed:
        register(catalog, entry_of(FIRST))
    assert "Check the network, and the region of the setting catalog" in str(failed.value)


_KILLED = """
import os, signal, sys
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.operations.catalog import registration
from kinesis_assets.operations.catalog.glue_catalog import GlueCatalog
from kinesis_assets.table.raw_table import PositionedTable
from support.catalog_tables import entry_of

endpoint, folder, database = sys.argv[1:]
registration.write_catalog_state = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
catalog = GlueCatalog(ClientSettings("us-east-1", endpoint))
entry = entry_of({"id": "long"}, database=database)
registration.register_and_record(catalog, PositionedTable(folder), entry)
"""


def test_a_process_that_is_killed_before_it_records_a_registration_has_registered(
    moto, catalog, database, tmp_path
):
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, moto, tmp_path, database.name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / CATALOG_FILE).exists()
    table = PositionedTable(str(tmp_path))

    def keep(columns, version):
        entry = entry_of(columns, database=database.name, version=version)
        registrar = Registrar(MACHINE_CLOCK)
        return registrar.keep(table, "lake.orders", lambda: entry, lambda: catalog).state

    state = keep(FIRST, 0)
    assert (state.error, state.content) == (None, entry_of(FIRST, database=database.name).content)
    assert database.entry("orders")["VersionId"] == "1"  # nothing was replaced
    assert keep(SECOND, 1).error is None
    assert database.columns("orders") == {"id": "bigint", "amount": "double"}


class StubbedGlue:
    """Glue with one entry, which compares VersionId as AWS documents it: moto does not.

    Attributes:
        meanwhile: What others do after the entry was read, once.
    """

    def __init__(self, entry=None):
        self.entry = None if entry is None else entry.table_input() | {"VersionId": "1"}
        self.meanwhile = None
        self.versions = []

    def get_table(self, **_):
        found, meanwhile = self.entry, self.meanwhile
        self.meanwhile = None
        if meanwhile is not None:
            meanwhile()
        if found is None:
            raise error_of("EntityNotFoundException")
        return {"Table": found}

    def create_table(self, **request):
        if self.entry is not None:
            raise error_of("AlreadyExistsException")
        self.entry = request["TableInput"] | {"VersionId": "1"}

    def update_table(self, **request):
        self.versions.append(request["VersionId"])
        if request["VersionId"] != self.entry["VersionId"]:
            raise error_of("ConcurrentModificationException")
        self.entry = request["TableInput"] | {"VersionId": str(int(request["VersionId"]) + 1)}


def error_of(code, message="why"):
    return ClientError({"Error": {"Code": code, "Message": message}}, "UpdateTable")


@pytest.fixture
def stubbed(monkeypatch):
    """Return a catalog whose client is a stub."""

    def stubbed(client):
        monkeypatch.setattr(glue_catalog, "sdk_client", lambda *_: client)
        return GlueCatalog(ClientSettings())

    return stubbed


def test_of_two_registrations_at_once_the_one_of_the_later_version_wins(stubbed):
    glue = StubbedGlue(entry_of(FIRST))
    catalog = stubbed(glue)
    third = FIRST | {"amount": "double", "note": "string"}
    glue.meanwhile = lambda: register(catalog, entry_of(third, version=2))
    assert register(catalog, entry_of(SECOND, version=1)) is Done.NOTHING
    assert glue.versions == ["1", "1"]
    assert glue.entry["Parameters"]["kinesis_assets.version"] == "2"

    glue = StubbedGlue(entry_of(FIRST))
    catalog = stubbed(glue)
    glue.meanwhile = lambda: register(catalog, entry_of(SECOND, version=1))
    assert register(catalog, entry_of(third, version=2)) is Done.REPLACED
    assert glue.versions == ["1", "1", "2"]
    assert glue.entry["Parameters"]["kinesis_assets.version"] == "2"


def test_two_registrations_of_a_new_table_make_one_entry(stubbed):
    glue = StubbedGlue()
    catalog = stubbed(glue)
    glue.meanwhile = lambda: register(catalog, entry_of(SECOND, version=1))
    assert register(catalog, entry_of(FIRST)) is Done.NOTHING
    assert glue.entry["Parameters"]["kinesis_assets.version"] == "1"


def test_what_somebody_changes_in_between_is_not_lost(stubbed):
    glue = StubbedGlue(entry_of(FIRST))

    def change():
        storage = glue.entry["StorageDescriptor"] | {"Location": "s3://theirs/"}
        glue.entry = glue.entry | {"StorageDescriptor": storage, "VersionId": "2"}

    glue.meanwhile = change
    with pytest.raises(CatalogFailed, match="somebody has changed"):
        register(stubbed(glue), entry_of(SECOND, version=1))
    assert glue.entry["StorageDescriptor"]["Location"] == "s3://theirs/"


def test_a_registration_gives_up_if_others_change_the_entry_again_and_again(stubbed):
    glue = SimpleNamespace(
        get_table=lambda **_: {"Table": entry_of(FIRST).table_input() | {"VersionId": "1"}},
        update_table=lambda **_: (_ for _ in ()).throw(error_of("ConcurrentModificationException")),
    )
    with pytest.raises(CatalogFailed, match="others change the entry: it was not replaced in 3 attempts"):
        register(stubbed(glue), entry_of(SECOND, version=1))


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        (
            "User is not authorized to perform: glue:GetTable",
            r"Allow glue:GetTable on the catalog, on the database lake and on its tables",
        ),
        (
            "Insufficient Lake Formation permission(s): Required Describe on orders",
            r"Grant the caller CREATE_TABLE and DESCRIBE on the database lake, ALTER and DESCRIBE on its",
        ),
    ],
)
def test_a_denied_call_says_what_to_grant(stubbed, message, advice):
    def denied(**_):
        raise error_of("AccessDeniedException", message)

    with pytest.raises(CatalogFailed, match=advice):
        register(stubbed(SimpleNamespace(get_table=denied)), entry_of(FIRST))


class StandingClock:
    """A clock that moves only when a test moves it. Waits are real."""

    wait = staticmethod(threading.Event.wait)

    def __init__(self):
        self.seconds = 1_800_000_000.0

    def time(self):
        return self.seconds

    monotonic = time


class Tries:
    """Registrations of a table whose catalog fails.

    Attributes:
        opened: The times at which the catalog was opened.
        news: Whether each state was news.
        failure: What opening it raises.
    """

    def __init__(self, folder, clock):
        self.table = PositionedTable(str(folder))
        self.clock = clock
        self.opened = []
        self.news = []
        self.failure = CatalogFailed("GetTable failed")
        self.columns = FIRST

    def open_catalog(self):
        self.opened.append(self.clock.time())
        if self.failure is not None:
            raise self.failure
        return self.catalog

    def keep(self, registrar=None):
        registrar = registrar or Registrar(self.clock)
        state, is_news = registrar.keep(
            self.table, "lake.orders", lambda: entry_of(self.columns), self.open_catalog
        )
        self.news.append(is_news)
        return state


@pytest.fixture
def tries(tmp_path, stubbed):
    """Registrations at a stub."""
    tries = Tries(tmp_path, StandingClock())
    tries.glue = StubbedGlue()
    tries.catalog = stubbed(tries.glue)
    return tries


def test_a_registered_table_is_compared_with_its_entry_only_at_times(tries):
    tries.failure = None
    state = tries.keep()
    assert (state.failed, state.content) == (0, entry_of(FIRST).content)
    assert tries.keep() == state
    tries.clock.seconds += 599
    tries.keep()
    assert len(tries.opened) == 1
    tries.clock.seconds += 1
    tries.keep()
    assert len(tries.opened) == 2
    tries.columns = SECOND
    assert tries.keep().content == entry_of(SECOND).content
    assert len(tries.opened) == 3


def test_a_failed_registration_is_repeated_later_and_later(tries):
    assert tries.keep().error == "GetTable failed"
    for wait, failed in ((30, 2), (60, 3), (120, 4)):
        tries.clock.seconds += wait - 1
        assert tries.keep().failed == failed - 1
        tries.clock.seconds += 1
        assert tries.keep().failed == failed
    tries.failure = None
    tries.clock.seconds += 600
    assert tries.keep().failed == 0
    assert tries.news == [True, *[False] * 6, True]


def test_a_column_that_is_refused_needs_no_call(tries):
    tries.columns = {"a": "variant"}
    assert "it has the type variant" in tries.keep().error
    tries.columns = FIRST
    tries.clock.seconds += 30
    tries.failure = None
    assert tries.keep().failed == 0


def test_whatever_a_registration_raises_is_its_state(tries):
    tries.failure = ZeroDivisionError("by zero")
    assert tries.keep().error == "ZeroDivisionError: by zero"


def test_a_service_that_does_not_answer_does_not_delay_the_caller(tries):
    answered = threading.Event()
    tries.open_catalog = answered.wait
    registrar = Registrar(tries.clock, seconds=0.0)
    assert tries.keep(registrar).at is None  # no time is left, so it was not tried
    registrar = Registrar(Patience(tries.clock), seconds=5.0)
    assert "did not answer in time" in tries.keep(registrar).error
    tries.clock.seconds += 3600
    assert tries.keep(registrar).failed == 1  # the other tables of the tick are not tried
    answered.set()


class Patience:
    """A clock whose waits end at once, with all of their time gone."""

    def __init__(self, clock):
        self.time, self._gone = clock.time, 0.0

    def monotonic(self):
        return self._gone

    def wait(self, event, seconds):
        del event
        self._gone += seconds


def test_a_state_that_cannot_be_read_or_written_does_no_harm(tries):
    tries.failure = None
    folder = Path(tries.table.uri, CATALOG_FILE)
    folder.mkdir(parents=True)
    assert "its state cannot be read" in tries.keep().error
    folder.rmdir()
    folder.write_text("{")
    assert tries.keep().failed == 0
