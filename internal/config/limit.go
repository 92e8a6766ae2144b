package config

import "time"

// Limit bounds what all callers together may use of the machine. A limit never ends running work: the server refuses new work, and says
// when to retry.
type Limit struct {
	Caller
	Cost                  Cost
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
	SessionsPerCaller     int  // 0 is half of Sessions
	DiskFree              Size // 0 is none
}

var limitSettings = []Setting{
	{
		Key: "limit.memory", Default: "0B",
		Help: "memory; near it, new runs are refused; 0: GOMEMLIMIT, the container's limit, or half the machine's",
	},
	{Key: "limit.connections", Default: "0", Min: "0", Help: "client connections; 0: from the limit of open files"},
	{
		Key: "limit.connections_per_address", Default: "0", Min: "0",
		Help: "connections of one address, except http.proxies; 0: half of limit.connections, or no limit for localhost",
	},
	{Key: "limit.streams", Default: "20000", Min: "1", Help: "requests that follow or await a run"},
	{Key: "limit.streams_per_caller", Default: "0", Min: "0", Help: "such requests of one caller; 0: half of limit.streams"},
	{Key: "limit.upstream", Default: "10000", Min: "0", Help: "concurrent requests to one provider; more wait; 0: no limit"},
	{Key: "limit.upstream_queue", Default: "1000", Min: "0", Help: "waiting requests for one provider; more are refused"},
	{Key: "limit.upstream_wait", Default: "30s", Min: "1ms", Help: "how long they wait"},
	{Key: "limit.bodies", Default: "64MiB", Min: "1KiB", Help: "memory for request bodies"},
	{Key: "limit.input", Default: "1000000", Min: "1", Help: "characters of a request's input, instructions and earlier messages"},
	{Key: "limit.images", Default: "16", Min: "0", Help: "images and files of a request"},
	{Key: "limit.sessions", Default: "0", Min: "0", Help: "stored sessions; more are refused; 0: no limit"},
	{Key: "limit.sessions_per_caller", Default: "0", Min: "0", Help: "stored sessions of one caller; 0: half of limit.sessions"},
	{Key: "limit.disk_free", Default: "64MiB", Help: "free disk space that runs with a session or Idempotency-Key need; 0: no check"},
}
