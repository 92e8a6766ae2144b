package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// playground is the page at /. What it loads has the hash of its content in its name, so that browsers may keep it for good.
var playground = target{
	folder: "../../web/playground",
	bundle: bundlePlayground,
	sources: []string{
		"src/*.*", "src/*/*.*", "src/*/*/*.*", "package-lock.json", "tsconfig.json", "../client/src/*.ts", "../../tools/web/playground.go", "../../tools/web/go.mod",
	},
	dist:     []string{"dist/*.html", "dist/assets/*"},
	packages: true,
}

// bundlePlayground makes the page and what it loads, the licences of the packages in it among that.
func bundlePlayground(folder string) (map[string][]byte, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	files, metafile, err := build(api.BuildOptions{
		AbsWorkingDir:   root,
		EntryPoints:     []string{"src/main.tsx", "src/theme.ts", "src/style.css", "src/icon.svg"},
		Outdir:          filepath.Join(root, "dist"),
		EntryNames:      "assets/[name]-[hash]",
		Bundle:          true,
		Metafile:        true,
		Loader:          map[string]api.Loader{".svg": api.LoaderCopy},
		Format:          api.FormatESModule,
		Platform:        api.PlatformBrowser,
		Target:          api.ES2022,
		Charset:         api.CharsetUTF8,
		LegalComments:   api.LegalCommentsNone, // the notices have the licences as a whole
		LogLevel:        api.LogLevelSilent,
		JSX:             api.JSXAutomatic,
		JSXImportSource: "preact",
		Define:          map[string]string{"process.env.NODE_ENV": `"production"`},
		TsconfigRaw:     `{"compilerOptions": {"target": "es2022", "useDefineForClassFields": true, "jsx": "react-jsx", "jsxImportSource": "preact"}}`,

		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
	})
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, "src", "index.html"))
	if err != nil {
		return nil, err
	}
	notices, err := noticesOf(root, metafile)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{"assets/notices.txt": notices}
	text := string(page)
	for _, f := range files {
		name, err := filepath.Rel(filepath.Join(root, "dist"), f.Path)
		if err != nil {
			return nil, err
		}
		name = filepath.ToSlash(name)
		out[name] = f.Contents
		// assets/main-ABCDEFGH.js stands in the page as {{main.js}}
		short := strings.TrimPrefix(name, "assets/")
		extension := filepath.Ext(short)
		entry := short[:strings.LastIndexByte(short, '-')] + extension
		if !strings.Contains(text, "{{"+entry+"}}") {
			return nil, fmt.Errorf("index.html does not name {{%s}}", entry)
		}
		text = strings.ReplaceAll(text, "{{"+entry+"}}", "/"+name)
	}
	if at := strings.Index(text, "{{"); at >= 0 {
		return nil, fmt.Errorf("index.html names what is not made: %.40s", text[at:])
	}
	out["index.html"] = []byte(text)
	return out, nil
}

// noticesOf returns the licences of the packages that esbuild has put into a bundle.
func noticesOf(root, metafile string) ([]byte, error) {
	var meta struct {
		Inputs map[string]struct{} `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, err
	}
	var packages []string
	for input := range meta.Inputs {
		_, after, found := strings.Cut(input, "node_modules/")
		if !found {
			continue
		}
		parts := strings.SplitN(after, "/", 3)
		name := parts[0]
		if strings.HasPrefix(name, "@") {
			name += "/" + parts[1]
		}
		if !slices.Contains(packages, name) {
			packages = append(packages, name)
		}
	}
	slices.Sort(packages)
	var b strings.Builder
	b.WriteString("The page of Lingserve has these packages in it.\n")
	for _, name := range packages {
		folder := filepath.Join(root, "node_modules", filepath.FromSlash(name))
		text, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if err != nil {
			return nil, err
		}
		var p struct{ Version, License string }
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		licences, err := filepath.Glob(filepath.Join(folder, "LICEN[CS]E*"))
		if err != nil || len(licences) == 0 {
			return nil, fmt.Errorf("%s: no licence to be kept (%w)", name, err)
		}
		slices.Sort(licences)
		text, err = os.ReadFile(licences[0])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n\n== %s %s, %s\n\n%s\n", name, p.Version, p.License, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	return []byte(b.String()), nil
}
