package store_test

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/store"
)

// ST-01: a part of any text is good in a key, and different texts have different parts.
func TestAPartOfAKeyIsMadeOfAnyText(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"", "a", "A", "a.b", ".a", "~2ea", "~~", "hook@work", "a/b", "a b", "é", "\x00", strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("/", 100)} {
		part := store.KeyPart(text)
		if err := store.CheckKey(part); err != nil || strings.Contains(part, "/") {
			t.Errorf("%q has the part %q: %v", text, part, err)
		}
		if other, twice := seen[part]; twice {
			t.Errorf("%q and %q have the part %q", text, other, part)
		}
		seen[part] = text
	}
	if got := store.KeyPart("pair-0a.B_9"); got != "pair-0a.B_9" {
		t.Errorf("got %q", got)
	}
}
