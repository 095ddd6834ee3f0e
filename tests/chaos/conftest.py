from tests.lake.servers import remote_lake, s3_server
from tests.postgres import new_postgres, postgres_server

__all__ = ["new_postgres", "postgres_server", "remote_lake", "s3_server"]
