package native

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPreferencesAreReadAsRFC7240HasThem(t *testing.T) {
	seconds := func(n int) *time.Duration { return new(time.Duration(n) * time.Second) }
	for header, want := range map[string]struct {
		async bool
		wait  *time.Duration
	}{
		"":                         {false, nil},
		"respond-async":            {true, nil},
		"wait=10":                  {false, seconds(10)},
		`Wait = "5"`:               {false, seconds(5)},
		"wait=0":                   {false, seconds(0)},
		"respond-async, wait=10":   {true, seconds(10)},
		"wait=3; x=1, wait=4":      {false, seconds(3)},
		"wait=soon, respond-async": {true, nil},
		"wait=-1":                  {false, nil},
		"wait=4000000000":          {false, seconds(24 * 60 * 60)},
	} {
		async, wait := preferences(http.Header{"Prefer": {header}})
		if async != want.async || cmp.Diff(want.wait, wait) != "" {
			t.Errorf("%q: %v %v", header, async, wait)
		}
	}
}
