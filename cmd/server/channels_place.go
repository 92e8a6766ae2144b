package main

import (
	"fmt"

	"github.com/lingserve/lingserve/internal/config"
)

// channelsPlace is where what channels keep is, for people.
func channelsPlace(c *config.Config) string {
	if c.Engine == config.EngineNATS {
		return fmt.Sprintf("the NATS servers of nats.servers (%s), prefix %s", c.Source("nats.servers"), c.NATS.Prefix)
	}
	if c.Engine == config.EnginePostgres {
		return fmt.Sprintf("the database of postgres.url (%s), schema %s", c.Source("postgres.url"), c.Postgres.Schema)
	}
	return c.Data
}
