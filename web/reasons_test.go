package web

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/web/wire"
)

// DO-11: metrics create a series for each reason at the start. A reason that the code has and the list has not would begin late.
func TestEveryReasonOfARefusalIsListed(t *testing.T) {
	listed, found := Reasons(), map[string]bool{}
	// Refusal{Reason: "word"}, unauthorized("word"), forbidden("word"), limited("word"), limitBody = "limit_body"
	words := regexp.MustCompile(`(?:Refusal\{[^}]*\bReason:\s*|\bunauthorized\(|\bforbidden\(|\blimited\(|\b(?:limit|Limit)\w+\s*=\s*)"(\w+)"\s*[,)}\n]`)
	for _, folder := range []string{".", "../access", "../run"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has %d files: %v", folder, len(files), err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range words.FindAllStringSubmatch(string(text), -1) {
				found[m[1]] = found[m[1]] || !strings.HasSuffix(name, "_test.go")
			}
		}
	}
	for reason, in := range found {
		if in && !slices.Contains(listed, reason) {
			t.Errorf("the list of reasons lacks %q", reason)
		}
	}
	for i, reason := range listed {
		if !found[reason] && !wire.IsRefusal(wire.Statuses[reason]) {
			t.Errorf("no code gives the reason %q", reason)
		}
		if i > 0 && listed[i-1] == reason {
			t.Errorf("%q is listed twice", reason)
		}
	}
}
