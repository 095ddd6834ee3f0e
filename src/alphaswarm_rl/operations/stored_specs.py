"""The specs that the ledger holds, and their immutable versions."""

from __future__ import annotations

from alphaswarm_rl.ledger import FamilyCount, Ledger, SpecRow, VersionRow
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import NO_ARGUMENTS, NoArguments, operation
from alphaswarm_rl.settings import Settings


class SpecList(Data, only="specs"):
    """The specs of the ledger."""

    specs: tuple[SpecRow, ...]


class ListVersions(Data):
    """The spec whose versions are listed, by its slug."""

    slug: str


class VersionList(Data, only="versions"):
    """The versions of a spec, the oldest first."""

    versions: tuple[VersionRow, ...]


class CountTrials(Data):
    """The spec whose trials are counted, by its slug."""

    slug: str


class TrialCount(Data, only="count"):
    """How often a spec was trained, and how many configurations of it were tried."""

    count: FamilyCount


@operation("specs.list")
def list_specs(settings: Settings, request: NoArguments = NO_ARGUMENTS) -> SpecList:
    """The specs in the ledger."""
    with Ledger.open(settings) as ledger:
        return SpecList(tuple(ledger.specs()))


@operation("specs.versions")
def list_versions(settings: Settings, request: ListVersions) -> VersionList:
    """The versions of one spec; an unknown slug is a LedgerError."""
    with Ledger.open(settings) as ledger:
        return VersionList(tuple(ledger.versions(request.slug)))


@operation("specs.trials")
def count_trials(settings: Settings, request: CountTrials) -> TrialCount:
    """How many trials there are of one spec; an unknown slug is a LedgerError."""
    with Ledger.open(settings) as ledger:
        ledger.versions(request.slug)
        return TrialCount(ledger.count_family(request.slug))
