"""The history of the database's schema, for Alembic. Run by `app.migrate`, which hands `env.py` its connection."""
