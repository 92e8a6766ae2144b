package edits

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEditsBetweenWords(t *testing.T) {
	for _, row := range []struct {
		name, a, b string
		want       int
	}{
		{"the same", "model", "model", 0},
		{"nothing", "", "", 0},
		{"all put in", "", "on", 2},
		{"all left out", "on", "", 2},
		{"one put in", "promt", "prompt", 1},
		{"one left out", "prompts", "prompt", 1},
		{"one changed", "mudel", "model", 1},
		{"neighbours swapped", "modle", "model", 1},
		{"swapped, with one between", "ca", "abc", 3}, // each byte is touched once
		{"case", "Model", "model", 1},
		{"long ones", strings.Repeat("x", 100), strings.Repeat("x", 98) + "yz", 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := Between(row.a, row.b, 100); got != row.want {
				t.Errorf("%q and %q: got %d, want %d", row.a, row.b, got, row.want)
			}
		})
	}
}

// DW-10: a short word is near to another one only with one mistake.
func TestTheNearestWordIsTheOneThatWasMeant(t *testing.T) {
	commands := []string{"serve", "run", "chat", "models", "tape", "keys", "channels", "parse", "health", "version", "help"}
	for name, want := range map[string]string{
		"nope": "", "foo": "", "x": "", "start": "", "rum": "run", "serv": "serve", "tapes": "tape", "chanels": "channels", "modls": "models", "HELP": "help",
	} {
		if got := Nearest(name, commands); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// slow is the definition, as it would be written down.
func slow(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	cost := 1
	if a[0] == b[0] {
		cost = 0
	}
	least := min(slow(a[1:], b)+1, slow(a, b[1:])+1, slow(a[1:], b[1:])+cost)
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		least = min(least, slow(a[2:], b[2:])+1)
	}
	return least
}

func TestEditsAreCountedAsDefined(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, most := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(0, 6).Draw(t, "most")
		want, got := slow(a, b), Between(a, b, most)
		if want <= most && got != want || want > most && got <= most {
			t.Fatalf("%q and %q, up to %d: got %d, want %d", a, b, most, got, want)
		}
	})
}

func TestWordsAreComparedWithoutAllocation(t *testing.T) {
	a, b := strings.Repeat("x", 64), strings.Repeat("x", 63)+"y"
	if n := testing.AllocsPerRun(100, func() { Between(a, b, 4) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	huge := strings.Repeat("x", 1<<20)
	if n := testing.AllocsPerRun(100, func() { Between(huge, b, 4) }); n != 0 {
		t.Errorf("%v allocations for a word that is nothing like it", n)
	}
}

func TestWordsThatWereMeant(t *testing.T) {
	known := []string{"prompt", "model", "on", "when", "max"}
	for word, want := range map[string]string{
		"promt": "prompt", "pormpt": "prompt", "Prompt": "prompt", "prompts": "prompt", "modle": "model", "no": "on", "wen": "when",
		"x": "", "something": "", "mxa": "max", strings.Repeat("p", 100): "",
	} {
		if want != "" {
			want = `, did you mean "` + want + `"?`
		}
		if got := DidYouMean(word, known, ""); got != want {
			t.Errorf("%q: got %q, expected %q", word, got, want)
		}
	}
}
