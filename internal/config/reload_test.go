package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/config"
)

// DS-08
func TestSettingsThatNeedARestartAreNamed(t *testing.T) {
	const before = "log: {level: info}\nagents: {helper: {model: 'openai:a'}}\nproviders: {openai: {key: {file: key}, models: [a]}}\n"
	for name, tt := range map[string]struct {
		file, key string
		want      []string
	}{
		"nothing":           {before, "first-key", nil},
		"another key":       {before, "second-key", nil}, // is taken at once
		"another level":     {"log: {level: debug}\n" + before[len("log: {level: info}\n"):], "first-key", []string{"log.level"}},
		"another model":     {before + "model: 'openai:a'\n", "first-key", nil}, // the same as the default
		"limits":            {before + "limit: {cost: {run: 1}}\nrun: {timeout: 1m}\n", "first-key", []string{"limit.cost.run", "run.timeout"}},
		"another agent":     {before + "mcp: {}\n", "first-key", nil},
		"fewer settings":    {"providers: {openai: {key: {file: key}, models: [a]}}\n", "first-key", []string{"agents.helper"}},
		"no provider's key": {"providers: {}\n", "first-key", []string{"agents.helper", "model", "providers.openai.key", "providers.openai.models", "providers.responses.key"}},
		"prices":            {before + "prices: {'openai:a': {input: 1, output: 2}}\n", "first-key", []string{"prices"}},
		"a channel":         {before + "channels: {web: {dm: {policy: open}}}\n", "first-key", nil}, // may be read again
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			put := func(name, text string) {
				if err := os.WriteFile(filepath.Join(".", name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put("lingserve.yaml", before)
			put("key", "first-key")
			c, err := config.Load(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			put("lingserve.yaml", tt.file)
			put("key", tt.key)
			next, err := c.Reload()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.NeedsRestart(next)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
