//go:build nightly

package attacks

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

// DA-13: two ids of sessions have one hash. They were searched for: that takes five thousand million hashes. Who uses the second id is told
// that it cannot be used, the log names both, and the first session is as it was. With keys, the two are of different callers: the second one
// learns nothing of the first one's session but that.
func TestDA_13_ASessionWhoseHashIsAnothersIsRefusedAsThat(t *testing.T) {
	const (
		cannot       = "this session id cannot be used; choose another one"
		alice, carol = "CANARYalice0123456789abcdef", "CANARYcarol0123456789abcdef"
	)
	for name, of := range map[string]struct {
		setup               setup
		first, second       string // as callers name them
		firstID, secondID   string // as the server does
		firstKey, secondKey string
	}{
		"without keys": {first: "57d915daec76c2cc", second: "9547bebb3b269de0", firstID: "57d915daec76c2cc", secondID: "9547bebb3b269de0"},
		"of two keys": {
			setup: setup{env: []string{"LINGSERVE_API_KEYS=alice:" + alice + ":user,carol:" + carol + ":user"}},
			first: "99c12a56c1a20e14", second: "d55aba48e8c4ee6a", firstID: "web:alice#99c12a56c1a20e14", secondID: "web:carol#d55aba48e8c4ee6a",
			firstKey: alice, secondKey: carol,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if a, b := tape.Name("/", of.firstID), tape.Name("/", of.secondID); a != b {
				t.Fatalf("their names are %s and %s: nothing is tested", a, b)
			}
			v := ownServer(t, of.setup)
			as := func(key string, header ...string) []string {
				if key != "" {
					header = append(header, "Authorization: Bearer "+key)
				}
				return header
			}
			run := func(key, session, input string) reply {
				return v.do(t, "POST", "/v1/runs", `{"agent":"assistant","session":"`+session+`","input":"`+input+`"}`, as(key, "Accept: application/json")...)
			}
			if r := run(of.firstKey, of.first, "hello"); r.status != 200 {
				t.Fatalf("the first session: %v", r)
			}
			before := v.do(t, "GET", "/v1/sessions/"+of.first, "", as(of.firstKey)...)
			if before.status != 200 {
				t.Fatalf("the first session: %v", before)
			}
			path := "/v1/sessions/" + of.second
			for _, request := range [][3]string{
				{"GET", path, ""},
				{"GET", path + "/tape", ""},
				{"GET", path + "/tape?format=jsonl", ""},
				{"POST", path + "/handoff", `{"name":"phase"}`},
				{"POST", path + "/fork", `{}`},
				{"DELETE", path, ""},
			} {
				r := v.do(t, request[0], request[1], request[2], as(of.secondKey)...)
				if r.status != 409 || !strings.Contains(r.body, `"code":"conflict"`) || !strings.Contains(r.body, cannot) {
					t.Errorf("%s %s: %v", request[0], request[1], r)
				}
			}
			if r := run(of.secondKey, of.second, "hello"); r.status != 409 || !strings.Contains(r.body, "This session id cannot be used; please choose another one.") {
				t.Errorf("a run: %v", r)
			}
			other := "third"
			if r := run(of.secondKey, other, "hello"); r.status != 200 {
				t.Errorf("another session: %v", r)
			}
			if r := v.do(t, "POST", "/v1/sessions/"+other+"/fork", `{"session":"`+of.second+`"}`, as(of.secondKey)...); r.status != 409 || !strings.Contains(r.body, cannot) {
				t.Errorf("a fork into it: %v", r)
			}
			if r := v.do(t, "GET", "/v1/sessions", "", as(of.secondKey)...); of.secondKey != "" && strings.Contains(r.body, of.first) {
				t.Errorf("the second caller's list has the first one's session: %v", r)
			}
			if after := v.do(t, "GET", "/v1/sessions/"+of.first, "", as(of.firstKey)...); after.body != before.body {
				t.Errorf("the first session was %s and is %s", before.body, after.body)
			}
			if of.secondKey != "" && strings.Contains(v.seen.String(), "alice") {
				t.Error("an answer names the first session's owner")
			}
			log := v.Log.String()
			for _, line := range strings.Split(log, "\n") {
				if strings.Contains(line, `"two sessions have the same hash"`) || strings.Contains(line, `"turn failed"`) {
					if !strings.Contains(line, of.firstID) || !strings.Contains(line, of.secondID) || !strings.Contains(line, `"level":"ERROR"`) {
						t.Errorf("the log says %s", line)
					}
				}
			}
			for _, want := range []string{`"two sessions have the same hash"`, `"turn failed"`} {
				if !strings.Contains(log, want) {
					t.Errorf("the log does not have %s", want)
				}
			}
		})
	}
}
