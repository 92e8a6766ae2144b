package examples

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/jsonuri"
)

var binaries string // the folder that they are in

func TestMain(m *testing.M) {
	os.Exit(buildAndTest(m))
}

func buildAndTest(m *testing.M) int {
	var err error
	if binaries, err = os.MkdirTemp("", "examples"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(binaries)
	build := exec.Command("go", "build", "-o", binaries+string(filepath.Separator), "./manager", "./imagebot", "./parser", "./plugin", "./server")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
		return 1
	}
	return m.Run()
}

// run runs a program and returns what it prints.
func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(binaries, name), args...)
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, problems.Bytes())
	}
	return out.Bytes()
}

type article struct {
	Title    string
	Sections []struct{ Title, Body string }
}

func TestManager(t *testing.T) {
	// At this pace the plan goes on for a quarter of a second after the first title: long enough for the others to begin.
	out := run(t, "manager", "-pace", "200")
	var document jsonuri.Document
	var last string
	firstBody, lastPlan := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(out))
	for n := 1; lines.Scan(); n++ {
		var e struct {
			ID, Event string
			URI       *string
			Delta     json.RawMessage
			Data      struct{ Status string }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.ID == "" {
			t.Fatalf("line %d: %s: %v", n, lines.Bytes(), err)
		}
		if last = e.Event; e.URI == nil {
			if e.Event == "error" {
				t.Errorf("%s", lines.Bytes())
			}
			if e.Event == "finished" && e.Data.Status != "completed" {
				t.Errorf("%s", lines.Bytes())
			}
			continue
		}
		if strings.HasSuffix(*e.URI, "/body") && firstBody == 0 {
			firstBody = n
		}
		if strings.HasSuffix(*e.URI, "/title") || *e.URI == "article/note" {
			lastPlan = n
		}
		var err error
		if content, isText := bytes.CutPrefix(e.Delta, []byte(`"`)); isText {
			err = document.Append([]byte(*e.URI), bytes.TrimSuffix(content, []byte(`"`)))
		} else {
			err = document.Set([]byte(*e.URI), e.Delta)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var result struct{ Article article }
	if err := json.Unmarshal(document.AppendJSON(nil), &result); err != nil {
		t.Fatal(err)
	}
	s := result.Article.Sections
	if last != "finished" || result.Article.Title == "" || len(s) < 3 || s[0].Body == "" || s[1].Body == "" || s[2].Body != "" {
		t.Errorf("last event %q, document %s", last, document.AppendJSON(nil))
	}
	if firstBody == 0 || firstBody > lastPlan {
		t.Errorf("the first text came in line %d, the last of the plan in line %d", firstBody, lastPlan)
	}
}

func TestImagebot(t *testing.T) {
	var result struct {
		Article article
		Image   struct{ Alt, SVG string }
	}
	if err := json.Unmarshal(run(t, "imagebot", "-pace", "-1"), &result); err != nil {
		t.Fatal(err)
	}
	if result.Image.Alt != "A picture of: "+result.Article.Title || !strings.HasPrefix(result.Image.SVG, "<svg ") || !strings.HasSuffix(result.Image.SVG, "</svg>") {
		t.Errorf("%+v", result)
	}
}

func TestParser(t *testing.T) { golden(t, "parser") }

func TestPlugin(t *testing.T) { golden(t, "plugin") }

// golden compares what a program prints with testdata.
func golden(t *testing.T, name string) {
	t.Helper()
	got := run(t, name)
	golden := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestServer(t *testing.T) {
	status, body, _ := strings.Cut(string(run(t, "server", "-pace", "-1")), "\n")
	var answer struct {
		Status string
		Result struct {
			Prose   string
			Article article
		}
		Errors []any
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	if status != "200 OK" || answer.Status != "completed" || answer.Result.Prose == "" || answer.Result.Article.Title == "" || len(answer.Errors) > 0 {
		t.Errorf("%s %+v", status, answer)
	}
}
