package main

import (
	"fmt"

	"github.com/lingserve/lingserve/channel/state"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/config"
)

// sharedByLogins is what replicas keep for each channel, and each login of it, under its name. Its zero value is nothing: a server that is alone
// keeps that in files.
type sharedByLogins struct {
	learned state.Shared    // what was learned of platforms
	results webhook.Results // answers, for those who send a message again
}

// channelsPlace is where what channels keep is, for people.
func channelsPlace(c *config.Config) string {
	if c.Engine == config.EngineNATS {
		return fmt.Sprintf("the NATS servers of nats.servers (%s), prefix %s", c.Source("nats.servers"), c.NATS.Prefix)
	}
	return c.Data
}
