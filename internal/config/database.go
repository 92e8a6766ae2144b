package config

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
)

// Values of the setting durability.
const (
	DurabilityNormal = "normal"
	DurabilityFull   = "full"
)

// InMemory is the value of the setting database that stores nothing.
const InMemory = "memory"

const expectedDatabase = "expected sqlite:FILE, postgres://user:password@host:5432/database (with %XX for special characters), or memory"

// CheckDatabase reports what is wrong with a text as the setting database. It does not repeat the text, which may have a password.
func CheckDatabase(text string) error {
	scheme, rest, _ := strings.Cut(text, ":")
	u, err := url.Parse(text)
	switch {
	case text == InMemory, scheme == "sqlite" && rest != "" && !strings.ContainsAny(rest, "?\x00"):
		return nil
	case scheme != "postgres" && scheme != "postgresql" || err != nil || !strings.HasPrefix(rest, "//"):
		return errors.New("no such database; " + expectedDatabase)
	case u.Query().Has("password"):
		return errors.New("the password is in the query of the address; write it before the host, as in postgres://user:password@host/database")
	}
	return nil
}

// finishDatabase completes settings that depend on where data is stored.
func (l *loader) finishDatabase() {
	c := l.c
	switch {
	case c.Database == InMemory:
		c.Data = ""
	case c.Data == "":
		l.wrong("data", "is empty; expected a folder, or database: memory, which stores nothing")
	case c.Database == "":
		c.Database = "sqlite:" + filepath.Join(c.Data, "lingserve.db")
	}
}

// DatabaseFile returns the path of the SQLite database; "" for other databases.
func (c *Config) DatabaseFile() string {
	path, ok := strings.CutPrefix(c.Database, "sqlite:")
	if !ok {
		return ""
	}
	return path
}

// Replicas reports whether several servers can share the database.
func (c *Config) Replicas() bool {
	return strings.HasPrefix(c.Database, "postgres")
}

// DatabaseName returns the database for people: a path, or an address without its password.
func (c *Config) DatabaseName() string {
	if !c.Replicas() {
		return strings.TrimPrefix(c.Database, "sqlite:")
	}
	u, err := url.Parse(c.Database)
	if err != nil { // CheckDatabase refuses it
		return "PostgreSQL"
	}
	return u.Redacted()
}

// databaseURL returns the address of a PostgreSQL database; an empty one without it.
func (c *Config) databaseURL() *url.URL {
	if u, err := url.Parse(c.Database); c.Replicas() && err == nil {
		return u
	}
	return &url.URL{}
}

func (c *Config) databasePassword() string {
	password, _ := c.databaseURL().User.Password()
	return password
}
