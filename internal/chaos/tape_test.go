//go:build nightly && unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// entry is one of a tape.
type entry struct {
	Kind    string
	Payload struct{ Role, Content string }
	Meta    struct{ Turn string }
}

// checkTape holds the session's tape to what was acknowledged: each turn that was is there once, in order, with its answer behind it;
// one of which that is not known is there once or not at all, and nothing else is there.
func (s *session) checkTape(ctx context.Context) {
	ctx, cancel := s.w.patient(ctx, errors.New("no tape"))
	defer cancel()
	status, text, err := s.ask(ctx, "GET", "/v1/sessions/"+s.id+"/tape?format=jsonl&limit=1000", "")
	some := slices.ContainsFunc(s.turns, func(t *turn) bool { return t.agent != "" && t.state == "completed" })
	if err != nil || status != http.StatusOK && (some || status != http.StatusNotFound) {
		s.w.fail("the tape of %s: %d %.300s, %v", s.id, status, text, err)
		return
	}
	if status == http.StatusNotFound {
		return
	}
	var messages []entry
	for line := range strings.Lines(string(text)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.w.fail("the tape of %s: %v in %.300s", s.id, err, line)
			return
		}
		if e.Kind == "message" {
			messages = append(messages, e)
		}
	}
	known, last := map[string]bool{}, -1
	for _, t := range s.turns {
		if t.agent == "" {
			continue
		}
		for _, input := range append(slices.Clone(t.tries), t.input) {
			known[input] = true
			if n := count(messages, input); n > 1 {
				s.fail(t, "the tape has %q %d times", input, n)
			}
		}
		if t.state != "completed" {
			continue
		}
		asks := slices.IndexFunc(messages, func(e entry) bool { return e.Payload.Role == "user" && e.Payload.Content == t.input })
		says := slices.IndexFunc(messages, func(e entry) bool { return e.Payload.Role == "assistant" && e.Payload.Content == textOf(t.input) })
		switch {
		case asks < 0:
			s.fail(t, "was completed, and is not on the tape")
		case says < asks:
			s.fail(t, "was completed, and its answer is not on the tape: %d messages", len(messages))
		case asks <= last:
			s.fail(t, "stands before an earlier one on the tape")
		default:
			last = says
		}
		s.checkHeard(t)
	}
	for _, e := range messages {
		if e.Payload.Role == "user" && !known[e.Payload.Content] {
			s.w.fail("the tape of %s has %q, which nobody said", s.id, e.Payload.Content)
		}
	}
	s.w.count("compared tapes")
}

func count(messages []entry, input string) (n int) {
	for _, e := range messages {
		if e.Payload.Role == "user" && e.Payload.Content == input {
			n++
		}
	}
	return n
}

// checkHeard looks at what the model was told of the conversation: all that was acknowledged before, in order.
func (s *session) checkHeard(t *turn) {
	_, heard := s.w.model.times(t.input)
	at := 0
	for _, earlier := range s.turns {
		if earlier == t {
			return
		}
		if earlier.agent == "" || earlier.state != "completed" {
			continue
		}
		i := slices.Index(heard[at:], earlier.input)
		if i < 0 {
			s.fail(t, "the model was not told of %q, or not in order: %q", earlier.input, heard)
			return
		}
		at += i + 1
	}
}
