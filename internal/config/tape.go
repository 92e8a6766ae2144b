package config

import "net/url"

// CheckTape reports what the store of sessions lacks.
func (c *Config) CheckTape() error {
	if c.Tape.Store != "postgres" || c.Tape.Postgres.URL != "" {
		return nil
	}
	return c.wrong("tape.store", "store postgres needs tape.postgres.url, such as postgres://user:password@host:5432/database")
}

// finishTape warns of settings of sessions that have no effect.
func (l *loader) finishTape() {
	if t := l.c.Tape; t.Store != "postgres" && t.Postgres.URL != "" {
		l.warn("tape.postgres.url has no effect, because sessions are stored elsewhere; set tape.store to postgres to use it")
	}
}

// password returns the password in the address of the database; "" if there is none.
func (p Postgres) password() string {
	u, err := url.Parse(p.URL.Reveal())
	if err != nil || u.User == nil {
		return ""
	}
	word, _ := u.User.Password()
	return word
}
