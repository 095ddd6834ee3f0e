"""A run as four plain files, and the analysis of the docs on them."""

import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from alphaswarm_rl.core.errors import LakeError, OptionError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.export import export_run
from alphaswarm_rl.lake.tables import KINDS, arrow_schema
from tests.docs.pages import DOCS, blocks
from tests.lake.rows import RUN, rows, spool

OTHER = RUN.replace("1", "0")

#: Python's own modules, DuckDB, PyArrow and what they stand on; whatever else is asked for is not there.
ALONE = """\
import sys
ALLOWED = {{*sys.stdlib_module_names, "duckdb", "_duckdb", "pyarrow", "numpy"}}

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Nothing())
try:
    import alphaswarm_rl
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the package must not be importable here")
{snippet}
assert per_episode.num_rows == {episodes}, per_episode
assert equity.num_rows == {steps}, equity
assert terms.column("share").to_pylist() == [0.5] * 4, terms
assert max(equity.column("below_its_peak").to_pylist()) == 0.0, equity
print("DONE")
"""


@pytest.fixture
def lake(settings):
    with Lake(settings) as lake:
        for number, env_idx in enumerate((1, 0)):
            spool(lake, RUN, number=number, env_idx=env_idx, episodes=2)
        spool(lake, RUN, phase="evaluate", episodes=2)
        spool(lake, OTHER)
        deliver_all(lake, lambda segments: None)
        yield lake


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_the_rows_of_the_run_in_order(lake, tmp_path, kind):
    counts = export_run(lake, RUN, tmp_path / "new" / "folder", {})
    found = pq.read_table(tmp_path / "new" / "folder" / f"{kind}.parquet")
    expected = [rows(kind, phase="evaluate", episodes=2), *(rows(kind, env_idx=idx, episodes=2) for idx in (0, 1))]
    assert counts[kind] == found.num_rows == sum(table.num_rows for table in expected)
    # What the run's row knows comes with the view.
    named = {"action_logs": ["symbol"], "positions": ["stages"]}
    assert found.schema.names == [*arrow_schema(kind).names, *named.get(kind, [])]
    keys = [tuple(row.values()) for row in found.select(["phase", "env_idx", "episode", "step"]).to_pylist()]
    assert keys == sorted(keys)
    assert set(found["run_id"].to_pylist()) == {RUN}
    assert found.schema.field("ts").type == arrow_schema(kind).field("ts").type


def test_there_is_nothing_but_the_six_files(lake, tmp_path):
    export_run(lake, RUN, tmp_path / "out", {})
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{kind}.parquet" for kind in KINDS)


def test_kinds_without_rows_are_empty_files(settings, tmp_path):
    with Lake(settings) as lake:
        spool(lake, RUN, kinds=["trajectories"])
        deliver_all(lake, lambda segments: None)
        counts = export_run(lake, RUN, tmp_path / "out", {})
    assert counts == {"trajectories": 3, **dict.fromkeys(KINDS[1:], 0)}
    assert pq.read_table(tmp_path / "out" / "equity_curves.parquet").schema.names == arrow_schema("equity_curves").names


def test_nothing_is_overwritten(lake, tmp_path):
    (tmp_path / "action_logs.parquet").write_text("mine")
    with pytest.raises(OptionError, match=r"action_logs\.parquet"):
        export_run(lake, RUN, tmp_path, {})
    assert (tmp_path / "action_logs.parquet").read_text() == "mine"
    assert not (tmp_path / "trajectories.parquet").exists()


def test_a_folder_that_cannot_be_made_is_an_error(lake, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="cannot be used"):
        export_run(lake, RUN, tmp_path / "file" / "below", {})


def test_a_damaged_file_is_an_error_and_leaves_nothing(lake, tmp_path):
    for file in lake.files(lake.identifier("reward_decomposition"), RUN):
        lake.path(file.location).write_bytes(b"not Parquet")
    with pytest.raises(LakeError, match="rl lake verify"):
        export_run(lake, RUN, tmp_path / "out", {})
    assert list((tmp_path / "out").iterdir()) == []


def test_the_analysis_of_the_docs_needs_duckdb_and_pyarrow_alone(lake, tmp_path):
    export_run(lake, RUN, tmp_path / "steps", {})
    snippet = [block.text for block in blocks(DOCS / "lake-reading.md") if block.info == "python"][-1]
    script = ALONE.format(snippet=snippet, episodes=6, steps=18)
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("DONE\n")
    assert "mean_action" in done.stdout
