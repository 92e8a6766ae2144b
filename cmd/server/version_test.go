package main

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

func TestAReleaseSaysWhatItIs(t *testing.T) {
	defer func(v, c, d string) { releaseVersion, releaseCommit, releaseDate = v, c, d }(releaseVersion, releaseCommit, releaseDate)
	commit := strings.Repeat("0123456789", 4)
	for _, tc := range []struct{ version, commit, date, want string }{
		{"v1.2.3", commit, "2026-01-02T03:04:05Z", "lingserve v1.2.3 (012345678901, 2026-01-02T03:04:05Z)"},
		{"v1.2.3", "", "", "lingserve v1.2.3"},
		{"v1.2.3", "0123", "", "lingserve v1.2.3 (0123)"},
	} {
		releaseVersion, releaseCommit, releaseDate = tc.version, tc.commit, tc.date
		var out bytes.Buffer
		if code := command([]string{"version"}, nil, &out, &out); code != 0 {
			t.Errorf("exit status %d", code)
		}
		if want := tc.want + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"; out.String() != want {
			t.Errorf("it says %q, want %q", out.String(), want)
		}
	}
}
