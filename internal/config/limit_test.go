package config

import (
	"os"
	"strings"
	"testing"
)

// Every setting that bounds something is in the guide of limits, or in the one of those of a caller.
func TestTheGuideHasEachLimit(t *testing.T) {
	var guides string
	for _, name := range []string{"../../docs/limits.md", "../../docs/access.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		guides += string(text)
	}
	for _, s := range Settings() {
		if strings.HasPrefix(s.Key, "limit.") || strings.HasPrefix(s.Key, "run.max") || strings.HasPrefix(s.Key, "turn.") {
			if !strings.Contains(guides, "`"+s.Key+"`") {
				t.Errorf("%s is in no guide", s.Key)
			}
		}
	}
	c := mustLoad(t, "", nil)
	for key, s := range map[string]struct{ is, shown string }{
		"limit.streams": {"20000", "| `limit.streams` | 20000 |"}, "limit.upstream": {"10000", "| `limit.upstream` | 10000 |"},
		"limit.bodies": {"64MiB", "| `limit.bodies` | 64MiB |"}, "limit.input": {"1000000", "| `limit.input` | 1000000 |"},
		"limit.images": {"16", "| `limit.images` | 16 |"}, "limit.disk_free": {"64MiB", "| `limit.disk_free` | 64MiB |"},
		"run.max_disk": {"4GiB", "| `run.max_disk` | 4GiB |"}, "turn.queue": {"16", "| `turn.queue` | 16 |"},
		"turn.queue_total": {"4096", "| `turn.queue_total` | 4096 |"}, "limit.upstream_wait": {"30s", "| `limit.upstream_wait` | 30s |"},
	} {
		for _, setting := range Settings() {
			if setting.Key == key && (setting.text(c) != s.is || !strings.Contains(guides, s.shown)) {
				t.Errorf("%s is %s, and the guide does not have %q", key, setting.text(c), s.shown)
			}
		}
	}
}

func TestLimitsThatCannotBeAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--limit-streams", "0"},
		{"--limit-connections", "-1"},
		{"--limit-upstream", "-1"},
		{"--limit-upstream-wait", "0s"},
		{"--limit-bodies", "1B"},
		{"--limit-memory", "much"},
		{"--limit-sessions", "some"},
		{"--turn-queue", "0"},
	} {
		if _, err := load(t, "", nil, args...); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
