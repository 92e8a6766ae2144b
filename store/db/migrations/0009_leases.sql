-- What only one replica may do. A row is good as long as its replica is alive.
CREATE TABLE leases (
	name TEXT PRIMARY KEY,
	replica TEXT NOT NULL
);
CREATE INDEX leases_by_replica ON leases (replica);
