package config

import (
	"slices"
	"strings"
	"testing"
)

// CL-01: the settings say which engine a server uses.
func TestTheEngine(t *testing.T) {
	c := mustLoad(t, "", nil)
	if c.Engine != EngineLocal || c.Tape.Store != "file" || c.CheckEngine() != nil {
		t.Errorf("the default: %q, %q, %v", c.Engine, c.Tape.Store, c.CheckEngine())
	}
	const address = "postgres://ann:s3cret@db/x"
	c = mustLoad(t, "", nil, "--engine", "postgres", "--postgres-url", address)
	if err := c.CheckEngine(); err != nil {
		t.Error(err)
	}
	if c.Tape.Store != "postgres" || c.Tape.Postgres.URL != address || c.Source("tape.store").String() != "default, since engine is postgres" {
		t.Errorf("sessions are in %q at %q, from %s", c.Tape.Store, c.Tape.Postgres.URL.Reveal(), c.Source("tape.store"))
	}
	if !slices.ContainsFunc(c.Secrets(), func(s string) bool { return strings.Contains(s, "s3cret") }) {
		t.Error("the password is not among the secrets")
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil || strings.Contains(b.String(), "s3cret") || !strings.Contains(b.String(), "engine: postgres") {
		t.Errorf("printed, %v:\n%s", err, b.String())
	}
	c = mustLoad(t, "", []string{"LINGSERVE_ENGINE=postgres", "LINGSERVE_POSTGRES_URL=" + address, "LINGSERVE_TAPE_POSTGRES_URL=postgres://x/y"}, "--tape-store", "postgres")
	if err := c.CheckEngine(); err != nil || c.Tape.Postgres.URL != "postgres://x/y" || len(c.Warnings) != 0 {
		t.Errorf("sessions in another database: %q, %v, %q", c.Tape.Postgres.URL.Reveal(), err, c.Warnings)
	}
}

// CL-01: each wrong setting of the engine is an error with its place, and all are reported.
func TestAWrongEngine(t *testing.T) {
	for _, test := range []struct {
		name, file string
		flags      []string
		want       []string
	}{
		{"local with a database", "engine: local\npostgres:\n  url: postgres://a/b\n  grace: 2m\n", nil, []string{
			"lingserve.yaml:3: postgres.url: has no effect with engine local; set engine to postgres", "lingserve.yaml:4: postgres.grace: has no effect with engine local",
		}},
		{"a database by a flag", "", []string{"--postgres-url", "postgres://a/b"}, []string{"--postgres-url: has no effect with engine local"}},
		{"no database", "engine: postgres\n", nil, []string{"lingserve.yaml:1: engine: engine postgres needs postgres.url"}},
		{"sessions in files", "engine: postgres\npostgres: {url: postgres://a/b}\ntape: {store: file}\n", nil, []string{"lingserve.yaml:3: tape.store: replicas share sessions in PostgreSQL"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := mustLoad(t, test.file, nil, test.flags...).CheckEngine()
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if n := len(strings.Split(err.Error(), "\n")); n != len(test.want) {
				t.Errorf("there are %d errors: %v", n, err)
			}
		})
	}
	for _, bad := range []string{"engine: nas", "postgres: {schema: ''}", "postgres: {grace: 0s}", "postgres: {server: x}"} {
		if c, err := load(t, bad, nil); err == nil {
			t.Errorf("%s is taken: %+v", bad, c.Postgres)
		}
	}
}

func TestSettingsOfNATSNameTheReplacement(t *testing.T) {
	const instead = "set engine to postgres and postgres.url to its address (--engine postgres --postgres-url postgres://"
	for _, test := range []struct {
		name, file  string
		environment []string
		flags       []string
		want        []string
	}{
		{name: "the engine in the file", file: "engine: nats\n", want: []string{"lingserve.yaml:1:9: engine: NATS is not supported; ", instead}},
		{name: "the engine by a flag", flags: []string{"--engine", "nats"}, want: []string{"--engine: NATS is not supported; ", instead}},
		{name: "the engine by a variable", environment: []string{"LINGSERVE_ENGINE=nats"}, want: []string{"LINGSERVE_ENGINE: engine: NATS is not supported; ", instead}},
		{name: "the section", file: "nats:\n  servers: [nats://s3cret@a:4222]\n", want: []string{"lingserve.yaml:1:1: nats: NATS is not supported; ", instead}},
		{name: "a key with a dot", file: "nats.servers: [nats://s3cret@a:4222]\n", want: []string{"lingserve.yaml:1:1: nats.servers: NATS is not supported; ", instead}},
		{
			name: "a variable", environment: []string{"LINGSERVE_NATS_SERVERS=nats://s3cret@a:4222"},
			want: []string{"LINGSERVE_NATS_SERVERS: nats.servers: NATS is not supported; ", instead},
		},
		{name: "the store of sessions", flags: []string{"--tape-store", "nats"}, want: []string{"--tape-store: NATS is not supported; remove this setting"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.file, test.environment, test.flags...)
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if n := len(strings.Split(err.Error(), "\n")); n != 1 || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("there are %d errors: %v", n, err)
			}
		})
	}
	// Kubernetes sets variables of this form for a service named lingserve-nats.
	mustLoad(t, "", []string{"LINGSERVE_NATS_PORT=tcp://10.0.0.1:4222", "LINGSERVE_NATS_SERVICE_HOST=10.0.0.1"})
	for name, removed := range map[string]bool{"nats": true, "nats-tls-ca": true, "cluster": true, "natss": false, "engine": false} {
		if err := RemovedFlag(name); (err != nil) != removed || removed && !strings.Contains(err.Error(), instead) {
			t.Errorf("--%s: %v", name, err)
		}
	}
}

// CL-01: an element that is not text is reported with what it is and an example.
func TestAListOfOtherThingsThanText(t *testing.T) {
	for list, want := range map[string]string{
		"[at, b: 4222]":  "lingserve.yaml:1:26: auth.token_types: element 2 of the list is a mapping; expected text (such as JWT)",
		"[[at]]":         "auth.token_types: element 1 of the list is a list; expected text (such as JWT)",
		"[null]":         "auth.token_types: element 1 of the list is nothing; expected text (such as JWT)",
		"[!!str a]":      "auth.token_types: anchors, aliases and tags are not supported; write the value itself",
		"[4222]":         "auth.token_types: 4222 is not text; put the value in quotes",
		"[4.5]":          "auth.token_types: 4.5 is not text; put the value in quotes",
		"{at: //s3cret}": "auth.token_types: found a mapping; expected a list (such as [JWT])",
	} {
		if _, err := load(t, "auth: {token_types: "+list+"}", nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
}
