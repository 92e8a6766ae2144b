package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/flow"
)

// guides are the pages whose examples and links are tried.
var guides = []string{"README.md", "CHANGELOG.md", "docs/README.md", "docs/configuration.md", "docs/models.md", "docs/protocol.md", "docs/workflows.md"}

func readGuide(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the fenced blocks of a page that are in this language.
func blocks(page, language string) (found []string) {
	fence, block := "", ""
	for line := range strings.Lines(page) {
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence, block = strings.TrimSpace(line), ""
		case fence != "" && strings.HasPrefix(line, "```"):
			if fence == "```"+language {
				found = append(found, block)
			}
			fence = ""
		default:
			block += line
		}
	}
	return found
}

func TestTheLinksOfTheGuidesLeadSomewhere(t *testing.T) {
	for _, name := range guides {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readGuide(t, name), -1) {
			if _, err := os.Stat(filepath.Join("..", "..", filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	}
}

func TestTheReadmesWorkflowRuns(t *testing.T) {
	yaml := blocks(readGuide(t, "README.md"), "yaml")
	if len(yaml) != 1 {
		t.Fatalf("the README has %d workflows", len(yaml))
	}
	if _, err := flow.ParseSpec("README.md", []byte(yaml[0]), nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "workflows/recipe.yaml", yaml[0])
	cmd := lingserveRun(t, "recipe", "--input", "Pancakes", "--format", "text", "--demo-pace", "0")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n   Tip: ") {
		t.Errorf("%v: %s", err, out)
	}
}

// The requests that the README shows are answered, each in its format.
func TestTheReadmesRequestsAreAnswered(t *testing.T) {
	page := readGuide(t, "README.md")
	p := startServer(t, "--demo-pace", "0")
	tried := 0
	for _, block := range blocks(page, "") {
		for _, m := range regexp.MustCompile(`(?m)curl (?:-N )?'?http://127\.0\.0\.1:8080([^ '\n]+)'?(?: --json '([^'\n]+)')?`).FindAllStringSubmatch(block, -1) {
			tried++
			method, body := http.MethodGet, io.Reader(nil)
			if m[2] != "" {
				method, body = http.MethodPost, strings.NewReader(m[2])
			}
			req, err := http.NewRequestWithContext(t.Context(), method, p.base+m[1], body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			expectAnswer(t, req, "completed")
		}
	}
	if tried != 3 {
		t.Errorf("found %d requests of curl in the README, want 3", tried)
	}
	source := regexp.MustCompile(`new EventSource\("([^"]+)"\)`).FindStringSubmatch(page)
	if source == nil {
		t.Fatal("the README has no EventSource")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.base+source[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	expectAnswer(t, req, "event: finished\ndata: {\"status\":\"completed\"}\n\n")
}

// What the README shows of the server's first words about its model is what the server says.
func TestTheReadmeShowsWhatTheServerSays(t *testing.T) {
	var shown string
	for _, block := range blocks(readGuide(t, "README.md"), "") {
		if strings.HasPrefix(block, "lingserve devel listens on") {
			shown = block
		}
	}
	first, rest, ok := strings.Cut(shown, "  model ")
	about, _, ok2 := strings.Cut(rest, "  workflows ")
	if !ok || !ok2 || strings.Count(first, "\n") != 1 {
		t.Fatalf("the README shows %q", shown)
	}
	p := startServer(t)
	p.waitFor("^  workflows ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if said := strings.Join(p.lines, "\n"); !strings.Contains(said, "  model "+strings.TrimRight(about, "\n")) {
		t.Errorf("the README shows\n%s\nand the server says\n%s", about, said)
	}
}

func expectAnswer(t *testing.T, req *http.Request, want string) {
	t.Helper()
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
		t.Errorf("%s %s: %v", req.Method, req.URL.Path, fmt.Sprint(res.Status, err, string(body)))
	}
}
