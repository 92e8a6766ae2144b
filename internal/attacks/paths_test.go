//go:build nightly

package attacks

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/internal/fakeproviders"
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

// SE-20: a name is a name, wherever it is given: it is refused or taken as it is, and nothing outside of the folders is read or written.
func TestNoNameLeadsOutOfAFolder(t *testing.T) { // SE-20
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

// SE-20, SE-21: the tools of an agent stay in their folders, whatever its model asks them for.
func TestNoToolLeadsOutOfAFolder(t *testing.T) { // SE-20
	v := server(t)
	link := filepath.Join(v.folder, "workspace", "link")
	if err := os.Symlink(filepath.Join(v.folder, "secret.txt"), link); err != nil && !os.IsExist(err) {
		t.Logf("no links here: %v", err)
	}
	if err := os.Symlink(v.folder, filepath.Join(v.folder, "workspace", "folder")); err != nil && !os.IsExist(err) {
		t.Logf("no links here: %v", err)
	}
	v.file(t, "workspace/notes.txt", "a note of the folder")
	names := map[string]string{"a good name": "notes.txt", "a link": "link", "a link to a folder": "folder/secret.txt", "the settings": "../lingserve.yaml", "the data": "../data"}
	for name, text := range outside {
		names[name] = text
	}
	for name, text := range names {
		var calls []fakeproviders.ToolCall
		for tool, member := range map[string]string{"fs_read": "path", "fs_list": "path", "spill_read": "id", "skill": "name"} {
			calls = append(calls, fakeproviders.ToolCall{ID: "call_" + tool, Name: tool, Arguments: `{` + quoted(member) + `:` + quoted(text) + `}`})
		}
		var mu sync.Mutex
		var told string
		word := v.answer(func(r fakeproviders.Request) fakeproviders.Answer {
			mu.Lock()
			defer mu.Unlock()
			told = string(r.Body)
			if strings.Contains(told, "call_fs_read") {
				return fakeproviders.Answer{Text: "done"}
			}
			return fakeproviders.Answer{ToolCalls: calls}
		})
		got := v.do(t, "POST", "/v1/runs?include=reserved", `{"agent":"assistant","input":"`+word+`"}`)
		if got.status != 200 || !strings.Contains(got.body, `"completed"`) {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		mu.Lock()
		if !strings.Contains(told, "call_skill") || strings.Contains(told, "root:") || strings.Contains(told, canary) || strings.Contains(got.body, fileSecret) {
			t.Errorf("%s: the model was told %s", name, told)
		}
		if good := strings.Contains(told, "a note of the folder"); good != (text == "notes.txt") {
			t.Errorf("%s: the file was read: %v", name, good)
		}
		mu.Unlock()
	}
	checkFiles(t, v)
}

// SE-20: names that differ are different sessions, however alike they look to people or to a file system.
func TestNamesThatLookAlikeAreNotTheSameSession(t *testing.T) { // SE-20
	v := server(t)
	names := []string{
		"Case", "case", "CASE", "case ", " case", "case.", "case/", "/case", "case//a", "case/a", "c\u0430se", "ca\u0301se", "c\u00e1se", "ｃａｓｅ", "case:a", "case%2fa",
		"case\u200b", "ca\u017fe", "con", "CON", "nul.txt", "ß", "ss", "İ", "i̇", strings.Repeat("ab", 256), strings.Repeat("ab", 255) + "b",
	}
	for i, name := range names {
		got := v.do(t, "POST", "/v1/runs", `{"agent":"assistant","session":`+quoted(name)+`,"input":"this is `+itoa(i)+`."}`)
		if got.status != 200 {
			t.Fatalf("%q: %d %s", name, got.status, got.body)
		}
	}
	for i, name := range names {
		got := v.do(t, "GET", "/v1/sessions/"+escape(name)+"/tape", "")
		var texts []string
		for part := range strings.SplitSeq(got.body, "this is ") {
			n, _, _ := strings.Cut(part, ".")
			if len(n) < 3 {
				texts = append(texts, n)
			}
		}
		if got.status != 200 || len(texts) == 0 || slices.ContainsFunc(texts, func(n string) bool { return n != itoa(i) }) {
			t.Errorf("%q: %d, has what was said as %q", name, got.status, texts)
		}
	}
	// One is erased, and the others stay.
	if got := v.do(t, "DELETE", "/v1/sessions/"+escape(names[0]), ""); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	for i, name := range names {
		want := 200
		if i == 0 {
			want = 404
		}
		if got := v.do(t, "GET", "/v1/sessions/"+escape(name), ""); got.status != want {
			t.Errorf("%q: %d %s", name, got.status, got.body)
		}
	}
	checkFiles(t, v)
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

// SE-05, SE-20: a text of a caller that looks like a template, a path or an address stays what it is on its way to the model.
func TestWhatACallerSaysReachesTheModelAsItIs(t *testing.T) { // SE-05
	v := server(t)
	for name, text := range map[string]string{
		"a template":        "{{ input.q }}{% include \"/etc/passwd\" %}{{ \"a\"|center:200000000 }}{# x #}",
		"quotes":            `"'<>&&amp;&quot;\`,
		"an end of a block": "{% endautoescape %}{% endif %}",
		"a verbatim":        "{% verbatim %}{{ x }}",
	} {
		var mu sync.Mutex
		var told []fakeproviders.Message
		word := v.answer(func(r fakeproviders.Request) fakeproviders.Answer {
			mu.Lock()
			defer mu.Unlock()
			told = r.Messages
			return fakeproviders.Answer{Text: "blue"}
		})
		v.do(t, "POST", "/v1/runs", run("text", word+text))
		mu.Lock()
		if len(told) != 2 || told[1].Content != word+text || told[0].Content != "Answer." {
			text, _ := json.Marshal(told)
			t.Errorf("%s: the model was told %s", name, text)
		}
		mu.Unlock()
	}
}
