package config

import "time"

// Limit bounds what all callers together may have of the machine. What goes on is never ended for it: it is what comes that is
// refused, with the time to come back.
type Limit struct {
	Memory                Size // 0 is what the environment says
	Connections           int  // 0 is what the number of open files allows
	ConnectionsPerAddress int  // 0 is half of Connections, and no limit for localhost
	Streams               int
	StreamsPerCaller      int // 0 is half of Streams
	Upstream              int // of each provider; 0 is none
	UpstreamQueue         int
	UpstreamWait          time.Duration
	Bodies                Size
	Input                 int
	Images                int
	Sessions              int  // 0 is none
	DiskFree              Size // 0 is none
}

var limitSettings = []Setting{
	{
		Key: "limit.memory", Default: "0B",
		Help:  "memory of the process, close to which new runs are refused; 0 is GOMEMLIMIT, or else what the container may have, or else half of what the machine has",
		field: func(c *Config) any { return &c.Limit.Memory },
	},
	{
		Key: "limit.connections", Default: "0", Min: "0",
		Help:  "connections of clients at once; 0 is what the number of files allows that the process may open",
		field: func(c *Config) any { return &c.Limit.Connections },
	},
	{
		Key: "limit.connections_per_address", Default: "0", Min: "0",
		Help:  "connections of one address at once; 0 is half of limit.connections, and no limit for localhost; http.proxies have no limit",
		field: func(c *Config) any { return &c.Limit.ConnectionsPerAddress },
	},
	{
		Key: "limit.streams", Default: "20000", Min: "1",
		Help:  "requests at once that follow a run or wait for its end",
		field: func(c *Config) any { return &c.Limit.Streams },
	},
	{
		Key: "limit.streams_per_caller", Default: "0", Min: "0",
		Help:  "such requests of one caller at once; 0 is half of limit.streams",
		field: func(c *Config) any { return &c.Limit.StreamsPerCaller },
	},
	{
		Key: "limit.upstream", Default: "10000", Min: "0",
		Help:  "requests to the models of one provider at once; more wait; 0 is no limit",
		field: func(c *Config) any { return &c.Limit.Upstream },
	},
	{
		Key: "limit.upstream_queue", Default: "1000", Min: "0",
		Help:  "requests that wait for one provider at once; more are refused",
		field: func(c *Config) any { return &c.Limit.UpstreamQueue },
	},
	{
		Key: "limit.upstream_wait", Default: "30s", Min: "1ms",
		Help:  "how long such a request waits",
		field: func(c *Config) any { return &c.Limit.UpstreamWait },
	},
	{
		Key: "limit.bodies", Default: "64MiB", Min: "1KiB",
		Help:  "memory for bodies of requests while they are read, of all together",
		field: func(c *Config) any { return &c.Limit.Bodies },
	},
	{
		Key: "limit.input", Default: "1000000", Min: "1",
		Help:  "characters of a request for a run that models get to read: its input, its instructions and what was said before",
		field: func(c *Config) any { return &c.Limit.Input },
	},
	{
		Key: "limit.images", Default: "16", Min: "0",
		Help:  "images and files of a request for a run",
		field: func(c *Config) any { return &c.Limit.Images },
	},
	{
		Key: "limit.sessions", Default: "0", Min: "0",
		Help:  "sessions that are kept; where there are so many no new ones begin; 0 is no limit",
		field: func(c *Config) any { return &c.Limit.Sessions },
	},
	{
		Key: "limit.disk_free", Default: "64MiB",
		Help:  "room on the disk of the data folder, below which no runs begin in sessions or with an Idempotency-Key; 0 is none",
		field: func(c *Config) any { return &c.Limit.DiskFree },
	},
}
