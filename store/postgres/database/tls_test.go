package database_test

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/store/postgres/database"
)

// DA-06: people on the network to the database could act as any caller.
func TestDA_06_HostsThatAreReachedWithoutTLSAreKnown(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://a@db.example.com/x":                                    "db.example.com", // TLS only if the server has it
		"postgres://a@db.example.com/x?sslmode=disable":                    "db.example.com",
		"postgres://a@db.example.com/x?sslmode=require":                    "",
		"postgres://a@db.example.com/x?sslmode=verify-full":                "",
		"postgres://a@10.0.0.1,db.example.com,10.0.0.1/x?sslmode=disable":  "10.0.0.1 db.example.com",
		"postgres://a@localhost,127.0.0.1,[::1]/x?sslmode=disable":         "",
		"postgres://a@/x?host=/var/run/postgresql":                         "",
		"postgres://a@/x?host=/var/run/postgresql,10.0.0.1&sslmode=prefer": "10.0.0.1",
	} {
		c, err := (&database.Options{URL: url}).Config()
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if got := strings.Join(database.HostsWithoutTLS(c.ConnConfig), " "); got != want {
			t.Errorf("%s: %q, expected %q", url, got, want)
		}
	}
}
