package config

import "time"

// EnginePostgres is the engine of replicas that share a PostgreSQL database.
const EnginePostgres = "postgres"

// SharedPostgres is the database of the engine postgres.
type SharedPostgres struct {
	Postgres
	Grace time.Duration
}

// engines are the values of the setting engine.
var engines = []string{EngineLocal, EngineNATS, EnginePostgres}

var postgresSettings = []Setting{
	{
		Key: "postgres.url", flag: "postgres-url", Secret: true,
		Help: "database that replicas share, such as postgres://user:password@host:5432/database",
	},
	{Key: "postgres.schema", Default: "lingserve", required: true, Help: "schema; different for each installation in a database"},
	{Key: "postgres.connections", Default: "16", Min: "2", Help: "connections to the database"},
	{Key: "postgres.grace", Default: "1m", Min: "1ms", Help: "how long a replica keeps its sessions while disconnected from PostgreSQL"},
}

// postgres checks the settings of the engine postgres.
func (e *engineCheck) postgres() {
	if e.c.Postgres.URL == "" {
		e.wrong("engine", "engine postgres needs postgres.url, such as postgres://user:password@host:5432/database")
	}
	if e.c.Tape.Store != "postgres" {
		e.wrong("tape.store", "replicas share sessions in PostgreSQL with engine postgres; remove this setting")
	}
}

// finishPostgres stores sessions in the database of the engine, unless another one is set.
func (l *loader) finishPostgres() {
	c := l.c
	if c.Engine != EnginePostgres || l.c.sources["tape.store"].Kind != Default {
		return
	}
	c.Tape.Store = "postgres"
	c.sources["tape.store"] = Source{Default, "since engine is postgres"}
	if c.Tape.Postgres.URL == "" {
		c.Tape.Postgres = c.Postgres.Postgres
		c.sources["tape.postgres.url"] = Source{Default, "since engine is postgres"}
	}
}
