package article

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSONIsAValidArticleOfTheSizeAskedFor(t *testing.T) {
	for _, size := range []int{MinSize, MinSize + 1, 5000, 100 << 10, 1 << 20} {
		text := JSON(size)
		if len(text) != size {
			t.Errorf("%d bytes, want %d", len(text), size)
		}
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Errorf("%d bytes are not JSON", size)
		}
		if !bytes.Equal(text, JSON(size)) {
			t.Errorf("%d bytes are not the same twice", size)
		}
	}
}

func TestAnArticleHasWhatJSONHas(t *testing.T) {
	text := JSON(100 << 10)
	for _, part := range []string{`\"`, `\n`, "ï", "λ", "null", "true", "1.50", "[12,13]", "}]"} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("no %s", part)
		}
	}
}

func TestTokensCutIntoCharacters(t *testing.T) {
	text := JSON(20 << 10)
	tokens := Tokens(text, 4)
	if strings.Join(tokens, "") != string(text) {
		t.Error("something is lost")
	}
	for i, token := range tokens {
		if n := utf8.RuneCountInString(token); n != 4 && (i < len(tokens)-1 || n == 0) || !utf8.ValidString(token) {
			t.Fatalf("token %d is %q", i, token)
		}
	}
	if got := len(Tokens(nil, 4)); got != 0 {
		t.Errorf("nothing gives %d tokens", got)
	}
}
