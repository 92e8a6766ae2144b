package flow

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var fences = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// What the guide shows works, and its errors are those that one gets.
func TestTheGuideIsRight(t *testing.T) {
	guide, err := os.ReadFile("../docs/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	var trip, loop string
	read, console := 0, ""
	var broken []string
	for _, fence := range fences.FindAllStringSubmatch(string(guide), -1) {
		lang, text := fence[1], fence[2]
		switch {
		case lang == "console" && strings.HasPrefix(text, "$ lingserve run broken"):
			console = text
		case lang != "yaml":
		case strings.HasPrefix(text, "name: broken"):
			_, err := ParseSpec("workflows/broken.yaml", []byte(text), exampleFiles)
			for _, line := range lines(err) {
				broken = append(broken, "lingserve: "+line)
			}
		case strings.HasPrefix(text, "name: trip"):
			trip = text
			parse(t, text)
			read++
		case strings.HasPrefix(text, "  stop:"):
			parse(t, trip+text)
			read++
		case strings.HasPrefix(text, "events:"):
			parse(t, "bots: {outline: {root: article}}\n"+text)
			read++
		default:
			parse(t, text)
			read++
			if strings.Contains(text, "critic") {
				loop = text
			}
		}
	}
	if read < 6 {
		t.Errorf("only %d workflows were found", read)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSuffix(console, "\n"), "\n")[1:], broken); diff != "" {
		t.Error(diff)
	}
	for good, want := range map[string]int{"true": 2, "false": 8} { // draft and critic; and three times again
		m := answers(map[string]string{"{}": `{"text":"a text"}`, "a text": `{"better":"x","good":` + good + `}`, `{"`: `{"text":"a text"}`})
		runs(t, parse(t, loop), m, `{}`, nil, func(t *testing.T, d done) {
			if len(m.asked) != want || d.Status != "completed" {
				t.Errorf("good: %s: %d bots, %s: %s", good, len(m.asked), d.Status, d.Result.Result)
			}
		})
	}
}
