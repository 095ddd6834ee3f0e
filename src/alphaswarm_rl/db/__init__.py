"""Database engines, migrations and redaction. Knows tables only as the migrations write them."""
