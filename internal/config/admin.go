package config

// Admin is the listener for those who run the server: metrics, profiles and signs of life.
type Admin struct {
	Addr        string // "" is none
	OpenMetrics bool   // nobody has to say who they are to read the metrics
}

var adminSettings = []Setting{
	{
		Key: "admin.addr", check: unlessEmpty(checkAddr),
		Help: "second listener with metrics and profiles, such as 127.0.0.1:9090; with keys, for admins only",
	},
	{Key: "admin.open_metrics", Default: "false", Help: "serve its metrics without a key"},
}

// AdminOpen says whether all who reach the admin listener are admins: there are no keys, and it listens on localhost or Insecure allows
// other addresses. Where there are keys, it asks for an admin's on every address: other users of the machine reach localhost, too.
func (c *Config) AdminOpen() bool { return !c.Auth.On() && (c.AdminLocal() || c.Insecure) }

// AdminLocal says whether nobody but this machine can reach the admin listener.
func (c *Config) AdminLocal() bool { return loopback(c.Admin.Addr) }

// AdminInClear says whether keys travel unencrypted to the admin listener, over a network: it speaks plain HTTP.
func (c *Config) AdminInClear() bool { return c.Admin.Addr != "" && !c.AdminLocal() && c.Auth.On() }

// CheckAdmin says whether the admin listener may be where it is to be: without keys to ask for, only on a loopback address, or for
// metrics alone, or where Insecure says that it may.
func (c *Config) CheckAdmin() error {
	if c.Admin.Addr == "" || c.AdminOpen() || c.Auth.On() || c.Admin.OpenMetrics {
		return nil
	}
	return c.wrong("admin.addr", "other machines can reach %s, but there are no API keys; use a loopback address, "+
		"create an admin's key (lingserve keys new --role admin), or set --admin-open-metrics to serve only metrics", c.Admin.Addr)
}
