package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func readGuide(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
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

var (
	link     = regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]+))?\)`)
	titled   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// A link leads to a file, and its anchor to a heading.
func TestTheLinksOfTheGuidesLeadSomewhere(t *testing.T) {
	pages := append(guidePages(t), "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "web/client/README.md")
	anchors := map[string][]string{} // by page, as GitHub makes them of headings
	for _, name := range pages {
		for _, m := range titled.FindAllStringSubmatch(readGuide(t, name), -1) {
			anchors[name] = append(anchors[name], strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
		}
	}
	for _, name := range pages {
		for _, m := range link.FindAllStringSubmatch(readGuide(t, name), -1) {
			to := name
			if m[1] != "" {
				to = path.Join(path.Dir(name), m[1])
			}
			if _, err := os.Stat(filepath.Join(repository, to)); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if known := anchors[to]; known != nil && m[2] != "" && name != "CHANGELOG.md" && !slices.Contains(known, m[2]) {
				t.Errorf("%s links to %s, and %s has no such heading", name, m[0], to)
			}
		}
	}
}

// DW-09: the events that the pages show are those that a new server sends, with the same numbers.
func TestThePagesShowTheEventsThatAreSent(t *testing.T) {
	const encyclopedia = "/v1/runs?workflow=encyclopedia&input=Why+is+the+sky+blue%3F"
	p := startServer(t, "--demo-pace", "0")
	tried := 0
	for _, block := range append(blocks(readGuide(t, "docs/protocol.md"), "sse"), blocks(readGuide(t, "README.md"), "sse")...) {
		if !strings.Contains(block, "\ndata: {") || strings.Contains(block, "event: waiting\n") || strings.Contains(block, "event: restarted\n") { // which need a busy server, and one that crashed
			continue
		}
		tried++
		_, said := get(t, p.base+encyclopedia+"&format=sse")
		if strings.Contains(block, `data: {"uri":"",`) { // a snapshot
			run := regexp.MustCompile(`(?m)^id: ([a-z2-7]+):0$`).FindStringSubmatch(said)
			if run == nil {
				t.Fatal(said)
			}
			_, said = get(t, p.base+"/v1/runs/"+run[1]+"/events?snapshot=1&format=sse")
		}
		expectShown(t, "GET "+encyclopedia, "…\n"+strings.TrimSpace(block)+"\n…", said) // a part of it
	}
	if tried != 3 {
		t.Errorf("%d examples were tried, want 3", tried)
	}
}

// expectShown expects the lines that a page shows, in their order; a line with … alone stands for any number of lines, and … in a line for
// any text.
func expectShown(t *testing.T, command, shown, said string) {
	t.Helper()
	lines, skip := strings.Split(strings.TrimSpace(alike(said)), "\n"), false
	for want := range strings.SplitSeq(strings.TrimSpace(alike(shown)), "\n") {
		if want == "…" {
			skip = true
			continue
		}
		i := slices.IndexFunc(lines, func(line string) bool {
			return matches(strings.Split(want, "…"), line)
		})
		if i < 0 || i > 0 && !skip {
			t.Errorf("%s: the page shows\n%s\nand what comes is\n%s", command, want, strings.Join(lines, "\n"))
			return
		}
		lines, skip = lines[i+1:], false
	}
	if len(lines) > 0 && !skip {
		t.Errorf("%s: the page does not show\n%s", command, strings.Join(lines, "\n"))
	}
}

// matches reports whether the line consists of these parts with any text between them.
func matches(parts []string, line string) bool {
	rest, ok := strings.CutPrefix(line, parts[0])
	for _, part := range parts[1:] {
		if part == "" { // the last one
			return ok
		}
		i := strings.Index(rest, part)
		if ok = ok && i >= 0; !ok {
			return false
		}
		rest = rest[i+len(part):]
	}
	return ok && rest == ""
}

// alike makes outputs of the same commands the same: without the ids of runs, dates, times to come back and the number of an event that
// comes while several bots write.
func alike(output string) string {
	output = regexp.MustCompile(`\b[a-z2-7]{26}\b`).ReplaceAllString(output, "run")
	output = regexp.MustCompile(`run:\d+","event":"outline-ready"`).ReplaceAllString(output, `run:0","event":"outline-ready"`)
	output = regexp.MustCompile(`(?m)^retry: \d+$`).ReplaceAllString(output, "retry: 0")
	output = regexp.MustCompile(`"(created|created_at|expires_at|bytes|prompt_tokens|completion_tokens|total_tokens)":\d+`).ReplaceAllString(output, `"$1":0`)
	output = regexp.MustCompile(`\b\w{16}__\w{16}\b`).ReplaceAllString(output, "tape")
	return regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`).ReplaceAllString(output, "date")
}
