package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// CL-01: what stands on the command line is what the settings say.
func TestTheEngine(t *testing.T) {
	c := mustLoad(t, "", nil)
	if c.Engine != EngineLocal || c.Tape.Store != "file" || c.CheckEngine() != nil {
		t.Errorf("the default: %q, %q, %v", c.Engine, c.Tape.Store, c.CheckEngine())
	}
	c = mustLoad(t, "", nil, "--engine", "nats", "--nats", "nats://a:4222,tls://b")
	if err := c.CheckEngine(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(c.NATS.Servers, []string{"nats://a:4222", "tls://b"}) || c.NATS.Embedded() || c.Tape.Store != "nats" || c.NATS.Prefix != "lingserve" {
		t.Errorf("servers of others: %+v, %q", c.NATS, c.Tape.Store)
	}
	if from := c.Source("tape.store").String(); from != "default, since engine is nats" {
		t.Errorf("tape.store comes from: %s", from)
	}
	c = mustLoad(t, "", nil, "--engine", "nats", "--nats", "embedded", "--cluster", "nats://a:6222,nats://b:6222", "--cluster", "nats://c:6222",
		"--nats-cluster-listen", "10.0.0.1:6222", "--nats-token", "s3cret")
	if err := c.CheckEngine(); err != nil || !c.NATS.Embedded() || len(c.NATS.Routes) != 3 {
		t.Errorf("one of three: %+v, %v", c.NATS, err)
	}
	if !slices.Contains(c.Secrets(), "s3cret") {
		t.Error("the token is not among the secrets")
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil || strings.Contains(b.String(), "s3cret") || !strings.Contains(b.String(), "engine: nats") || !strings.Contains(b.String(), "routes: [\"nats://a:6222\"") && !strings.Contains(b.String(), "routes: [nats://a:6222") {
		t.Errorf("printed, %v:\n%s", err, b.String())
	}
	c = mustLoad(t, "", []string{"LINGSERVE_ENGINE=nats", "LINGSERVE_NATS_SERVERS=embedded", "LINGSERVE_TAPE_POSTGRES_URL=postgres://x/y"}, "--tape-store", "postgres")
	if err := c.CheckEngine(); err != nil || c.Tape.Store != "postgres" || len(c.Warnings) != 0 {
		t.Errorf("sessions in a database: %q, %v, %q", c.Tape.Store, err, c.Warnings)
	}
}

// CL-01: each setting that is wrong is named with its place, and all of them are.
func TestAWrongEngine(t *testing.T) {
	readable := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(readable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	const three = "nats: {servers: embedded, routes: ['nats://a:6222', 'nats://b:6222', 'nats://c:6222']"
	for _, test := range []struct {
		name, file string
		flags      []string
		want       []string
	}{
		{"local with servers", "engine: local\nnats:\n  servers: [nats://a:4222]\n  copies: 3\n", nil, []string{
			"lingserve.yaml:3: nats.servers: has no effect with engine local; set engine to nats", "lingserve.yaml:4: nats.copies: has no effect with engine local",
		}},
		{"servers by a flag", "", []string{"--nats", "embedded"}, []string{"--nats: has no effect with engine local"}},
		{"no servers", "engine: nats\n", nil, []string{"lingserve.yaml:1: engine: engine nats needs nats.servers"}},
		{"no address", "engine: nats\nnats: {servers: [nats://a, 'b:4222']}\n", nil, []string{"lingserve.yaml:2: nats.servers: number 2 "}},
		{"another scheme", "engine: nats\nnats: {servers: ['http://a']}\n", nil, []string{`number 1 starts with "http"; expected nats:// or tls://`}},
		{"a password in an address", "engine: nats\nnats: {servers: ['nats://ann:s3cret@a:4222']}\n", nil, []string{"number 1 contains a user; set nats.user and nats.password"}},
		{"no port", "engine: nats\nnats: {servers: ['nats://a:99999', 'nats://a:0', 'nats://a:', 'nats://a:65535']}\n", nil, []string{
			"number 1 has an invalid port; expected 1 to 65535", "number 2 has an invalid port; expected 1 to 65535", "number 3 has an invalid port; expected 1 to 65535",
		}},
		{"no port by a flag", "engine: nats\n", []string{"--nats", "nats://a:99999"}, []string{"--nats: number 1 has an invalid port; expected 1 to 65535"}},
		{"no port of a route", "engine: nats\nnats: {servers: embedded, routes: ['nats://a:6222', 'nats://b:66666', 'nats://c:6222'], cluster_listen: '127.0.0.1:6222'}\n", nil, []string{
			"nats.routes: number 2 has an invalid port; expected 1 to 65535",
		}},
		{"no brackets", "engine: nats\nnats: {servers: ['nats://fd00::1:4222', 'nats://[fd00::1]:4222']}\n", nil, []string{"number 1 has several colons"}},
		{"two in one", "engine: nats\nnats: {servers: ['nats://a:4222,nats://b:4222']}\n", nil, []string{"number 1 contains a comma; write one address per element"}},
		{"a path", "engine: nats\nnats: {servers: ['nats://a:4222/x']}\n", nil, []string{"more than a host and a port"}},
		{"embedded beside others", "engine: nats\nnats: {servers: [embedded, nats://a]}\n", nil, []string{"expected only embedded"}},
		{"embedded without a folder", "engine: nats\ndata: ''\nnats: {servers: embedded}\n", nil, []string{"lingserve.yaml:3: nats.servers: an embedded server needs a data folder"}},
		{"routes of others' servers", "engine: nats\nnats:\n  servers: [nats://a]\n  routes: [nats://b]\n", nil, []string{"lingserve.yaml:4: nats.routes: applies only to an embedded server"}},
		{"routes without a listener", "engine: nats\n" + three + "}\n", nil, []string{"set nats.cluster_listen"}},
		{"a listener without routes", "engine: nats\nnats: {servers: embedded, cluster_listen: '127.0.0.1:6222'}\n", nil, []string{"needs nats.routes; set nats.routes"}},
		{"two routes", "engine: nats\nnats: {servers: embedded, routes: ['nats://a:6222', 'nats://b:6222'], cluster_listen: '127.0.0.1:6222'}\n", nil, []string{"2 addresses do not make a cluster"}},
		{"open to others", "engine: nats\n" + three + ", cluster_listen: '0.0.0.0:6222', listen: ':4222'}\n", nil, []string{
			"nats.listen: other machines can reach :4222", "nats.cluster_listen: other machines can reach 0.0.0.0:6222",
		}},
		{"no listener", "engine: nats\nnats: {servers: embedded, listen: nowhere}\n", nil, []string{`nats.listen: "nowhere" is no address`}},
		{"three copies of one", "engine: nats\nnats: {servers: embedded, copies: 3}\n", nil, []string{"nats.copies: 3 copies need three servers"}},
		{"five copies", "engine: nats\nnats: {servers: [nats://a], copies: 5}\n", nil, []string{"5 copies are not possible; expected 0, 1 or 3"}},
		{"two ways in", "engine: nats\nnats: {servers: [nats://a], user: ann, password: x, creds: " + readable + "}\n", nil, []string{"nats.creds: does not go with nats.user"}},
		{"a user alone", "engine: nats\nnats: {servers: [nats://a], user: ann}\n", nil, []string{"nats.user: needs a password"}},
		{"a password alone", "engine: nats\nnats: {servers: [nats://a], password: x}\n", nil, []string{"nats.password: needs a user"}},
		{"a certificate alone", "engine: nats\nnats: {servers: [nats://a], tls: {cert: " + readable + "}}\n", nil, []string{"nats.tls.cert: needs a key"}},
		{"a key alone", "engine: nats\nnats: {servers: [nats://a], tls: {key: " + readable + "}}\n", nil, []string{"nats.tls.key: needs a certificate"}},
		{"a file that is not there", "engine: nats\nnats: {servers: [nats://a], nkey: nowhere.nk}\n", nil, []string{"nats.nkey: cannot read the file: nowhere.nk: no such file"}},
		{"credentials of an embedded server", "engine: nats\nnats: {servers: embedded, creds: " + readable + "}\n", nil, []string{"nats.creds: an embedded server does not support this setting"}},
		{"an authority alone", "engine: nats\nnats: {servers: embedded, tls: {ca: " + readable + "}}\n", nil, []string{"needs a certificate for the embedded server"}},
		{"a name with a blank", "engine: nats\nnats: {servers: embedded, name: 'a b'}\n", nil, []string{"nats.name: an embedded server's name may not contain spaces"}},
		{"sessions in files", "engine: nats\nnats: {servers: embedded}\ntape: {store: file}\n", nil, []string{"lingserve.yaml:3: tape.store: replicas cannot share files"}},
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
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("a password is shown: %v", err)
			}
			if n := len(strings.Split(err.Error(), "\n")); n != len(test.want) {
				t.Errorf("there are %d errors: %v", n, err)
			}
		})
	}
	for servers, want := range map[string]string{ // CL-01: what is no list of texts is said with what there is and an example
		"[nats://a, b: 4222]": "lingserve.yaml:1:28: nats.servers: element 2 of the list is a mapping; expected text (such as nats://10.0.0.1:4222)",
		"[[nats://a]]":        "nats.servers: element 1 of the list is a list; expected text (such as nats://10.0.0.1:4222)",
		"[null]":              "nats.servers: element 1 of the list is nothing; expected text (such as nats://10.0.0.1:4222)",
		"[!!str a]":           "nats.servers: anchors, aliases and tags are not supported; write the value itself",
		"[4222]":              "nats.servers: 4222 is not text; put the value in quotes",
		"[4.5]":               "nats.servers: 4.5 is not text; put the value in quotes",
		"{nats: //s3cret@a}":  "nats.servers: found a mapping; expected a list (such as [nats://10.0.0.1:4222])",
	} {
		if _, err := load(t, "nats: {servers: "+servers+"}", nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", servers, err, want)
		}
	}
	for _, bad := range []string{"engine: nas", "nats: {prefix: a.b}", "nats: {prefix: ''}", "nats: {copies: 2}", "nats: {copies: -1}", "nats: {grace: 0s}", "nats: {server: x}"} {
		if c, err := load(t, bad, nil); err == nil {
			t.Errorf("%s is taken: %+v", bad, c.NATS)
		}
	}
	if err := mustLoad(t, "tape: {store: nats}", nil).CheckTape(); err == nil || !strings.Contains(err.Error(), "tape.store: store nats needs engine nats") {
		t.Errorf("sessions in NATS alone: %v", err)
	}
}

// DA-06: people on the network between the servers can act as any caller.
func TestDA_06_ServersWithoutTLSAreWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a local engine":       {nil, ""},
		"another machine":      {[]string{"--engine", "nats", "--nats", "nats://10.0.0.1:4222"}, "nats://10.0.0.1:4222"},
		"a name":               {[]string{"--engine", "nats", "--nats", "nats://a"}, "nats://a"},
		"some of several":      {[]string{"--engine", "nats", "--nats", "nats://127.0.0.1:4222,tls://b:4222,nats://[fd00::1]:4222"}, "nats://[fd00::1]:4222"},
		"this machine":         {[]string{"--engine", "nats", "--nats", "nats://localhost:4222,nats://[::1]:4222"}, ""},
		"TLS":                  {[]string{"--engine", "nats", "--nats", "tls://a:4222"}, ""},
		"an authority":         {[]string{"--engine", "nats", "--nats", "nats://a:4222", "--nats-tls-ca", "ca.pem"}, ""},
		"embedded":             {[]string{"--engine", "nats", "--nats", "embedded"}, ""},
		"embedded, for itself": {[]string{"--engine", "nats", "--nats", "embedded", "--nats-listen", "127.0.0.1:4222"}, ""},
		"embedded, for others": {[]string{"--engine", "nats", "--nats", "embedded", "--nats-listen", ":4222"}, ":4222"},
		"embedded, of a cluster": {
			[]string{"--engine", "nats", "--nats", "embedded", "--cluster", "nats://a:6222,nats://b:6222,nats://c:6222", "--nats-cluster-listen", "10.0.0.1:6222"},
			"10.0.0.1:6222 nats://a:6222 nats://b:6222 nats://c:6222",
		},
		"embedded, whose routes say TLS and which have no certificate": {
			[]string{"--engine", "nats", "--nats", "embedded", "--cluster", "tls://a:6222,tls://b:6222,tls://c:6222", "--nats-cluster-listen", "127.0.0.1:6222"},
			"tls://a:6222 tls://b:6222 tls://c:6222",
		},
		"embedded, with a certificate": {
			[]string{
				"--engine", "nats", "--nats", "embedded", "--cluster", "nats://a:6222,nats://b:6222,nats://c:6222", "--nats-cluster-listen", ":6222",
				"--nats-tls-cert", "c.pem", "--nats-tls-key", "k.pem",
			}, "",
		},
	} {
		if got := strings.Join(mustLoad(t, "", nil, c.args...).NATSInClear(), " "); got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
