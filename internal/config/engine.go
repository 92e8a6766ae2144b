package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Engines store runs, sessions and the rest of the data.
const (
	EngineLocal    = "local"
	EnginePostgres = "postgres" // a PostgreSQL database, which replicas share
)

// SharedPostgres is the database of the engine postgres.
type SharedPostgres struct {
	Postgres
	Grace time.Duration
}

var engineSettings = []Setting{
	{
		Key: "engine", Default: EngineLocal, OneOf: []string{EngineLocal, EnginePostgres}, removed: map[string]string{"nats": useEnginePostgres},
		Help: "storage: local (this process and its files) or postgres (PostgreSQL, which replicas share)",
	},
}

var postgresSettings = []Setting{
	{
		Key: "postgres.url", flag: "postgres-url", Secret: true,
		Help: "database that replicas share, such as postgres://user:password@host:5432/database",
	},
	{Key: "postgres.schema", Default: "lingserve", required: true, Help: "schema; different for each installation in a database"},
	{Key: "postgres.connections", Default: "16", Min: "2", Help: "connections to the database"},
	{Key: "postgres.grace", Default: "1m", Min: "1ms", Help: "how long a replica keeps its sessions while disconnected from PostgreSQL"},
}

// CheckEngine checks that the settings of the engine fit together, and reports all that do not.
func (c *Config) CheckEngine() error {
	var errs []error
	wrong := func(key, message string) { errs = append(errs, c.wrong(key, "%s", message)) }
	if c.Engine != EnginePostgres {
		for _, s := range postgresSettings {
			if c.sources[s.Key].Kind != Default {
				wrong(s.Key, fmt.Sprintf("has no effect with engine %s; set engine to %s to share data between replicas, or remove this setting", c.Engine, EnginePostgres))
			}
		}
		return errors.Join(errs...)
	}
	if c.Postgres.URL == "" {
		wrong("engine", "engine postgres needs postgres.url, such as postgres://user:password@host:5432/database")
	}
	if c.Tape.Store != "postgres" {
		wrong("tape.store", "replicas share sessions in PostgreSQL with engine postgres; remove this setting")
	}
	return errors.Join(errs...)
}

// finishEngine stores sessions in the database of the engine, unless the settings name another store.
func (l *loader) finishEngine() {
	c := l.c
	if c.Engine != EnginePostgres || c.sources["tape.store"].Kind != Default {
		return
	}
	c.Tape.Store = "postgres"
	c.sources["tape.store"] = Source{Default, "since engine is postgres"}
	if c.Tape.Postgres.URL == "" {
		c.Tape.Postgres = c.Postgres.Postgres
		c.sources["tape.postgres.url"] = Source{Default, "since engine is postgres"}
	}
}

// Values of the setting durability.
const (
	DurabilityNormal = "normal"
	DurabilityFull   = "full"
)

const (
	useDurability     = "sessions are in a database; remove this setting, or set durability to full, so that a power failure takes nothing"
	useEnginePostgres = "NATS is not supported; replicas share a PostgreSQL database: set engine to postgres and postgres.url to its address " +
		"(--engine postgres --postgres-url postgres://user:password@host:5432/database)"
	useTapePostgres = "NATS is not supported; remove this setting, or set it to postgres and tape.postgres.url to the address of a PostgreSQL database"
)

// removedSettings are the settings of NATS. Each is an error that names the replacement.
var removedSettings = []string{
	"nats.servers", "nats.routes", "nats.cluster_listen", "nats.listen", "nats.name", "nats.user", "nats.password", "nats.token", "nats.creds",
	"nats.nkey", "nats.tls.ca", "nats.tls.cert", "nats.tls.key", "nats.prefix", "nats.copies", "nats.grace", "nats.max_inbox",
}

// RemovedFlag returns the error for a flag of a setting that no longer exists. It returns nil for any other name.
func RemovedFlag(name string) error {
	if name == "nats" || name == "cluster" || strings.HasPrefix(name, "nats-") {
		return fmt.Errorf("--%s: %s", name, useEnginePostgres)
	}
	if name == "tape-sync" {
		return fmt.Errorf("--%s: %s", name, useDurability)
	}
	return nil
}

// checkRemovedVariables refuses environment variables of settings that no longer exist. It knows them by their whole names, because container
// platforms set variables such as LINGSERVE_NATS_PORT for a service with this name.
func (l *loader) checkRemovedVariables() {
	for _, key := range append([]string{"tape.sync"}, removedSettings...) {
		name, use := Setting{Key: key}.Variables()[0], useEnginePostgres
		if key == "tape.sync" {
			use = useDurability
		}
		if l.env[name] != "" {
			l.errs = append(l.errs, &Error{Where: name, Key: key, Message: use})
		}
	}
}
