package main

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/config"
)

// DS-07: without keys, a tool that can send requests could approve its agent's own calls.
func TestTheStartWarnsOfToolsWithoutKeys(t *testing.T) {
	key, _ := access.NewKey(access.Principal{Name: "ann"}, time.Time{})
	for name, tt := range map[string]struct {
		file    string
		environ []string
		warns   bool
	}{
		"tools without keys": {"mcp: {far: {url: 'http://127.0.0.1:1/'}}\n", nil, true},
		"tools and keys":     {"mcp: {far: {url: 'http://127.0.0.1:1/'}}\n", []string{"LINGSERVE_API_KEYS=" + key.Entry()}, false},
		"no tools":           {"", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("lingserve.yaml", []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Load(nil, tt.environ)
			if err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			e, err := newAccess(c, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer e.close()
			if warns := strings.Contains(log.String(), "can approve its agent's own calls"); warns != tt.warns {
				t.Errorf("%v: %s", warns, log.String())
			}
		})
	}
}
