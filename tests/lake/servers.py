"""A warehouse on an S3 server and a catalogue in PostgreSQL, both real, for tests."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from alphaswarm_rl.settings import LakeSettings, Settings

_BUCKETS = itertools.count()
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server that lives as long as the test session."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def remote_lake(
    s3_server: str, new_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], LakeSettings]:
    """Makes settings of an empty lake: a bucket of its own, and a PostgreSQL database for the catalogue."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)

    def make() -> LakeSettings:
        bucket = f"lake-{next(_BUCKETS)}"
        boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1").create_bucket(Bucket=bucket)
        return LakeSettings(
            catalog_url=new_postgres(),
            warehouse=f"s3://{bucket}/some/prefix",
            s3_endpoint=s3_server,
            s3_region="us-east-1",
        )

    return make


@pytest.fixture
def remote_settings(remote_lake: Callable[[], LakeSettings], tmp_path: Path) -> Settings:
    """Settings with such a lake."""
    return Settings(home=tmp_path / "home", lake=remote_lake())


def as_flags(lake: LakeSettings) -> tuple[str, ...]:
    """The same as flags of `rl`."""
    return (
        *("--lake-catalog-url", str(lake.catalog_url), "--lake-warehouse", str(lake.warehouse)),
        *("--lake-s3-endpoint", str(lake.s3_endpoint), "--lake-s3-region", str(lake.s3_region)),
    )
