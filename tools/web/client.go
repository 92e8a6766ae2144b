package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

// client is the npm package. Its types are tsc's work, before this one.
var client = target{
	folder:  "../../web/client",
	bundle:  bundleClient,
	sources: []string{"src/*.ts", "tsconfig.json", "../../tools/web/client.go", "../../tools/web/go.mod"},
	dist:    []string{"dist/*.js", "dist/*.d.ts", "dist/cjs/*"},
}

// bundleClient makes the client's bundles: ES modules, and CommonJS for programs and tests that still need it. The framework's own packages stay imports, and so does the client in what is made
// for a framework: there must be one of it in a page.
func bundleClient(folder string) (map[string][]byte, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{"cjs/package.json": []byte("{ \"type\": \"commonjs\" }\n")}
	for _, entry := range []struct {
		source, name string
		minify       bool
		format       api.Format
	}{
		{"index", "index.js", false, api.FormatESModule},
		{"index", "client.min.js", true, api.FormatESModule},
		{"react", "react.js", false, api.FormatESModule},
		{"vue", "vue.js", false, api.FormatESModule},
		{"index", "cjs/index.js", false, api.FormatCommonJS},
		{"react", "cjs/react.js", false, api.FormatCommonJS},
		{"vue", "cjs/vue.js", false, api.FormatCommonJS},
	} {
		o := api.BuildOptions{
			AbsWorkingDir: root,
			EntryPoints:   []string{"src/" + entry.source + ".ts"},
			Outfile:       filepath.Join(root, "dist", filepath.FromSlash(entry.name)),
			Bundle:        true,
			Format:        entry.format,
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
	// The same types once more: the folder that a declaration is in says whether it is of an ES module or of CommonJS.
	types, err := filepath.Glob(filepath.Join(root, "dist", "*.d.ts"))
	if err != nil {
		return nil, err
	}
	for _, name := range types {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out["cjs/"+filepath.Base(name)] = text
	}
	return out, nil
}
