//go:build nightly && unix

package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/program"
)

// DO-06: after a byte of a session was flipped, and bytes of others were zeroed and cut out, the log names each tape, all else of them is
// there, their conversations go on, and "lingserve tape check" says where the damage is, beside the running server too.
func TestDO_06_DamageOfSessionsIsFoundAndCostsNothingElse(t *testing.T) {
	const say = `{"workflow":"text","session":%q,"input":%q}`
	sessions := []string{"flipped", "zeroed", "cut"}
	workspace := []string{"--workspace", t.TempDir()}
	s := serve(t, serving{args: workspace})
	for _, session := range sessions {
		for _, input := range []string{"apples", "pears", "plums"} {
			a, err := s.do("POST", "/v1/runs", fmt.Sprintf(say, session, input), "Accept: application/json")
			if err != nil || a.state != "completed" {
				t.Fatalf("%v, %v", a, err)
			}
		}
	}
	check := func(want int) string {
		t.Helper()
		path, err := binary.Path(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), path, "tape", "check", "--json", "--data", s.data)
		cmd.Env = program.Environment(t.TempDir())
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || cmd.ProcessState.ExitCode() != want {
			t.Fatalf("check ended with %v, %v, expected %d: %s%s", err, exit, want, out, said.String())
		}
		return string(out)
	}
	check(0)
	s.stop()

	files, err := filepath.Glob(filepath.Join(s.data, "tapes", "*.jsonl"))
	if err != nil || len(files) != len(sessions) {
		t.Fatalf("%q, %v", files, err)
	}
	paths := map[string]string{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range sessions {
			if strings.Contains(string(text), fmt.Sprintf(`"session":%q`, session)) {
				paths[session] = path
			}
		}
		if i := bytes.Index(text, []byte(`"pears"`)); i < 0 {
			t.Fatalf("the words are not in %s", text)
		}
	}
	for session, damage := range map[string]func(text []byte, at int) []byte{
		"flipped": func(text []byte, at int) []byte { text[at] ^= 1; return text }, // it is JSON as before
		"zeroed":  func(text []byte, at int) []byte { clear(text[at : at+3]); return text },
		"cut": func(text []byte, at int) []byte { // the whole line
			from, to := bytes.LastIndexByte(text[:at], '\n')+1, at+bytes.IndexByte(text[at:], '\n')+1
			return append(text[:from:from], text[to:]...)
		},
	} {
		text, err := os.ReadFile(paths[session])
		if err == nil {
			err = os.WriteFile(paths[session], damage(text, bytes.Index(text, []byte(`"pears"`))+1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	s = serve(t, serving{data: s.data, args: workspace})
	for _, session := range sessions {
		a, err := s.do("GET", "/v1/sessions/"+session+"/tape?limit=100", "", "Accept: application/json")
		if err != nil || a.status != 200 {
			t.Fatalf("%v, %v", a, err)
		}
		text := string(a.body)
		for _, word := range []string{`"apples"`, "answer to apples", "answer to pears", `"plums"`, "answer to plums"} {
			if !strings.Contains(text, word) {
				t.Errorf("%s: %s is missing: %s", session, word, text)
			}
		}
		if strings.Contains(text, `"pears"`) || strings.Contains(text, `"qears"`) {
			t.Errorf("%s: what is damaged is read: %s", session, text)
		}
		name := strings.TrimSuffix(filepath.Base(paths[session]), ".jsonl")
		eventually(t, session+": the log names "+name, func() bool {
			log := s.log.String()
			return strings.Contains(log, "tape is damaged") && strings.Contains(log, name)
		})
		a, err = s.do("POST", "/v1/runs", fmt.Sprintf(say, session, "cherries"), "Accept: application/json")
		if err != nil || a.state != "completed" {
			t.Errorf("%s: %v, %v", session, a, err)
		}
		a, err = s.do("GET", "/v1/sessions/"+session, "")
		var info struct {
			Counts struct{ Unreadable int }
		}
		if err != nil || json.Unmarshal(a.body, &info) != nil || info.Counts.Unreadable < 1 {
			t.Errorf("%s: %v, %s", session, err, a.body)
		}
	}
	said := check(1)
	for _, session := range sessions {
		if !strings.Contains(said, `"file":"tapes/`+filepath.Base(paths[session])+`","line":`) {
			t.Errorf("%s: %s", session, said)
		}
	}
	s.stop()
}
