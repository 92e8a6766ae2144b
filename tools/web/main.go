// Command web bundles what browsers load with esbuild: "go run . client" in this folder the npm package, after tsc has written
// its types, and "go run . playground" the page at /. It is a module of its own, so that esbuild is in no build of the server.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// target is one of the folders that are built. Patterns and names of files are relative to it.
type target struct {
	folder  string
	bundle  func(folder string) (map[string][]byte, error) // the files of dist by name
	sources []string                                       // what they are made of
	dist    []string                                       // what is committed of dist, the manifest left out

	packages bool // npm packages are bundled, which have to be there
}

var targets = map[string]target{"client": client, "playground": playground}

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("say what to build: client or playground"))
	}
	t, ok := targets[os.Args[1]]
	if !ok {
		fail(fmt.Errorf("there is no %q to build", os.Args[1]))
	}
	if err := t.write(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "web:", err)
	os.Exit(1)
}

// write writes what is bundled, and what it was made of.
func (t target) write() error {
	bundles, err := t.bundle(t.folder)
	if err != nil {
		return err
	}
	// What has another name now would stay.
	if err := os.RemoveAll(filepath.Join(t.folder, "dist", "assets")); err != nil {
		return err
	}
	for name, text := range bundles {
		name = filepath.Join(t.folder, "dist", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return t.writeManifest()
}

// manifest says what dist was made of: the hash of each file. Tests of the main module, which has no esbuild, hold the folders
// to it.
type manifest struct {
	Sources map[string]string `json:"sources"`
	Dist    map[string]string `json:"dist"`
}

func (t target) writeManifest() error {
	var m manifest
	var err error
	if m.Sources, err = t.hashes(t.sources); err != nil {
		return err
	}
	if m.Dist, err = t.hashes(t.dist); err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.folder, "dist", "manifest.json"), append(text, '\n'), 0o644)
}

// hashes returns the hash of each file that matches one of the patterns, by its name in the folder.
func (t target) hashes(patterns []string) (map[string]string, error) {
	all := map[string]string{}
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(t.folder, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			sum := sha256.Sum256(text)
			short, err := filepath.Rel(t.folder, name)
			if err != nil {
				return nil, err
			}
			all[filepath.ToSlash(short)] = hex.EncodeToString(sum[:])
		}
	}
	return all, nil
}

// build runs esbuild and returns what came out, and what it says of it.
func build(o api.BuildOptions) (files []api.OutputFile, metafile string, err error) {
	result := api.Build(o)
	if len(result.Errors) > 0 {
		text := api.FormatMessages(result.Errors, api.FormatMessagesOptions{})
		return nil, "", errors.New(strings.TrimSpace(strings.Join(text, "")))
	}
	return result.OutputFiles, result.Metafile, nil
}
