//go:build nightly

package attacks

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// outside are names that would lead out of a folder, to another file of it, or to a device.
var outside = map[string]string{
	"up":                       "../secret.txt",
	"up and up":                "../../../../../../../../etc/passwd",
	"up with backslashes":      `..\..\secret.txt`,
	"up in the middle":         "a/../../secret.txt",
	"up and twice the slashes": "....//....//secret.txt",
	"escaped":                  "%2e%2e%2fsecret.txt",
	"escaped twice":            "%252e%252e%252fsecret.txt",
	"overlong UTF-8":           "\xc0\xae\xc0\xae/secret.txt",
	"fullwidth dots":           "\uff0e\uff0e\uff0fsecret.txt",
	"a division slash":         "..\u2215secret.txt",
	"absolute":                 "/etc/passwd",
	"a drive":                  `C:\secret.txt`,
	"a share":                  `\\host\share`,
	"a device":                 "CON",
	"a stream of a file":       "secret.txt::$DATA",
	"a NUL":                    "secret.txt\x00.yaml",
	"a dot":                    ".",
	"two dots":                 "..",
	"a hidden name":            ".hidden",
	"a blank behind":           "secret.txt ",
	"a dot behind":             "secret.txt.",
	"nothing":                  "",
	"a tilde":                  "~/secret.txt",
	"a star":                   "*",
	"an address":               "file:///etc/passwd",
	"a long name":              strings.Repeat("a", 300),
	"a very long name":         strings.Repeat("../", 200),
	"a line break":             "a\nb",
}

// SE-20, SE-23: a name is refused or taken as it is, wherever it stands. Files are read and written in the server's folders alone, and for
// nobody else to read.
func TestNoNameLeadsOutOfTheFolders(t *testing.T) {
	v := server(t)
	for name, text := range outside {
		path, body := escape(text), quoted(text)
		for _, row := range []struct{ method, path, body string }{
			{"GET", "/" + strings.Map(graphic, text), ""},
			{"GET", "/" + path, ""},
			{"GET", "/assets/" + path, ""},
			{"GET", "/assets/../" + path, ""},
			{"GET", "/v1/workflows/" + path, ""},
			{"GET", "/v1/models/" + path, ""},
			{"GET", "/v1/runs/" + path, ""},
			{"GET", "/v1/runs/" + path + "/events", ""},
			{"POST", "/v1/runs/" + path + "/cancel", ""},
			{"POST", "/v1/runs/" + path + "/approvals/" + path, `{"decision":"approve"}`},
			{"GET", "/v1/sessions/" + path, ""},
			{"GET", "/v1/sessions/" + path + "/tape", ""},
			{"DELETE", "/v1/sessions/" + path, ""},
			{"POST", "/v1/sessions/" + path + "/handoff", `{"name":` + body + `}`},
			{"POST", "/v1/sessions/" + path + "/fork", `{"session":` + body + `}`},
			{"POST", "/v1/channels/" + path + "/webhook", "{}"},
			{"GET", "/v1/agui/" + path + "/" + path, ""},
			{"POST", "/v1/agui/" + path, `{"threadId":` + body + `,"runId":"r","messages":[{"id":"m","role":"user","content":"hello"}]}`},
			{"POST", "/v1/agui/assistant", `{"threadId":` + body + `,"runId":"r","messages":[{"id":"m","role":"user","content":"hello"}]}`},
			{"GET", "/v1/ui/" + path + "/" + path, ""},
			{"GET", "/v1/ui/assistant/" + path, ""},
			{"POST", "/v1/ui/assistant", `{"id":` + body + `,"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hello"}]}]}`},
			{"POST", "/v1/chat/completions", `{"model":` + body + `,"messages":[{"role":"user","content":"hello"}]}`},
			{"POST", "/v1/chat/completions", `{"model":"assistant","user":` + body + `,"messages":[{"role":"user","content":"hello"}]}`},
			{"POST", "/v1/runs", run(text, "hello")},
			{"POST", "/v1/runs", `{"agent":` + body + `,"input":"hello"}`},
			{"POST", "/v1/runs", `{"agent":"assistant","session":` + body + `,"input":"hello"}`},
			{"POST", "/v1/runs", `{"workflow":"text","session":` + body + `,"input":"hello"}`},
			{"POST", "/v1/runs", `{"workflow":"text","model":` + quoted("openai:"+text) + `,"input":"hello"}`},
			{"POST", "/v1/runs", `{"workflow":{"name":` + body + `,"bots":{"writer":{"prompt":{"file":` + body + `},"root":"a"}}}}`},
			{"POST", "/v1/runs", `{"workflow":{"name":"x","bots":{"writer":{"prompt":"x","schema":{"$ref":` + body + `},"root":"a"}}}}`},
		} {
			got := v.do(t, row.method, row.path, row.body)
			if got.status >= 500 && got.status != 502 {
				t.Errorf("%s: %s %s: %d %s", name, row.method, row.path, got.status, got.body)
			}
			if strings.Contains(got.body, "root:") || strings.Contains(got.body, fileSecret) {
				t.Errorf("%s: %s %s: a file of the machine is in the answer: %s", name, row.method, row.path, clip(got.body))
			}
		}
	}
	checkFiles(t, v)
}

// graphic leaves out what no request line can have.
func graphic(r rune) rune {
	if r <= ' ' || r > '~' {
		return -1
	}
	return r
}

// checkFiles looks at what the server has written: in its data folder alone, ordinary files, for nobody else (SE-20, SE-23).
func checkFiles(t *testing.T, v *victim) {
	t.Helper()
	known := []string{"data", "workflows", "workspace", "secret.txt", "lingserve.yaml"}
	entries, err := os.ReadDir(v.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			t.Errorf("%s was written outside of the data folder", e.Name())
		}
	}
	err = filepath.WalkDir(filepath.Join(v.folder, "data"), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // written and renamed meanwhile
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if !d.IsDir() && !d.Type().IsRegular() {
			t.Errorf("%s is %v", path, d.Type())
		}
		if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// escape writes a text as a segment of a path.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}
