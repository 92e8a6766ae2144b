package config

import (
	"slices"
	"testing"
)

// SE-06: a log that is kept clear of secrets is kept clear of what callers show, and not of its entry alone.
func TestTheKeyOfAnEntryIsASecretToo(t *testing.T) {
	c, err := Load(nil, []string{"LINGSERVE_API_KEYS=ann:0123456789abcdefghijklmn:user,bob:abcdefghijklmnopqrstuvwx:admin expires=2099-01-01T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"0123456789abcdefghijklmn", "abcdefghijklmnopqrstuvwx"} {
		if !slices.Contains(c.Secrets(), key) {
			t.Errorf("%s is not among %q", key, c.Secrets())
		}
	}
}
