package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

func versionCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		fmt.Fprint(stdout, "lingserve version\n\nPrints the version, the commit that it was built from, and the Go version.\n")
		return exitOK
	case len(args) > 0:
		return usage(stderr, "version", "unexpected argument %q", args[0])
	}
	b := build()
	fmt.Fprintf(stdout, "lingserve %s%s %s %s/%s\n", b.version, parens(b.commit), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}

func parens(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// built is what the toolchain wrote into the binary.
type built struct{ version, commit string }

func build() built {
	b := built{version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.version = v
	}
	changed := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				changed = ", changed"
			}
		}
	}
	switch {
	case strings.Contains(b.version, b.commit): // as in v0.0.0-20260102030405-0123456789ab
		b.commit = ""
	case b.commit != "":
		b.commit += changed
	}
	return b
}
