import boto3
import pytest

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.identity import adopt
from alphaswarm_rl.settings import LakeSettings, Settings
from tests.lake.servers import CREDENTIALS, remote_lake, remote_settings, s3_server
from tests.postgres import new_postgres, postgres_server

__all__ = ["new_postgres", "postgres_server", "remote_lake", "remote_settings", "s3_server"]


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as ledger:
        adopt(ledger.engine, settings, "the tables of these tests have steps of runs that no ledger knows")
        yield ledger


@pytest.fixture
def lake(settings):
    with Lake(settings) as lake:
        yield lake


@pytest.fixture
def s3_lake(s3_server, tmp_path, monkeypatch):
    """A warehouse on S3 beside a catalogue in the home."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1").create_bucket(Bucket="bucket")
    remote = LakeSettings(warehouse=f"s3://bucket/{tmp_path.name}", s3_endpoint=s3_server, s3_region="us-east-1")
    with Lake(Settings(home=tmp_path / "home", lake=remote)) as lake:
        yield lake
