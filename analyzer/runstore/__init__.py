"""A store: what many runs did, as a dataset of Parquet files (docs/store.md).

    a run --rows.py--> tables (columns.py) --parts.py--> STORE/data/<access>/day=YYYY-MM-DD/<part>/<table>.parquet
    a run's events --events.py--> events.parquet of its part, where asked for; --copies.py--> those that are believed
    parts --compaction.py--> fewer parts; --store.py--> datasets; --sql.py--> views for SQL;
    --joined_runs.py--> versions of files over all runs; --lineage.py--> the history of a file, and what is stale

Invariants: a part is published by one rename and never changed. An entry (a run as it was indexed once) counts once,
whatever indexers and compactions do at once or where they are killed, and of a run's entries the newest one counts.
"""
