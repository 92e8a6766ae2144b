-- Whoever has a lease, and until when by the clock of the database. The table may be there since sessions had tables of their own.
CREATE TABLE IF NOT EXISTS leases (
    name    text COLLATE "C" PRIMARY KEY,
    token   bigint NOT NULL, -- of the holder
    expires timestamptz NOT NULL
) WITH (fillfactor = 50);
