package run

import (
	"encoding/json"
	"fmt"

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
	origin
	stored
	queued  bool // its turn had not begun
	attempt int  // of the replica that takes it over
	crashes int  // in a row
	told    agent.Told
	// suspended says that it waited for people, and nothing was lost. questions are the ids of those that readers know.
	suspended bool
	questions map[string]bool

	// Of a run that waits for one of the slots of runs that go on. It is there meanwhile, for those who come back, and can be canceled.
	slot     chan struct{} // gives it one
	canceled <-chan struct{}
}

// hasEnded reports whether the end of a tube can be seen.
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

// otherKey follows why a run with an Idempotency-Key was cut off.
const otherKey = "; start it again with another Idempotency-Key"

// Epoch is how many numbers of events each attempt of a run has, and its end after a crash: more than any sends, so that no
// number ever means two events, whatever was seen before it could be written down. They stay far below 2⁵³.
const Epoch = 1 << 32

// firstEvent is the number of the first event of the next attempt, which nobody can have seen.
func (p *leftRun) firstEvent() uint64 {
	return max((p.tube.Len()/Epoch+1)*Epoch, uint64(p.attempt-1)*Epoch)
}

// endLeft ends a run that was taken over and does not go on.
func (s *Service) endLeft(p *leftRun, end *ling.ErrorData) {
	s.noteCut(p)
	over := hasEnded(p.tube)
	if !over {
		p.tube.Leap(p.firstEvent())
		if p.Keyed {
			end.Message += otherKey
		}
		status := StatusInterrupted
		if end.Code == codeCrashed {
			status = StatusFailed
		}
		_, _ = p.tube.Send(tube.Event{Kind: tube.Named, Name: "error", Value: mustJSON(end)}) // cannot fail: it goes on
		_ = p.tube.Close(status)
	}
	r := newRun(p.origin)
	r.tube, r.recording = p.tube, &recording{attempt: p.attempt, seq: 1}
	r.result = resultOf(ling.ResultOf(p.tube))
	r.result.Session = p.Session
	close(r.done)
	switch {
	case !s.storeEnd(r, &r.result), over:
	case end.Code == codeCrashed:
		s.log.ErrorContext(r.Context(), "run ended: servers crashed again and again during it", "run", r.ID, r.Of.attr(), "crashes", p.crashes)
	default:
		s.log.WarnContext(r.Context(), "run cut off: its server ended", "run", r.ID, "events", r.tube.Len()%Epoch)
	}
}

// interrupted is the error of a run that cannot go on. reason follows the sentence.
func interrupted(reason string) *ling.ErrorData {
	return &ling.ErrorData{Code: codeInternal, Message: cutMessage + reason, Retryable: true, Fatal: true}
}

// whyNotResumed returns how a run ends that was cut off and does not go on; nil where it goes on.
func whyNotResumed(p *leftRun) *ling.ErrorData {
	switch {
	case p.Again == nil, hasEnded(p.tube):
		return interrupted("")
	case p.crashes >= MaxCrashes:
		message := fmt.Sprintf("the server stopped %d times in a row during this run, so the run does not continue", p.crashes)
		return &ling.ErrorData{Code: codeCrashed, Message: message, Fatal: true}
	}
	return nil
}
