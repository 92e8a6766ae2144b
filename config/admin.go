package config

import "fmt"

// Admin is the listener for those who run the server: metrics, profiles and signs of life.
type Admin struct {
	Addr        string // "" is none
	OpenMetrics bool   // nobody has to say who they are to read the metrics
}

var adminSettings = []Setting{
	{
		Key: "admin.addr", Default: "", check: checkAdminAddr,
		Help:  "address of a second listener with metrics and profiles, as 127.0.0.1:9090; on an address that is not of this machine alone it asks for the key of an admin; empty is none",
		field: func(c *Config) any { return &c.Admin.Addr },
	},
	{
		Key: "admin.open_metrics", Default: "false",
		Help:  "give the metrics to whoever can reach the admin listener, for scrapers that send no key",
		field: func(c *Config) any { return &c.Admin.OpenMetrics },
	},
}

func checkAdminAddr(s string) error {
	if s == "" {
		return nil
	}
	return checkAddr(s)
}

// AdminOpen says whether whoever can reach the admin listener is an admin: only programs of this machine can, or it is said that it
// is to be so. Where there are keys, Insecure opens nothing: it is for servers that have none.
func (c *Config) AdminOpen() bool { return c.AdminLocal() || c.Insecure && !c.Auth.On() }

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
	return &Error{
		Where: c.sources["admin.addr"].where("admin.addr"), Key: "admin.addr",
		Message: fmt.Sprintf("%s can be reached from other machines, and there are no keys to ask for; use a loopback address, "+
			"give an admin a key (lingserve keys new), or say --admin-open-metrics to serve the metrics alone", c.Admin.Addr),
	}
}
