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

// bundle makes the files of dist, by name, from the sources in folder. The framework's own packages stay imports, and so does
// the client in what is made for a framework: there must be one of it in a page.
func bundle(folder string) (map[string][]byte, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, entry := range []struct {
		source, name string
		minify       bool
	}{
		{"index", "index.js", false},
		{"index", "client.min.js", true},
		{"react", "react.js", false},
		{"vue", "vue.js", false},
	} {
		o := api.BuildOptions{
			AbsWorkingDir: root,
			EntryPoints:   []string{"src/" + entry.source + ".ts"},
			Outfile:       filepath.Join(root, "dist", entry.name),
			Bundle:        true,
			Format:        api.FormatESModule,
			Platform:      api.PlatformNeutral,
			Target:        api.ES2022,
			Charset:       api.CharsetUTF8,
			LegalComments: api.LegalCommentsNone,
			LogLevel:      api.LogLevelSilent,
			TsconfigRaw:   `{"compilerOptions": {"target": "es2022", "useDefineForClassFields": true}}`,

			MinifyWhitespace:  entry.minify,
			MinifyIdentifiers: entry.minify,
			MinifySyntax:      entry.minify,
		}
		if entry.source != "index" {
			o.External = []string{"react", "vue", "./index.js"}
		}
		result := api.Build(o)
		if len(result.Errors) > 0 {
			text := api.FormatMessages(result.Errors, api.FormatMessagesOptions{})
			return nil, errors.New(strings.TrimSpace(strings.Join(text, "")))
		}
		if len(result.OutputFiles) != 1 {
			return nil, fmt.Errorf("%s: %d files came out, expected one", entry.source, len(result.OutputFiles))
		}
		out[entry.name] = result.OutputFiles[0].Contents
	}
	return out, nil
}

// manifest says what dist was made of: the hash of each file, by its name in the client's folder. A test of the main module,
// which has no esbuild, holds the folder to it.
type manifest struct {
	Sources map[string]string `json:"sources"`
	Dist    map[string]string `json:"dist"`
}

func writeManifest(folder string) error {
	m := manifest{Sources: map[string]string{}, Dist: map[string]string{}}
	for pattern, into := range map[string]map[string]string{
		"src/*.ts": m.Sources, "tsconfig.json": m.Sources, "build/*.go": m.Sources, "build/go.mod": m.Sources,
		"dist/*.js": m.Dist, "dist/*.d.ts": m.Dist,
	} {
		names, err := filepath.Glob(filepath.Join(folder, filepath.FromSlash(pattern)))
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(text)
			short, err := filepath.Rel(folder, name)
			if err != nil {
				return err
			}
			into[filepath.ToSlash(short)] = hex.EncodeToString(sum[:])
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "dist", "manifest.json"), append(text, '\n'), 0o644)
}
