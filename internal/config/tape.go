package config

import "net/url"

// CheckTape says what is missing of the store that sessions are to be kept in.
func (c *Config) CheckTape() error {
	if c.Tape.Store == EngineNATS && c.Engine != EngineNATS {
		return c.wrong("tape.store", "store nats needs engine nats; set engine to nats, and nats.servers to its servers")
	}
	if c.Tape.Store != "postgres" || c.Tape.Postgres.URL != "" {
		return nil
	}
	return c.wrong("tape.store", "store postgres needs tape.postgres.url, such as postgres://user:password@host:5432/database")
}

// finishTape looks whether what is said of sessions goes together.
func (l *loader) finishTape() {
	if t := l.c.Tape; t.Store != "postgres" && t.Postgres.URL != "" {
		l.warn("tape.postgres.url has no effect, because sessions are stored elsewhere; set tape.store to postgres to use it")
	}
}

// password is what is secret in the address of a database; "" where none is found.
func (p Postgres) password() string {
	u, err := url.Parse(p.URL.Reveal())
	if err != nil || u.User == nil {
		return ""
	}
	word, _ := u.User.Password()
	return word
}
