package config

import (
	"slices"
	"strings"
	"testing"
)

func TestADatabaseOfSessions(t *testing.T) {
	const address = "postgres://ling:s3cret-word@db.example.com/sessions"
	load := func(env ...string) (*Config, error) { return Load(&Flags{}, append(env, "LINGSERVE_CONFIG=")) }
	c, err := load("LINGSERVE_TAPE_STORE=postgres", "LINGSERVE_TAPE_POSTGRES_URL="+address, "LINGSERVE_TAPE_POSTGRES_SCHEMA=two")
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Tape.Postgres; c.Tape.Store != "postgres" || p.URL.Reveal() != address || p.Schema != "two" || p.Connections != 16 {
		t.Errorf("got %+v", c.Tape)
	}
	// SE-06: neither the address nor the word in it is shown.
	for _, secret := range []string{address, "s3cret-word"} {
		if !slices.Contains(c.Secrets(), secret) {
			t.Errorf("%q is not among the secrets", secret)
		}
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil || strings.Contains(b.String(), "s3cret-word") || !strings.Contains(b.String(), "schema: two") {
		t.Errorf("printed, %v:\n%s", err, b.String())
	}
	if err := c.CheckTape(); err != nil {
		t.Error(err)
	}
	if c, err = load("LINGSERVE_TAPE_STORE=postgres"); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckTape(); err == nil || !strings.Contains(err.Error(), "LINGSERVE_TAPE_STORE: tape.store: store postgres needs tape.postgres.url") {
		t.Errorf("without an address: %v", err)
	}
	if c, err := load("LINGSERVE_TAPE_POSTGRES_URL=" + address); err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "has no effect") {
		t.Errorf("an address that is not used: %v, %q", err, c.Warnings)
	}
	for _, bad := range []string{"LINGSERVE_TAPE_STORE=mysql", "LINGSERVE_TAPE_POSTGRES_CONNECTIONS=1"} {
		if _, err := load("LINGSERVE_TAPE_POSTGRES_URL="+address, bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
