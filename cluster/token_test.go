package cluster

import (
	"strings"
	"testing"
)

func TestTokensAreReadableAndTellTextsApart(t *testing.T) {
	long := strings.Repeat("ü", 100)
	for _, row := range []struct{ text, token string }{
		{"abc-XYZ_09", "abc-XYZ_09"},
		{"", "="},
		{"=", "=3D"},
		{"a.b", "a=2Eb"},
		{"a=2Eb", "a=3D2Eb"},
		{"* >", "=2A=20=3E"},
		{"日", "=E6=97=A5"},
		{"\x00\xff", "=00=FF"},
		{strings.Repeat("x", 200), strings.Repeat("x", 200)},
	} {
		if got := Token(row.text); got != row.token {
			t.Errorf("Token(%q) is %q, want %q", row.text, got, row.token)
		}
		if got, ok := Untoken(row.token); got != row.text || !ok {
			t.Errorf("Untoken(%q) is %q, %v, want %q", row.token, got, ok, row.text)
		}
	}
	for _, text := range []string{long, strings.Repeat("x", 201)} {
		token := Token(text)
		if !strings.HasPrefix(token, "==") || len(token) > longestToken || token == Token(text+"!") {
			t.Errorf("Token of %d bytes is %q", len(text), token)
		}
		if got, ok := Untoken(token); ok {
			t.Errorf("Untoken(%q) is %q", token, got)
		}
	}
	for _, token := range []string{"", "a.b", "=2", "=2e", "=41", "a=", "=G0", "日", strings.Repeat("x", 201)} {
		if got, ok := Untoken(token); ok {
			t.Errorf("Untoken(%q) is %q, and Token does not make it", token, got)
		}
	}
}

// FuzzToken: any text is one token, and comes back.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "=", "a.b", "日本", "x y", "==", "=2E", strings.Repeat("=", 70)} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ta, tb := Token(a), Token(b)
		if (a == b) != (ta == tb) {
			t.Fatalf("%q and %q have the tokens %q and %q", a, b, ta, tb)
		}
		if !valid(ta) || len(ta) > longestToken {
			t.Fatalf("%q is no token", ta)
		}
		if back, ok := Untoken(ta); ok && back != a || !ok && !strings.HasPrefix(ta, hashed) {
			t.Fatalf("Untoken(%q) is %q, %v, want %q", ta, back, ok, a)
		}
		if text, ok := Untoken(a); ok && Token(text) != a {
			t.Fatalf("%q is the text of %q, whose token is %q", text, a, Token(text))
		}
	})
}

func TestNamesAndSubjectsBeginWithThePrefix(t *testing.T) {
	c := &Cluster{options: Options{Prefix: "p"}}
	if got := c.Name("TAPES"); got != "p_TAPES" {
		t.Error(got)
	}
	if got := c.Subject("tapes", Token("a.b"), ">"); got != "p.tapes.a=2Eb.>" {
		t.Error(got)
	}
	for name, f := range map[string]func(){
		"a text that is no token": func() { c.Subject("a.b") },
		"an empty token":          func() { c.Subject("") },
		"a wildcard in a name":    func() { c.Name("*") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			f()
		}()
	}
}
