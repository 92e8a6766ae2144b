package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func versionCommand(s streams) *cobra.Command {
	return newCommand("version", func([]string) error { return printVersion(s.out) })
}

func printVersion(w io.Writer) error {
	b := build()
	_, err := fmt.Fprintf(w, "lingserve %s%s %s %s/%s\n", b.version, parens(b.commit, b.date), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// parens puts in parentheses what there is.
func parens(all ...string) string {
	text := strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), ", ")
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// What a release is called, its commit, and when that was made (RFC 3339): its sources have no repository that Go could ask. See
// internal/release.
var releaseVersion, releaseCommit, releaseDate string

// built is what the release, or else the toolchain wrote into the binary.
type built struct{ version, commit, date string }

func build() built {
	if releaseVersion != "" {
		return built{releaseVersion, releaseCommit[:min(len(releaseCommit), 12)], releaseDate}.once()
	}
	b := built{version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.version = v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	b.date, b.commit = settings["vcs.time"], settings["vcs.revision"]
	b.commit = b.commit[:min(len(b.commit), 12)]
	if b.commit != "" && settings["vcs.modified"] == "true" {
		b.commit += ", changed"
	}
	return b.once()
}

// once leaves out the commit where the version has it, as in v0.0.0-20260102030405-0123456789ab.
func (b built) once() built {
	if strings.Contains(b.version, b.commit) {
		b.commit = ""
	}
	return b
}
