package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

// The blocks of JavaScript, TypeScript and HTML in the guides can be parsed; the rules of all other languages are in cmd/server.
func TestTheCodeOfTheGuidesCanBeParsed(t *testing.T) {
	loaders := map[string]api.Loader{"js": api.LoaderJS, "jsx": api.LoaderJSX, "ts": api.LoaderTS, "html": api.LoaderJS}
	blocks := regexp.MustCompile("(?sm)^```(js|jsx|ts|html)\n(.*?)^```$")
	scripts := regexp.MustCompile(`(?s)<script type="module">\n(.*?)</script>`)
	root := os.DirFS(filepath.Join("..", ".."))
	read := 0
	for _, start := range []string{"README.md", "docs", "web/client/README.md"} {
		err := fs.WalkDir(root, start, func(page string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(page, ".md") {
				return err
			}
			text, err := fs.ReadFile(root, page)
			if err != nil {
				return err
			}
			for _, at := range blocks.FindAllSubmatchIndex(text, -1) {
				read++
				lang, code, line := string(text[at[2]:at[3]]), string(text[at[4]:at[5]]), strings.Count(string(text[:at[4]]), "\n")
				if lang == "html" {
					script := scripts.FindStringSubmatchIndex(code)
					if script == nil {
						t.Errorf("%s:%d: the page has no script", page, line+1)
						continue
					}
					line += strings.Count(code[:script[2]], "\n")
					code = code[script[2]:script[3]]
				}
				for _, e := range api.Transform(code, api.TransformOptions{Loader: loaders[lang], Format: api.FormatESModule}).Errors {
					if e.Location != nil {
						line += e.Location.Line
					}
					t.Errorf("%s:%d: %s", page, line, e.Text)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if read < 20 {
		t.Errorf("only %d blocks were read", read)
	}
}
