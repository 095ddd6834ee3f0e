from tests.postgres import database_url, new_database, new_postgres, postgres_server

__all__ = ["database_url", "new_database", "new_postgres", "postgres_server"]
