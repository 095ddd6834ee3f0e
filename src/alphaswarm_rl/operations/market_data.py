"""Market data before anything is trained on it: what there is, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.files import replace_whole
from alphaswarm_rl.core.hashing import plain_fields
from alphaswarm_rl.core.refs import ComponentRef, build_from_config
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.data_pipelines.data_check import check_data
from alphaswarm_rl.data_pipelines.files import existing_file
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.market.data_report import AssetCoverage, DataReport, DataSummary
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.data_picture import picture_of
from alphaswarm_rl.operations.operation import LazySettings, RequestError, operation
from alphaswarm_rl.operations.references import spec_of

#: Endings of files of bars, and the pipelines that read them.
_FORMS = {".csv": "csv", ".csv.gz": "csv", ".parquet": "parquet"}


class NamedData(Data):
    """Bars by a file of them, or by a spec.

    Attributes:
        file_or_spec: A CSV or Parquet file, a spec, a preset or a run.
        columns: Of a file: its columns by what they are, each as MEANING=NAME; none means by name.
        layout: Of a file: one row per bar and asset, or one row per moment.
        wide_columns: Of a wide file: how it calls a column of an asset; null means closes alone, a column per asset.
        asset: Of a file: its only asset, where no column names it.
        separator: Of a CSV file: what separates its cells; null means commas.
        decimal: Of a CSV file: its decimal sign; null means a point.
    """

    file_or_spec: str
    columns: tuple[str, ...] = ()
    layout: Literal["long", "wide"] = "long"
    wide_columns: str | None = None
    asset: str | None = None
    separator: Literal[",", ";", "|", "tab"] | None = None
    decimal: Literal[".", ","] | None = None

    @property
    def reader(self) -> str | None:
        """The pipeline that reads such a file; None for a spec."""
        name = self.file_or_spec.lower()
        return next((form for ending, form in _FORMS.items() if name.endswith(ending)), None)

    @property
    def kwargs(self) -> JsonObject:
        """What is said of a file beside its path."""
        named = [column.partition("=") for column in self.columns]
        if not all(meaning and equals and name for meaning, equals, name in named):
            raise RequestError("columns: each is MEANING=NAME, such as close=px")
        given: JsonObject = {"layout": self.layout} if self.layout == "wide" else {}
        columns = {meaning: name for meaning, _, name in named}
        names = ("wide_columns", "asset", "separator", "decimal")
        more = {"columns": columns or None, **{name: getattr(self, name) for name in names}}
        return given | {name: value for name, value in more.items() if value is not None}


class ShowData(NamedData):
    """Which bars are shown, and where a picture of them goes.

    Attributes:
        file_or_spec: A CSV or Parquet file, a spec, a preset or a run.
        columns: Of a file: its columns by what they are, each as MEANING=NAME; none means by name.
        layout: Of a file: one row per bar and asset, or one row per moment.
        wide_columns: Of a wide file: how it calls a column of an asset; null means closes alone, a column per asset.
        asset: Of a file: its only asset, where no column names it.
        separator: Of a CSV file: what separates its cells; null means commas.
        decimal: Of a CSV file: its decimal sign; null means a point.
        picture: The SVG file that a picture is written to; null means none.
    """

    picture: Path | None = None


class CheckedData(Data, merged="summary"):
    """What is wrong with bars, and what they are.

    Attributes:
        source: The file or the spec.
        clean: Whether nothing is wrong, as far as can be seen.
        summary: What there is, and what is wrong with it.
    """

    source: str
    clean: bool
    summary: DataSummary


class ShownData(Data, merged="summary", unless_null=("picture",)):
    """What there is of bars.

    Attributes:
        source: The file or the spec.
        pipeline: The data pipeline that reads them, as a spec names it.
        summary: What there is, and what is wrong with it.
        coverage: What there is of each asset.
        picture: The file that the picture was written to.
    """

    source: str
    pipeline: JsonObject
    summary: DataSummary
    coverage: tuple[AssetCoverage, ...]
    picture: str | None = None


@operation("data.check")
def check_market_data(settings: LazySettings, request: NamedData) -> CheckedData:
    """Names everything that is wrong with bars: errors, with which no run begins, and what only looks wrong."""
    report, _ = _looked_at(settings, request)
    return CheckedData(request.file_or_spec, not report.summary.findings, report.summary)


@operation("data.show", changes=True)
def show_market_data(settings: LazySettings, request: ShowData) -> ShownData:
    """What there is of bars: columns, span, calendar, and each asset's own; with a picture, where one is asked for."""
    report, pipeline = _looked_at(settings, request)
    if request.picture is not None:
        replace_whole(request.picture, picture_of(report, title=request.file_or_spec).encode())
    drawn = None if request.picture is None else str(request.picture)
    return ShownData(request.file_or_spec, pipeline, report.summary, report.coverage, drawn)


def _looked_at(settings: LazySettings, request: NamedData) -> tuple[DataReport, JsonObject]:
    """The report of bars, and the pipeline that reads them as a spec names it."""
    if request.reader is not None:
        file = Path(request.file_or_spec).expanduser()
        reference = {"class": request.reader, "kwargs": {"path": file.name, **request.kwargs}}
        existing_file(file.parent, file.name)
        pipeline = build_from_config(reference, kind="data_pipeline")
        return check_data(pipeline, DataRequest(root=file.parent)), reference
    if request.kwargs:
        why = f"they are of a file, and {request.file_or_spec!r} is none: its name ends in {', '.join(_FORMS)}"
        raise RequestError(f"{', '.join(request.kwargs)}: {why}")
    from alphaswarm_rl.inference.builder import lake_of  # here, for a file alone needs nothing of it

    spec = spec_of(settings, request.file_or_spec)
    if spec.data_pipeline is None:
        raise SpecError(
            f"the spec {spec.slug!r}",
            "it has no data_pipeline to look at",
            "Name a spec that has one, or a file of bars.",
        )
    found = settings()
    data_request = DataRequest(
        seed=derived_seed(spec.seed, "data"),
        root=found.data_path,
        symbols=tuple(spec.universe.symbols),
        lake=lake_of(found),
    )
    return check_data(bars_pipeline(spec.data_pipeline), data_request), plain_fields(spec.data_pipeline)


def bars_pipeline(reference: ComponentRef) -> PanelPipeline:
    """The data pipeline of that reference; one that gives no bars is refused."""
    pipeline = reference.build()
    if not isinstance(pipeline, PanelPipeline):
        why = "it gives no bars to look at"
        raise SpecError(f"data_pipeline {pipeline.rl_alias!r}", why, "Name a pipeline of bars, such as csv.")
    return pipeline
