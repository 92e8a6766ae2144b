package wire

import (
	"context"
	"net/http"
	"regexp"
	"sync"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/heavy"
)

// Lessons are what the models of a server have refused, or insist on, each under a name that the adapter gives it. They are safe for concurrent
// use; the zero value is ready.
type Lessons struct{ known sync.Map }

type lesson struct{ model, what string }

// Knows says whether a model has taught this.
func (l *Lessons) Knows(model, what string) bool {
	_, known := l.known.Load(lesson{model, what})
	return known
}

// Learn takes down what a model has taught; false where that is known already.
func (l *Lessons) Learn(model, what string) bool {
	_, known := l.known.LoadOrStore(lesson{model, what}, true)
	return !known
}

// Lesson is what a refusal teaches if something was sent and the refusal names it.
type Lesson struct {
	What string
	Sent bool
	Says string // a regular expression, in small letters
	Once bool   // it holds for this request alone
}

// Taught returns the first lesson that a refusal teaches; "" where it teaches none.
func Taught(said string, lessons []Lesson) (what string, once bool) {
	for _, l := range lessons {
		if l.Sent && regexp.MustCompile(l.Says).MatchString(said) {
			return l.What, l.Once
		}
	}
	return "", false
}

// Asking is one request to a model: what it has taught holds for it, and what its own refusals teach.
type Asking struct {
	Lessons *Lessons
	Model   string
	now     map[string]bool
}

// Knows says whether a lesson holds for this request.
func (a *Asking) Knows(what string) bool { return a.now[what] || a.Lessons.Knows(a.Model, what) }

// Ask sends what write makes until it is taken, and returns the answer: status 200. size is about how many bytes that is. Where it is refused,
// giveIn says what that teaches: "" is nothing, once that it holds for this request alone. Each lesson is learned once by a request, so it ends. It is
// kept for the model when the answer has shown that it helps: what is wrong with one request is not taken for what a model refuses.
func (s *Server) Ask(ctx context.Context, a *Asking, size int64, write func() ([]byte, error), send func([]byte) (*http.Response, *Refusal, error),
	giveIn func(*Refusal) (what string, once bool), refused func(*Refusal) *adapter.Error,
) (*http.Response, error) {
	var kept, said []string
	for {
		var body []byte
		var err error
		heavy.Do(int(size), func() { body, err = write() })
		if _, ours := err.(*adapter.Error); ours {
			return nil, err
		}
		if err != nil {
			return nil, &adapter.Error{
				Code: adapter.CodeInvalid, Message: "the request to the model cannot be written: a schema is not JSON",
				Cause: adapter.RedactError(err, s.Key()),
			}
		}
		res, refusal, err := send(body)
		if err != nil {
			return nil, err
		}
		if refusal == nil {
			for i, what := range kept {
				a.Lessons.Learn(a.Model, what)
				adapter.Learned(ctx, said[i])
			}
			return res, nil
		}
		what, once := giveIn(refusal)
		if what == "" || a.now[what] {
			return nil, refused(refusal)
		}
		if a.now == nil {
			a.now = map[string]bool{}
		}
		if a.now[what] = true; !once {
			kept, said = append(kept, what), append(said, s.Redact(refusal.Body))
		}
	}
}
