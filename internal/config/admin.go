package config

// AdminOpen reports whether everyone who reaches the admin listener is an admin: there are no keys, and it listens on localhost or Insecure
// allows other addresses. With keys, it requires an admin's key on every address, because other users of the machine reach localhost too.
func (c *Config) AdminOpen() bool { return !c.Auth.On() && (c.AdminLocal() || c.Insecure) }

// AdminLocal reports whether only this machine can reach the admin listener.
func (c *Config) AdminLocal() bool { return loopback(c.Admin.Addr) }

// AdminInClear reports whether keys cross a network to the admin listener, which speaks plain HTTP.
func (c *Config) AdminInClear() bool { return c.Admin.Addr != "" && !c.AdminLocal() && c.Auth.On() }

// CheckAdmin refuses an admin listener that other machines reach without keys, unless it serves only metrics or Insecure is set.
func (c *Config) CheckAdmin() error {
	if c.Admin.Addr == "" || c.AdminOpen() || c.Auth.On() || c.Admin.OpenMetrics {
		return nil
	}
	return c.wrong("admin.addr", "other machines can reach %s, but there are no API keys; use a loopback address, "+
		"create an admin's key (lingserve keys new --role admin), or set --admin-open-metrics to serve only metrics", c.Admin.Addr)
}
