package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

func printVersion(w io.Writer) error {
	b := build()
	if details := strings.Trim(b.commit+", "+b.date, ", "); details != "" {
		b.version += " (" + details + ")"
	}
	_, err := fmt.Fprintf(w, "lingserve %s %s %s/%s\n", b.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// What a release is called, its commit, and when that was made (RFC 3339): its sources have no repository that Go could ask. See
// internal/release.
var releaseVersion, releaseCommit, releaseDate string

// built is what the release, or else the toolchain wrote into the binary.
type built struct{ version, commit, date string }

func build() built {
	b := built{releaseVersion, releaseCommit, releaseDate}
	if info, ok := debug.ReadBuildInfo(); ok && b.version == "" {
		b.version = strings.Trim(info.Main.Version, "()") // (devel) without a version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.time":
				b.date = s.Value
			case "vcs.revision":
				b.commit = s.Value
			}
		}
	}
	b.version = cmp.Or(b.version, "devel")
	b.commit = b.commit[:min(len(b.commit), 12)]
	return b
}
