package main

import (
	"fmt"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

// client is the npm package. Its types are tsc's work, before this one.
var client = target{
	folder:  "../client",
	bundle:  bundleClient,
	sources: []string{"src/*.ts", "tsconfig.json", "../build/client.go", "../build/go.mod"},
	dist:    []string{"dist/*.js", "dist/*.d.ts"},
}

// bundleClient makes the client's bundles. The framework's own packages stay imports, and so does the client in what is made
// for a framework: there must be one of it in a page.
func bundleClient(folder string) (map[string][]byte, error) {
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
		files, _, err := build(o)
		if err != nil {
			return nil, err
		}
		if len(files) != 1 {
			return nil, fmt.Errorf("%s: %d files came out, expected one", entry.source, len(files))
		}
		out[entry.name] = files[0].Contents
	}
	return out, nil
}
