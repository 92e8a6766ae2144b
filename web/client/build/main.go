// Command build bundles the client with esbuild: run it in this folder, after tsc has written the types. It is a module of its
// own, so that esbuild is in no build of the server.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// run writes the bundles of the client in folder, and what they were made of.
func run(folder string) error {
	bundles, err := bundle(folder)
	if err != nil {
		return err
	}
	dist := filepath.Join(folder, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	for name, text := range bundles {
		if err := os.WriteFile(filepath.Join(dist, name), text, 0o644); err != nil {
			return err
		}
	}
	return writeManifest(folder)
}
