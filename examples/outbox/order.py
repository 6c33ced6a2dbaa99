"""An order and its job, in one transaction: DATABASE_URL=… python3 examples/outbox/order.py [email]"""

import os
import sys

import psycopg
from psycopg.types.json import Jsonb


def place_order(connection: psycopg.Connection, email: str) -> str:
    """Returns the idempotency key of the job."""
    with connection.transaction():
        order = connection.execute("insert into orders (email) values (%s) returning id", (email,)).fetchone()[0]
        return connection.execute(
            "select stint_outbox.enqueue(%s, %s, %s)",
            ("mail", Jsonb({"order": order, "to": email}), Jsonb({"kind": "receipt"})),
        ).fetchone()[0]


if __name__ == "__main__":
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        print(place_order(connection, sys.argv[1] if len(sys.argv) > 1 else "ada@example.com"))
