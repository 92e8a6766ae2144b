package cluster

import (
	"log/slog"
	"strings"
	"testing"
)

func TestOptionsThatAreWrongAreSaidClearly(t *testing.T) {
	routes := []string{"nats://127.0.0.1:1", "nats://127.0.0.1:2", "nats://127.0.0.1:3"}
	for _, row := range []struct {
		name string
		o    Options
		want string
	}{
		{"nothing", Options{}, "cluster: no servers; expected URLs"},
		{"no URL", Options{Servers: "nats://u:s3cret@a:4222,nonsense s3cret"}, "server 2 is no URL"},
		{"a bad URL", Options{Servers: "nats://u:s3cret@%zz"}, "server 1 is no URL"},
		{"a scheme", Options{Servers: "http://s3cret@a"}, `http://a, has the scheme "http"`},
		{"a port", Options{Servers: "nats://a:4222,nats://s3cret@b:99999"}, "server 2, nats://b:99999, has an invalid port; expected 1 to 65535"},
		{"port 0", Options{Servers: "nats://a:0"}, "server 1, nats://a:0, has an invalid port; expected 1 to 65535"},
		{"an empty port", Options{Servers: "nats://a:"}, "server 1, nats://a:, has an invalid port; expected 1 to 65535"},
		{"a route's port", Options{Servers: Embedded, Dir: "d", ClusterListen: "127.0.0.1:1", Routes: append(routes[:2:2], "nats://a:66666")}, "has an invalid port; expected 1 to 65535, in the routes"},
		{"a prefix", Options{Servers: "nats://a", Prefix: "a.b"}, `invalid prefix "a.b"`},
		{"a long prefix", Options{Servers: "nats://a", Prefix: strings.Repeat("a", 33)}, "at most 32 characters"},
		{"copies", Options{Servers: "nats://a", Copies: 2}, "2 copies"},
		{"a grace", Options{Servers: "nats://a", Grace: -1}, "the grace is -1ns"},
		{"two ways", Options{Servers: "nats://a", User: "u", Token: "s3cret"}, "do not go together"},
		{"no user", Options{Servers: "nats://a", Password: "s3cret"}, "the password needs a user"},
		{"no key", Options{Servers: "nats://a", TLS: TLS{Cert: "c"}}, "a certificate and its key"},
		{"no folder", Options{Servers: Embedded}, "needs a folder"},
		{"a folder elsewhere", Options{Servers: "nats://s3cret@a", Dir: "d"}, "the servers are nats://a"},
		{"credentials", Options{Servers: Embedded, Dir: "d", Creds: "f"}, "not credentials"},
		{"a CA alone", Options{Servers: Embedded, Dir: "d", TLS: TLS{CA: "c"}}, "needs a certificate"},
		{"a name", Options{Servers: Embedded, Dir: "d", Name: "a b"}, `"a b", has a space`},
		{"routes alone", Options{Servers: Embedded, Dir: "d", Routes: routes}, "needs an address where the other servers reach it"},
		{"no routes", Options{Servers: Embedded, Dir: "d", ClusterListen: "127.0.0.1:1"}, "needs the routes"},
		{"two routes", Options{Servers: Embedded, Dir: "d", ClusterListen: "127.0.0.1:1", Routes: routes[:2]}, "2 routes; expected those of all three servers"},
		{"three copies of one", Options{Servers: Embedded, Dir: "d", Copies: 3}, "0 routes"},
		{"a listener", Options{Servers: Embedded, Dir: "d", Listen: "localhost"}, `"localhost" is no address`},
		{"an open listener", Options{Servers: Embedded, Dir: "d", Listen: "0.0.0.0:4222"}, "set a user and password, or a token"},
		{"an open cluster", Options{Servers: Embedded, Dir: "d", ClusterListen: ":6222", Routes: routes}, "set a user and password, or a token"},
	} {
		_, err := Open(t.Context(), row.o)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q in it", row.name, err, row.want)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: a secret is in %v", row.name, err)
		}
	}
}

func TestOptionsInALogHaveNoSecrets(t *testing.T) {
	o := Options{Servers: "nats://u:s3cret@a:4222,nats://s3cret@b", User: "u", Password: "s3cret", Token: "s3cret"}
	var text strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "options", o)
	if got := text.String(); strings.Contains(got, "s3cret") || !strings.Contains(got, "nats://a:4222, nats://b") {
		t.Error(got)
	}
}
