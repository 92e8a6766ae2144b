package run

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// TubeOptions are those of tubes that no manager makes.
func TubeOptions(maxLog int) *tube.Options {
	return &tube.Options{MaxBytes: maxLog, Document: func() tube.Document { return new(jsonuri.Document) }}
}

// codeNotDurable is said of what is not stored.
const codeNotDurable = "not_durable"

// mustJSON is for what can always be JSON: our own types, and text of requests that was read as such.
func mustJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("web: %w", err))
	}
	return text
}

// leftRun is a run that its replica has left.
type leftRun struct {
	begun
	id      string
	of      Subject
	owner   string
	at      time.Time // when it began
	queued  bool      // its turn has not begun for certain
	attempt int       // of the replica that takes it over
	crashes int       // in a row
	told    agent.Told
	// suspended says that it waited for people, and nothing was lost. questions are the ids of those that readers know.
	suspended bool
	questions map[string]bool
	stored
}

func hasEnded(t *tube.Tube) bool {
	select {
	case <-t.Ended():
		return true
	default:
		return false
	}
}

// cutMessage is what clients are told about a run that the end of the server has cut off.
const cutMessage = "the server stopped during this run; the run's events so far are kept"

// Epoch is how many numbers of events each attempt of a run has, and its end after a crash: more than any sends, so that no
// number ever means two events, whatever was seen before it could be written down. They stay far below 2⁵³.
const Epoch = 1 << 32

// nextEpoch is the number of the first event that nobody can have seen.
func nextEpoch(t *tube.Tube) uint64 { return (t.Len()/Epoch + 1) * Epoch }

// firstEvent is the number of the first event of the next attempt.
func (p *leftRun) firstEvent() uint64 {
	return max(nextEpoch(p.tube), uint64(p.attempt-1)*Epoch)
}

// ended makes of it a run that has ended, cutting it off where it has not.
func (p *leftRun) ended(end takenEnd) *Run {
	t := p.tube
	r := &Run{
		ID: p.id, Of: p.of, owner: p.owner, session: p.Session, tube: t, Keyed: p.Keyed, Began: p.at, done: make(chan struct{}),
		where: newLocation(), recording: &recording{attempt: p.attempt, seq: 1},
	}
	if !hasEnded(t) {
		t.Leap(p.firstEvent())
		message := end.message
		if p.Keyed {
			message += "; start it again with another Idempotency-Key"
		}
		data, _ := json.Marshal(ling.ErrorData{Code: end.code, Message: message, Retryable: end.code != codeCrashed, Fatal: true})
		_, _ = t.Send(tube.Event{Kind: tube.Named, Name: "error", Value: data}) // cannot fail: it goes on, and this is JSON
		_ = t.Close(end.status)
	}
	r.result = resultFromEvents(t)
	r.result.Session = p.Session
	close(r.done)
	return r
}

// resultFromEvents puts together what the events of a run say of it.
func resultFromEvents(t *tube.Tube) Result { return resultOf(ling.ResultOf(t)) }
