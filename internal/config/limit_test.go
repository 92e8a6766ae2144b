package config

import (
	"strings"
	"testing"
)

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
